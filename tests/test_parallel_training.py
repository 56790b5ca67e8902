"""One training in two processes: the model of one process, also after a kill, and the device of each process."""

import json
import os
import shutil
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

from keycontrast.errors import CRASHED, InputError
from models.common.processes import add_gradients_of_all, total_of_all
from models.common.training import fit
from stages.common import distributed, training
from stages.common.distributed import process_group
from stages.common.paths import DatasetPaths, ModelPaths
from stages.common.settings import module_of
from stages.run import process
from stages.run.checkpoints import FolderCheckpoints
from stages.run.process import RECORDS, SCRATCH, run_stage
from stages.run.processes import alive
from stages.tracks.hcl import train as train_hcl

ROOT = Path(__file__).parents[1]
EPOCHS, KILLED_AFTER = 5, 3
SETTINGS = {"epochs": EPOCHS, "patience": EPOCHS, "learning_rate": 1e-3}
SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["stages.tracks.hcl.train"])  # its imports take seconds: once is enough


class Deadly(FolderCheckpoints):
    """Ends its process for good after some checkpoints."""

    saves = 0

    def save(self, *state):
        super().save(*state)
        self.saves += 1
        if self.saves == KILLED_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)


def worker(folder, rank, port, deadly, stage, name):
    """Train as a process that torchrun has started, and leave what it says in a file."""
    with (folder / f"said-{rank}").open("wb") as file:
        os.dup2(file.fileno(), 2)
    if deadly:
        training.FolderCheckpoints = Deadly
    local = 0 if folder.name == str(rank) else rank  # on a machine of its own
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(local), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    os.chdir(folder)
    sys.exit(import_module(module_of(stage)).main([name]))


def statuses_of(processes):
    for one in processes:
        one.join(timeout=60)
    return [one.exitcode for one in processes]


def start_two(folder, deadly=False, stage="train_hcl", name="hcl"):
    """Start two processes in ``folder``, or each in a folder there that has its number, as on machines of their own."""
    port = free_port()
    homes = [folder / str(rank) if (folder / str(rank)).exists() else folder for rank in range(2)]
    processes = [SERVER.Process(target=worker, args=(home, rank, port, deadly, stage, name))
                 for rank, home in enumerate(homes)]
    for one in processes:
        one.start()
    return processes


def until(happened, seconds=60.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def write_two(folder):
    """Write the same project into the folders of two machines."""
    with pytest.MonkeyPatch.context() as patch:
        for rank in range(2):
            (folder / str(rank)).mkdir(parents=True)
            patch.chdir(folder / str(rank))
            tiny_training.write_project(folder / str(rank), **SETTINGS)


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory):
    """Folder of a training by two processes that was killed on its way, and the state that the kill left."""
    folder = tmp_path_factory.mktemp("shared")
    write_two(folder)
    first = start_two(folder, deadly=True)
    statuses_of(first)  # the second finds that the other is gone
    (folder / "1" / "said-1").rename(folder / "1" / "first")
    scratch = folder / "0" / SCRATCH / "train_hcl" / "hcl" / "13" / "checkpoints"
    last = max(scratch.glob("*/*/whole.json"), key=lambda record: int(record.parent.name)).parent
    state = json.loads((last / "state.json").read_text())
    statuses_of(second := start_two(folder))
    assert not (folder / "1" / SCRATCH).exists() and not (folder / "1" / ModelPaths("hcl", 13).folder).exists()
    return folder / "0", state, [one.exitcode for one in (*first, *second)]


@pytest.mark.whole
def test_two_processes_killed_and_resumed_train_the_model_of_one(killed_and_resumed, tmp_path, monkeypatch):
    folder, state, statuses = killed_and_resumed
    assert statuses == [-signal.SIGKILL, CRASHED, 0, 0]
    assert state["step"] == KILLED_AFTER and not state["finished"]
    monkeypatch.chdir(tmp_path)
    tiny_training.write_project(tmp_path, **SETTINGS)
    assert train_hcl.main(["hcl"]) == 0
    alone, shared = (load_file(home / ModelPaths("hcl", 13).weights / "model.safetensors")
                     for home in (tmp_path, folder))
    assert max((alone[name] - shared[name]).abs().max().item() for name in alone) < 1e-5
    first, second = (pd.read_csv(home / ModelPaths("hcl", 13).history) for home in (tmp_path, folder))
    pd.testing.assert_frame_equal(first, second, rtol=1e-3, atol=1e-5)


@pytest.mark.whole
def test_machines_with_folders_of_their_own_go_on_from_the_first_ones_checkpoint_to_the_same_bytes(
        killed_and_resumed, tmp_path):
    write_two(tmp_path)
    assert statuses_of(start_two(tmp_path)) == [0, 0]
    for path in (ModelPaths("hcl", 13).weights / "model.safetensors", ModelPaths("hcl", 13).history):
        assert (tmp_path / "0" / path).read_bytes() == (killed_and_resumed[0] / path).read_bytes()


def test_a_machine_whose_peer_is_killed_says_so(killed_and_resumed):
    said = (killed_and_resumed[0].parent / "1" / "first").read_text()
    assert said.startswith("train_hcl@hcl: another process of this training has ended") and "Traceback" not in said


def test_machines_that_differ_are_refused(tmp_path):
    write_two(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path / "1")
        tiny_training.write_params(tmp_path / "1", **{**SETTINGS, "learning_rate": 2e-3})
    assert statuses_of(start_two(tmp_path)) == [1, 1]
    for rank in range(2):
        said = (tmp_path / str(rank) / f"said-{rank}").read_text()
        assert said.startswith("train_hcl: the processes that train train_hcl@hcl differ in params"), said
    shutil.rmtree(tmp_path / "1" / DatasetPaths("tiny").table("node_vectors"))
    assert statuses_of(start_two(tmp_path)) == [CRASHED, 1]
    first, second = ((tmp_path / str(rank) / f"said-{rank}").read_text() for rank in range(2))
    assert "node_vectors: no such" in second and "another process of this training has ended" in first


def test_the_first_of_two_processes_alone_leaves_a_record_and_artifacts(killed_and_resumed):
    folder, *_ = killed_and_resumed
    record = json.loads((folder / RECORDS / "train_hcl@hcl.json").read_text())
    assert record["training"]["steps"] == EPOCHS * 2 and record["training"]["processes"] == 2
    assert not list((folder / SCRATCH).rglob("*.safetensors"))
    assert {path.name for path in (folder / ModelPaths("hcl", 13).folder).iterdir()} == {
        "model", "history.csv", "items.parquet", "metrics.json"}


SCRIPT = """
import os, sys, time
from pathlib import Path
from stages.run.processes import die_with

die_with(os.getppid())
folder = Path(sys.argv[1])
(folder / f"started-{os.environ['RANK']}").write_text(str(os.getpid()))
time.sleep(60)
"""


def test_processes_end_with_the_one_that_started_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "script.py").write_text(SCRIPT)
    arguments = [str(tmp_path / "script.py"), str(tmp_path)]
    launch = f"from stages.common.distributed import *; start_processes({arguments!r}, 2)"
    launching = subprocess.Popen([sys.executable, "-c", launch])
    notes = [tmp_path / f"started-{rank}" for rank in range(2)]
    until(lambda: all(note.exists() and note.read_text() for note in notes))
    launching.send_signal(signal.SIGKILL)
    launching.wait()
    until(lambda: not any(alive(int(note.read_text())) for note in notes), seconds=10)


def test_a_stage_starts_its_processes_unless_torchrun_has(tmp_path, monkeypatch, capsys):
    """Two processes in params start ``python -m``; one that was started works, and is silent unless it is first."""
    monkeypatch.chdir(tmp_path)
    tiny_training.write_params(tmp_path)
    started, worked = [], []
    monkeypatch.setattr(process, "start_processes", lambda *call: started.append(call) or 5)

    def work(stage):
        worked.append((stage.first, stage.scratch))
        raise InputError("the table is empty")

    def stage(processes):
        return run_stage("train_hcl", work, ["hcl"], "MODEL", lambda: processes)

    assert stage(2) == 5 and started == [(["-m", "stages.run.processes", __name__, "hcl"], 2)] and not worked
    assert stage(1) == 1 and worked == [(True, SCRATCH / "train_hcl" / "hcl")]
    assert "train_hcl: the table is empty" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert stage(2) == 1 and worked[1] == (False, SCRATCH / "train_hcl" / "hcl") and len(started) == 1
    assert capsys.readouterr().err == "" and not RECORDS.exists()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def meet(folder, rank):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    group.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)


def exchange(folder, rank):
    """Send gradients and sums as one of two processes, and keep what came."""
    meet(folder, rank)
    weights = [nn.Parameter(torch.full((3,), float(number))) for number in range(5)]
    found = {"steps": []}

    def step(*used):
        for one in weights:
            one.grad = None
        if used:
            sum((number + 1) * weights[number].sum() * (rank + 1) for number in used).backward()
        add_gradients_of_all(weights)
        found["steps"].append([None if one.grad is None else one.grad.tolist() for one in weights])

    step(0, 1, 2, 3, 4)
    step(*[(0, 1, 2), (4,)][rank])
    step(*[(3, 4), ()][rank])
    found["sums"] = total_of_all([{"a": 1.0, "b": 2.0}, {"b": 0.5, "c": 4.0}][rank])
    torch.save(found, folder / f"{rank}.pt")


def run_two(target, folder):
    processes = [SERVER.Process(target=target, args=(folder, rank)) for rank in range(2)]
    for one in processes:
        one.start()
    assert statuses_of(processes) == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_gradients_and_sums_of_all_processes_are_added(tmp_path):
    first, second = run_two(exchange, tmp_path)
    filled = [[3.0 * (number + 1)] * 3 for number in range(5)]
    assert first["steps"][0] == second["steps"][0] == filled
    mixed = [[1.0] * 3, [2.0] * 3, [3.0] * 3, None, [10.0] * 3]
    assert first["steps"][1] == second["steps"][1] == mixed
    assert first["steps"][2] == second["steps"][2] == [None, None, None, [4.0] * 3, [5.0] * 3]
    assert first["sums"] == {"a": 1.0, "b": 2.5, "c": 4.0} == second["sums"]


def share(folder, rank):
    """Fit as one of two processes, without a stage around it; the second begins with other weights."""
    meet(folder, rank)
    task, store = Regression(), Memory()
    task.module[1] = nn.Identity()  # running statistics depend on who sees which micro-batch
    with torch.no_grad():
        task.module[0].bias += rank  # as if another processor had drawn them
    history = fit(task, ACCUMULATING, store, SEED)
    torch.save({"weights": weights(task), "losses": [row["train_loss"] for row in history.rows],
                "seen": len(task.seen), "begun": task.begun, "validated": task.validated, "saves": store.saves},
               folder / f"{rank}.pt")


def test_two_processes_share_the_micro_batches_and_train_the_same_model(tmp_path):
    first, second = run_two(share, tmp_path)
    alone = Regression()
    alone.module[1] = nn.Identity()
    history = fit(alone, ACCUMULATING, Memory(), SEED)
    assert_same(first["weights"], second["weights"])
    assert first["begun"] == second["begun"] == alone.begun  # also of a step without a micro-batch of the own
    for name, expected in weights(alone).items():
        torch.testing.assert_close(first["weights"][name], expected)
    np.testing.assert_allclose(first["losses"], [row["train_loss"] for row in history.rows], rtol=1e-5)
    assert first["seen"] == second["seen"] == len(alone.seen) / 2 == 2 * (2 + 1)
    assert first["saves"] > 0 and second["saves"] == 0
    assert (first["validated"], second["validated"]) == (2, 0)
    assert alone.module.unused.grad is None


@pytest.fixture
def joined(monkeypatch):
    """Pretend to be one of two processes; returns what each call to torch was."""
    calls = []
    monkeypatch.setattr(group, "init_process_group", lambda backend, **more: calls.append(backend))
    monkeypatch.setattr(group, "destroy_process_group", lambda: calls.append("left"))
    monkeypatch.setattr(torch.cuda, "set_device", calls.append)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def be(rank, devices):
        for name, value in (("WORLD_SIZE", 2), ("RANK", rank), ("LOCAL_RANK", rank)):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
        return calls

    return be


@pytest.mark.parametrize(("kind", "rank", "devices", "expected", "calls"), [
    ("cuda", 0, 2, "cuda:0", ["cuda:0", "nccl"]), ("cuda", 1, 2, "cuda:1", ["cuda:1", "nccl"]),
    ("cuda", 1, 1, "cuda:0", ["cuda:0", "nccl"]),    # a scheduler shows each process one device
    ("cpu", 1, 0, "cpu", ["gloo"])])
def test_each_process_takes_a_device_of_its_own(joined, kind, rank, devices, expected, calls):
    seen = joined(rank, devices)
    with process_group(kind) as found:
        assert found == expected and seen == calls
    assert seen[-1] == "left"


def test_more_processes_than_devices_are_refused(joined, monkeypatch):
    joined(1, devices=0)
    with (pytest.raises(InputError, match="2 processes are to share a training here, and 0 GPUs are visible"),
          process_group("cuda")):
        pass
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    with pytest.raises(InputError, match=r"and 2 GPUs are visible \(CUDA_VISIBLE_DEVICES=3,5\). Set runtime.processes "
                                         "to at most 2"):
        distributed.check_devices(3, 2)
