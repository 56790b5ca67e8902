"""Two machines, each a clone with artifacts and scratch of its own, that train one model by ``torchrun``."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
import tiny_training
from source_imports import ROOT
from test_parallel_training import free_port, until

from stages.common.paths import ModelPaths
from stages.run.process import SCRATCH

# Six commands, each of which imports torch twice.
pytestmark = [pytest.mark.timeout(900), pytest.mark.whole]
EPOCHS = 30


def make_clone(home):
    """Write a project that has its code beside it, as a clone has."""
    home.mkdir(parents=True)
    for folder in ("models", "stages"):
        shutil.copytree(ROOT / folder, home / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", home)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        tiny_training.write_project(home, epochs=EPOCHS, patience=EPOCHS, learning_rate=1e-3)
    return home


def start(home, node, port):
    """Start the training as a person does on this machine; both have the loopback for a network."""
    with (home / "said").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node), "--master-addr",
             "127.0.0.1", "--master-port", str(port), "-m", "stages.tracks.hcl.train", "hcl"], cwd=home, stderr=said,
            start_new_session=True, env={**os.environ, "PYTHONPATH": str(home), "GLOO_SOCKET_IFNAME": "lo"})


def test_killed_on_one_machine_and_begun_again_on_both_it_ends_in_the_bytes_of_an_undisturbed_one(tmp_path):
    begun = []

    def started(homes):
        port = free_port()
        begun.extend(start(home, node, port) for node, home in enumerate(homes))
        return begun[-2:]

    try:
        pair = [make_clone(tmp_path / name) for name in ("one", "the other")]
        machines = started(pair)
        scratch = pair[0] / SCRATCH / "train_hcl" / "hcl" / "13" / "checkpoints"
        until(lambda: len(list(scratch.glob("*/*/whole.json"))) == 2 or machines[0].poll() is not None, 120)
        os.killpg(machines[0].pid, signal.SIGKILL)
        assert [machine.wait(60) for machine in machines] == [-signal.SIGKILL, 1]
        assert "another process of this training has ended" in (pair[1] / "said").read_text()
        assert not (pair[0] / ModelPaths("hcl", 13).folder).exists() and list(scratch.glob("*/*/whole.json"))
        assert [machine.wait(200) for machine in started(pair)] == [0, 0], (pair[0] / "said").read_text()
        assert not (pair[1] / ModelPaths("hcl", 13).folder).exists() and not (pair[1] / SCRATCH).exists()
        others = [make_clone(tmp_path / "elsewhere" / name) for name in ("a", "b")]
        assert [machine.wait(200) for machine in started(others)] == [0, 0]
    finally:
        for machine in begun:
            machine.kill()
    for path in (ModelPaths("hcl", 13).weights / "model.safetensors", ModelPaths("hcl", 13).history):
        assert (others[0] / path).read_bytes() == (pair[0] / path).read_bytes()
