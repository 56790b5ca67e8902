"""A training that is asked to stop takes a checkpoint after its step, and goes on from there to the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import tiny_training
from source_imports import ROOT

from stages.common.paths import ModelPaths
from stages.tracks.hcl import train as train_hcl

# The signal comes while the third step is counted; no checkpoint is due for an hour.
PROGRAM = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from stages.run import stopping
from stages.tracks.common import training
from stages.tracks.hcl import train as train_hcl

class Bar:
    steps = 0
    def update(self, n=1):
        self.steps += n
        if self.steps == 3:
            os.kill(os.getpid(), signal.SIGTERM)
    def end_epoch(self, row):
        pass
    def close(self):
        pass

training.training_bar = lambda process: lambda total, done: Bar()
stopping.listen()
sys.exit(train_hcl.main(["hcl"]))
"""


def test_a_training_that_is_asked_to_stop_saves_and_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    weights = {}
    for name in ("through", "stopped"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        tiny_training.write_project(tmp_path / name, runtime={"checkpoint_minutes": 60})
        if name == "stopped":
            ended = subprocess.run([sys.executable, "-c", PROGRAM, str(ROOT)],
                                   check=False, capture_output=True, text=True,
                                   env={**os.environ, "OMP_NUM_THREADS": "1"})
            assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
            states = sorted(Path(".keycontrast/scratch").rglob("state.json"))  # the one before it is kept
            assert len(states) == 2 and '"step": 3' in states[-1].read_text()
        assert train_hcl.main(["hcl"]) == 0
        weights[name] = (ModelPaths("hcl", 13).weights / "model.safetensors").read_bytes()
    assert weights["through"] == weights["stopped"]
