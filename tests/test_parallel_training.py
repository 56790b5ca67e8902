"""One training in two processes: the model of one process, also after a kill."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny_training
import torch
from memory_store import Memory
from safetensors.torch import load_file
from test_training_loop import ACCUMULATING, SEED, Regression, assert_same, weights
from torch import distributed as group
from torch import nn

from models.training import fit
from stages import train_hcl
from stages.artifacts.paths import ModelPaths
from stages.runtime import distributed, process, training
from stages.runtime.checkpoints import FolderCheckpoints
from stages.runtime.errors import InputError
from stages.runtime.process import RECORDS, SCRATCH, run_stage

ROOT = Path(__file__).parents[1]
EPOCHS, KILLED_AFTER = 5, 3
SETTINGS = {"epochs": EPOCHS, "patience": EPOCHS, "learning_rate": 1e-3}
SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["stages.train_hcl"])  # its imports take seconds: once is enough


class Deadly(FolderCheckpoints):
    """Ends its process for good after some checkpoints."""

    saves = 0

    def save(self, *state):
        super().save(*state)
        self.saves += 1
        if self.saves == KILLED_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)


def worker(folder, rank, port, deadly, stage, name):
    """Train as a process that torchrun has started."""
    if deadly:
        training.FolderCheckpoints = Deadly
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    os.chdir(folder)
    sys.exit(import_module(f"stages.{stage}").main([name]))


def start_two(folder, deadly=False, stage="train_hcl", name="hcl"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [SERVER.Process(target=worker, args=(folder, rank, port, deadly, stage, name)) for rank in range(2)]
    for one in processes:
        one.start()
    return processes


def until(happened, seconds=60.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory):
    """Folder of a training by two processes that was killed on its way, and the state that the kill left."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_training.write_project(folder, **SETTINGS)
    first = start_two(folder, deadly=True)
    first[0].join(timeout=60)
    first[1].kill()  # it waits for the other
    first[1].join()
    scratch = folder / SCRATCH / "train_hcl" / "hcl" / "checkpoints"
    current = next(scratch.glob("*/current"))
    state = json.loads((current.parent / str(json.loads(current.read_text())["state"]) / "state.json").read_text())
    second = start_two(folder)
    for one in second:
        one.join(timeout=60)
    return folder, state, [one.exitcode for one in (*first, *second)]


def test_two_processes_killed_and_resumed_train_the_model_of_one(killed_and_resumed, tmp_path, monkeypatch):
    folder, state, statuses = killed_and_resumed
    assert statuses == [-signal.SIGKILL, -signal.SIGKILL, 0, 0] or statuses == [-signal.SIGKILL, 1, 0, 0]
    assert state["step"] == KILLED_AFTER and not state["finished"]
    monkeypatch.chdir(tmp_path)
    tiny_training.write_project(tmp_path, **SETTINGS)
    assert train_hcl.main(["hcl"]) == 0
    alone, shared = (load_file(home / ModelPaths("hcl").weights / "model.safetensors") for home in (tmp_path, folder))
    assert max((alone[name] - shared[name]).abs().max().item() for name in alone) < 1e-5
    first, second = (pd.read_csv(home / ModelPaths("hcl").history) for home in (tmp_path, folder))
    pd.testing.assert_frame_equal(first, second, rtol=1e-3, atol=1e-5)


def test_the_first_of_two_processes_alone_leaves_a_record_and_artifacts(killed_and_resumed):
    folder, *_ = killed_and_resumed
    record = json.loads((folder / RECORDS / "train_hcl@hcl.json").read_text())
    assert record["training"]["steps"] == EPOCHS * 2 and record["training"]["processes"] == 2
    assert not list((folder / SCRATCH).rglob("*.safetensors"))
    assert {path.name for path in (folder / ModelPaths("hcl").folder).iterdir()} == {
        "model", "history.csv", "items.parquet", "metrics.json"}


SCRIPT = """
import os, sys, time
from pathlib import Path
from stages.runtime.distributed import is_first, launcher
from stages.runtime.guard import die_with, watched_ancestors

die_with([*watched_ancestors(), *launcher()])
folder = Path(sys.argv[1])
(folder / f"started-{os.environ['RANK']}").write_text(str(os.getpid()))
if sys.argv[2] == "wait":
    time.sleep(60)
if sys.argv[2] == "fail" and is_first():
    sys.exit(3)
(folder / f"ended-{os.environ['RANK']}").write_text(os.environ["WORLD_SIZE"])
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(distributed.ORCHESTRATOR, "")  # put back after the test
    (tmp_path / "script.py").write_text(SCRIPT)
    return [str(tmp_path / "script.py"), str(tmp_path)]


def test_processes_are_started_and_their_failure_is_the_exit_status(script, tmp_path):
    assert distributed.start_processes([*script, "end"], 2) == 0
    assert [(tmp_path / f"ended-{rank}").read_text() for rank in range(2)] == ["2", "2"]
    assert distributed.start_processes([*script, "fail"], 2) == 3


def test_processes_end_with_the_one_that_started_them(script, tmp_path):
    launch = f"from stages.runtime.distributed import start_processes; start_processes({[*script, 'wait']!r}, 2)"
    launching = subprocess.Popen([sys.executable, "-c", launch])
    notes = [tmp_path / f"started-{rank}" for rank in range(2)]
    until(lambda: all(note.exists() and note.read_text() for note in notes))
    launching.send_signal(signal.SIGKILL)
    launching.wait()
    until(lambda: not any(distributed.process_mark(int(note.read_text())) for note in notes), seconds=10)


def test_a_stage_starts_its_processes_unless_torchrun_has(tmp_path, monkeypatch, capsys):
    """Two processes in params start ``python -m``; one that was started works, and is silent unless it is first."""
    monkeypatch.chdir(tmp_path)
    started, worked = [], []
    monkeypatch.setattr(process, "start_processes", lambda *call: started.append(call) or 5)

    def work(stage):
        worked.append((stage.first, stage.scratch))
        raise InputError("the table is empty")

    def stage(processes):
        return run_stage("train_hcl", work, ["hcl"], "MODEL", lambda: processes)

    assert stage(2) == 5 and started == [(["-m", "stages.train_hcl", "hcl"], 2)] and not worked
    assert stage(1) == 1 and worked == [(True, SCRATCH / "train_hcl" / "hcl")]
    assert "train_hcl: the table is empty" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert stage(2) == 1 and worked[1] == (False, SCRATCH / "train_hcl" / "hcl") and len(started) == 1
    assert capsys.readouterr().err == "" and not RECORDS.exists()
    assert re.match(rf"{os.getppid()}:\d+$", distributed.launcher()[0])


def share(folder, rank):
    """Fit as one of two processes, without a stage around it."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    group.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    task, store = Regression(), Memory()
    task.module[1] = nn.Identity()  # running statistics depend on who sees which micro-batch
    history = fit(task, ACCUMULATING, store, SEED)
    torch.save({"weights": weights(task), "losses": [row["train_loss"] for row in history.rows],
                "seen": len(task.seen), "validated": task.validated, "saves": store.saves}, folder / f"{rank}.pt")


def test_two_processes_share_the_micro_batches_and_train_the_same_model(tmp_path):
    processes = [SERVER.Process(target=share, args=(tmp_path, rank)) for rank in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(timeout=60)
    assert [one.exitcode for one in processes] == [0, 0]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    alone = Regression()
    alone.module[1] = nn.Identity()
    history = fit(alone, ACCUMULATING, Memory(), SEED)
    assert_same(first["weights"], second["weights"])
    for name, expected in weights(alone).items():
        torch.testing.assert_close(first["weights"][name], expected)
    np.testing.assert_allclose(first["losses"], [row["train_loss"] for row in history.rows], rtol=1e-5)
    assert first["seen"] == second["seen"] == len(alone.seen) / 2 == 2 * (2 + 1)
    assert first["saves"] > 0 and second["saves"] == 0
    assert (first["validated"], second["validated"]) == (2, 0)
    assert alone.module.unused.grad is None
