"""A pipeline of one data set and one track by both orchestrators: its keywords, and a training that is killed.

All stages at their own sizes: test_whole_pipeline.py.
In `make test`: test_flow.py, and a training of each track that is killed.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_project

DVC = (sys.executable, "-m", "dvc")
EPOCHS = 30
pytestmark = [pytest.mark.timeout(1500), pytest.mark.whole]


def make(folder, **runtime):
    """A project of questions, their keywords and one classifier of them."""
    params = tiny_project.params()
    none = {"datasets": []}
    tiny_project.make(folder)
    tiny_project.write_params(
        folder, runtime={**params["runtime"], **runtime}, datasets={"questions": params["datasets"]["questions"]},
        keywords={"datasets": ["questions"]}, attribution=none, psi=none, s_tagger=none, side_by_side=none, graph=none,
        node_vectors=none, paraphrase_items={}, confusing_pairs={}, runs={},
        models={"clld": {"ct": {"dataset": "questions", "encoder": "textcnn"}}},
        train_clld={**params["train_clld"], "training": {**params["train_clld"]["training"], "epochs": EPOCHS,
                                                         "patience": EPOCHS}})
    return folder


def processes_of(folder: Path) -> list[str]:
    """Command lines of live processes that work in ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").resolve() == folder.resolve():
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if line:
                    found.append(line)
        except OSError:  # it ended while we looked
            continue
    return found


def wait_for(condition, what, seconds=300.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_killed_while_training_it_goes_on_and_ends_in_the_bytes_of_dvc_alone(tmp_path):
    """DVC alone has other numbers of workers and another hash seed, is never killed, and nothing on its PATH."""
    flow, alone = make(tmp_path / "a project", workers=3), make(tmp_path / "dvc alone", workers=1)
    twin = subprocess.Popen([*DVC, "repro"], cwd=alone, env=tiny_project.environment(PYTHONHASHSEED="2",
                                                                                    PATH=os.defpath),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    run = subprocess.Popen(tiny_project.command("run"), cwd=flow, env=tiny_project.environment(PYTHONHASHSEED="1"),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoints = flow / ".keycontrast" / "scratch" / "train_clld"
    try:
        wait_for(lambda: list(checkpoints.glob("*/*/checkpoints/*/*/whole.json")), "no checkpoint was written",
                 seconds=900)
        run.send_signal(signal.SIGKILL)
        run.wait()
        wait_for(lambda: not processes_of(flow), f"orphans: {processes_of(flow)}", seconds=30)
    finally:
        run.kill()
        said, _ = twin.communicate(timeout=1200)
    assert twin.returncode == 0, said[-3000:]
    assert list(checkpoints.glob("*/*/checkpoints/*/*/whole.json"))
    assert not (flow / "artifacts" / "models" / "ct" / "13").exists()

    again = tiny_project.call(flow, *tiny_project.command("run"))
    assert again.returncode == 0, again.stdout[-3000:] + again.stderr[-3000:]
    assert "artifacts/report/index.html" in again.stdout
    assert {"annotate@questions", "keywords@questions", "train_clld@ct", "evaluate_clld@ct", "report"} <= set(
        tiny_project.lock(flow)["stages"])
    assert tiny_project.lock(flow) == tiny_project.lock(alone)
    assert not [path for path in (flow / "artifacts").rglob("*") if path.suffix == ".tmp"]
