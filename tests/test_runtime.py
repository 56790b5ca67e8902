"""The frame around a stage: clean errors, exclusive scratch, death with the command, seeds, checkpoints."""

import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from stages.runtime import guard
from stages.runtime.checkpoints import FolderCheckpoints
from stages.runtime.errors import InputError, nearest
from stages.runtime.fingerprint import hash_files, hash_values
from stages.runtime.process import run_stage
from stages.runtime.seeds import derived_seed, generator

ROOT = Path(__file__).resolve().parent.parent


def start(code, cwd, **environment):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=cwd, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_an_input_error_is_a_message_and_status_1(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def work(_process):
        raise InputError("a.csv, row 3: no text. Remove the row.")

    assert run_stage("ingest", work, ["sample"]) == 1
    assert capsys.readouterr().err == "ingest: a.csv, row 3: no text. Remove the row.\n"


def test_a_stage_knows_its_instance_and_leaves_a_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    assert run_stage("graph", lambda process: seen.append(process), ["sample"]) == 0
    assert seen[0].name == "graph@sample"
    assert (tmp_path / ".keycontrast/records/graph@sample.json").exists()


def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit):
        run_stage("graph", test_help_has_an_example, ["--help"])
    assert "example: python -m stages.graph dataset" in capsys.readouterr().out


def test_a_stage_dies_with_the_process_that_its_orchestrator_named(tmp_path):
    boss = start("import time; time.sleep(60)", tmp_path)
    worker = start("""
        import time
        from stages.runtime.guard import die_with, watched_ancestors
        die_with(watched_ancestors())
        print("ready", flush=True)
        time.sleep(60)
    """, tmp_path, KEYCONTRAST_ORCHESTRATOR=guard.process_mark(boss.pid))
    try:
        assert worker.stdout.readline() == "ready\n"
        assert worker.poll() is None
        boss.kill()
        boss.wait()
        assert worker.wait(timeout=20) == -signal.SIGKILL
    finally:
        boss.kill()
        worker.kill()


def test_a_stage_dies_with_dvc_even_behind_a_shell(tmp_path):
    program = tmp_path / "dvc"
    program.write_text("import subprocess, sys\nsubprocess.run(['sh', '-c', sys.argv[1] + '; true'])\n")
    stage = tmp_path / "stage.py"
    stage.write_text(textwrap.dedent("""
        import os, pathlib, time
        from stages.runtime.guard import die_with, watched_ancestors
        marks = watched_ancestors()
        die_with(marks)
        pathlib.Path("pid.tmp").write_text(f"{os.getpid()} {len(marks)}")
        pathlib.Path("pid.tmp").rename("pid")
        time.sleep(60)
    """))
    dvc = subprocess.Popen([sys.executable, str(program), shlex.join([sys.executable, str(stage)])], cwd=tmp_path,
                           env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_until((tmp_path / "pid").exists)
        pid, marks = map(int, (tmp_path / "pid").read_text().split())
        assert marks == 2
        assert guard.process_mark(pid)
        dvc.kill()
        dvc.wait()
        wait_until(lambda: guard.process_mark(pid) is None)
    finally:
        dvc.kill()


def test_one_process_holds_a_scratch_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "_LOCK_SECONDS", 0.2)
    holder = start("""
        import time
        from pathlib import Path
        from stages.runtime.guard import exclusive
        with exclusive(Path("scratch"), "train_hcl hcl"):
            print("held", flush=True)
            time.sleep(60)
    """, tmp_path)
    try:
        assert holder.stdout.readline() == "held\n"
        with (pytest.raises(InputError, match=f"already running .process {holder.pid} holds"),
              guard.exclusive(tmp_path / "scratch", "train_hcl hcl")):
            pass
        holder.kill()
        holder.wait()
        with guard.exclusive(tmp_path / "scratch", "train_hcl hcl") as folder:
            assert folder.is_dir()
    finally:
        holder.kill()


def test_seeds_depend_on_names_and_on_nothing_else():
    assert derived_seed(13, "split", "train") == derived_seed(13, "split", "train")
    assert len({derived_seed(13, "a"), derived_seed(13, "b"), derived_seed(14, "a"), derived_seed(13, "a", 1)}) == 4
    assert 0 <= derived_seed(0) < 2**63
    assert generator(1, "x").integers(1000) == generator(1, "x").integers(1000)


def test_checkpoints_keep_the_last_complete_state_of_their_key(tmp_path):
    store = FolderCheckpoints(tmp_path, "aaaa")
    assert store.load() is None
    for step in (1, 2, 3):
        store.save({"w": torch.full((2,), float(step))}, {"step": step, "loss": 0.1})
    tensors, values = FolderCheckpoints(tmp_path, "aaaa").load()
    assert tensors["w"].tolist() == [3.0, 3.0]
    assert values == {"step": 3, "loss": 0.1}
    assert FolderCheckpoints(tmp_path, "bbbb").load() is None
    assert FolderCheckpoints(tmp_path, "aaaa").load() is None


def test_a_kill_during_saving_keeps_the_former_checkpoint(tmp_path, monkeypatch):
    store = FolderCheckpoints(tmp_path, "aaaa")
    store.save({"w": torch.zeros(1)}, {"step": 1})
    monkeypatch.setattr("stages.runtime.checkpoints.json.dumps", lambda _values: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.save({"w": torch.ones(1)}, {"step": 2})
    monkeypatch.undo()
    tensors, values = FolderCheckpoints(tmp_path, "aaaa").load()
    assert values == {"step": 1}
    assert tensors["w"].item() == 0.0


def test_fingerprints_see_names_and_bytes(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    before = hash_files([tmp_path / "a"])
    assert hash_files([tmp_path / "a"]) == before
    (tmp_path / "a" / "x").write_text("2")
    assert hash_files([tmp_path / "a"]) != before
    assert hash_values({"a": 1, "b": 2}) == hash_values({"b": 2, "a": 1}) != hash_values({"a": 1, "b": 3})


def test_the_nearest_name_or_all_of_them():
    assert nearest("sead", ["seed", "recipe"]) == "did you mean 'seed'?"
    assert nearest("zzz", ["seed", "recipe"]) == "valid names: recipe, seed."
    assert nearest("zzz", []) == "nothing is available here."
