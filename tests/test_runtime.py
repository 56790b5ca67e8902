"""The frame around a stage: clean errors, exclusive scratch, death with the command, seeds, checkpoints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from keycontrast.errors import InputError
from stages.run.checkpoints import FolderCheckpoints

ROOT = Path(__file__).resolve().parent.parent


def save(store, step, best=False):
    """Save a state whose weights say its step."""
    store.save({"w": torch.full((2,), float(step))}, {"0/exp_avg": torch.full((2,), -float(step))},
               {"step": step, "loss": 0.1}, best)


def test_checkpoints_keep_the_last_complete_state_of_their_key_and_the_best_weights(tmp_path):
    store = FolderCheckpoints(tmp_path, "aaaa")
    assert store.load() is None
    for step, best in ((1, True), (2, False), (3, True), (4, False), (5, False)):
        save(store, step, best)
    again = FolderCheckpoints(tmp_path, "aaaa")
    weights, optimiser, values = again.load()
    assert weights["w"].tolist() == [5.0, 5.0] and optimiser["0/exp_avg"].tolist() == [-5.0, -5.0]
    assert values == {"step": 5, "loss": 0.1} and again.best()["w"].tolist() == [3.0, 3.0]
    assert sorted(path.relative_to(tmp_path / "checkpoints" / "aaaa").as_posix() for path in tmp_path.rglob("*.s*")
                  ) == ["3/weights.safetensors", *(f"{number}/{part}.safetensors" for number in (4, 5)
                                                    for part in ("optimiser", "weights"))]
    assert FolderCheckpoints(tmp_path, "bbbb").load() is None
    assert FolderCheckpoints(tmp_path, "aaaa").load() is None


def test_a_kill_during_saving_keeps_the_former_checkpoint(tmp_path, monkeypatch):
    store = FolderCheckpoints(tmp_path, "aaaa")
    save(store, 1, best=True)
    monkeypatch.setattr("stages.run.checkpoints.json.dumps", lambda _values: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(store, 2, best=True)
    monkeypatch.undo()
    store = FolderCheckpoints(tmp_path, "aaaa")
    assert store.load()[2]["step"] == 1 and store.best()["w"].tolist() == [1.0, 1.0]
    save(store, 2)
    assert store.load()[2]["step"] == 2 and store.best()["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("best", [True, False])
@pytest.mark.parametrize("part", ["weights.safetensors", "optimiser.safetensors", "state.json", "whole.json"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "bit", "gone"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_taken(tmp_path, part, damage, best, caplog):
    store = FolderCheckpoints(tmp_path, "aaaa")
    for step in (1, 2, 3):
        save(store, step, best or step == 1)
    file = tmp_path / "checkpoints" / "aaaa" / "3" / part
    whole = file.read_bytes()
    middle = len(whole) // 2
    file.write_bytes({"cut": whole[:middle], "emptied": b"", "gone": b"",
                      "bit": whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1:]}[damage])
    if damage == "gone":
        file.unlink()
    store = FolderCheckpoints(tmp_path, "aaaa")
    weights, optimiser, values = store.load()
    assert (weights["w"][0], optimiser["0/exp_avg"][0], values["step"]) == (2.0, -2.0, 2)
    assert store.best()["w"][0] == (2.0 if best else 1.0)
    assert part == "whole.json" or f"{file}: is damaged" in caplog.text
    save(store, 4)
    assert FolderCheckpoints(tmp_path, "aaaa").load()[2]["step"] == 4


def test_where_nothing_whole_is_left_a_training_begins_anew(tmp_path, caplog):
    store = FolderCheckpoints(tmp_path, "aaaa")
    save(store, 1, best=True)
    save(store, 2)
    file = tmp_path / "checkpoints" / "aaaa" / "1" / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(InputError, match="1/weights.safetensors: the best weights are damaged"):
        store.best()
    save(store, 1, best=True)
    save(store, 2)
    file.write_bytes(b"")
    store = FolderCheckpoints(tmp_path, "aaaa")
    assert store.load() is None and caplog.text.count("is damaged") == 2
    save(store, 1, best=True)
    assert store.load()[2]["step"] == 1 and store.best()["w"][0] == 1.0


def test_a_checkpoint_is_due_once_so_many_seconds_have_passed_since_the_last(tmp_path):
    now = [100.0]
    store = FolderCheckpoints(tmp_path, "aaaa", 60.0, clock=lambda: now[0])
    found = []
    for seconds in (59.0, 1.0, 30.0):
        now[0] += seconds
        found.append(store.due())
    save(store, 1)
    now[0] += 59.5
    found.append(store.due())
    assert found == [False, True, True, False]
    assert FolderCheckpoints(tmp_path, "aaaa").due()  # 0 seconds: after every step


def test_seeding_decides_the_kernels_whatever_the_environment_says(tmp_path):
    """A person's own workspace would decide which kernels sum in which order."""
    code = ("import os, torch\nfrom stages.common.seeds import seed_everything\nseed_everything(1, 2)\n"
            "print(os.environ['CUBLAS_WORKSPACE_CONFIG'], torch.are_deterministic_algorithms_enabled(), "
            "torch.get_num_threads(), torch.backends.cudnn.allow_tf32, torch.cuda.is_initialized())")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
                          env={**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":16:8"})
    assert done.stdout.split() == [":4096:8", "True", "2", "False", "False"]
