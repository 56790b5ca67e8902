"""A stage ends with the command that started it, locks its folder, finds its Python, and keeps freed memory."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from source_imports import ROOT

from keycontrast import files
from keycontrast.errors import InputError
from stages.run import processes
from stages.run.processes import ORCHESTRATOR, alive, exclusive

# Notes its process, and then waits as if it imported torch.
SLOW = ("import os, sys, time\n"
        "open(sys.argv[1] + '.tmp', 'w').write(str(os.getpid()))\n"
        "os.rename(sys.argv[1] + '.tmp', sys.argv[1])\n"
        "assert sys.argv[2:] == ['a']\ntime.sleep(60)\n")
GIVEN = {name: value for name, value in os.environ.items() if name != ORCHESTRATOR}


def until(happened, seconds=20.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def started(code, folder, **variables):
    """Start Python in ``folder``, and return it once it has said something."""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True,
                               env={**GIVEN, "PYTHONPATH": str(ROOT), **variables})
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("command", ["exec {}", "{}; exit $?"], ids=["directly", "behind a shell"])
def test_a_stage_that_still_imports_ends_with_dvc(tmp_path, command):
    (tmp_path / "stages").symlink_to(ROOT / "stages")
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "slow.py").write_text(SLOW)
    (tmp_path / "hook" / "sitecustomize.py").write_text(
        f"import stages\nstages.__path__.append({str(tmp_path / 'hook')!r})\n")
    (tmp_path / "dvc").write_text("import subprocess, sys\nsubprocess.run(['sh', '-c', sys.argv[1]])\n")
    line = command.format('sh stages/run.sh slow "$PWD/pid" a')
    variables = {**GIVEN, "PYTHONPATH": os.pathsep.join([str(tmp_path / "hook"), str(ROOT)])}
    with subprocess.Popen([sys.executable, str(tmp_path / "dvc"), line], env=variables, cwd=tmp_path) as dvc:
        try:
            until((tmp_path / "pid").exists)
            pid = int((tmp_path / "pid").read_text())
            assert alive(pid)
        finally:
            dvc.send_signal(signal.SIGKILL)
    until(lambda: not alive(pid), 3)


def test_a_stage_whose_command_is_gone_before_it_begins_ends_at_once(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    done = subprocess.run([sys.executable, "-m", "stages.run.processes", "json.tool", "--help"], cwd=ROOT,
                          env={**GIVEN, ORCHESTRATOR: str(gone.pid)}, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL and done.stdout == ""


def test_what_a_stage_has_started_ends_with_it(tmp_path):
    """The stage has a guard; those that it has started have none before they have imported what they need."""
    (tmp_path / "slow.py").write_text(SLOW)
    with subprocess.Popen(["sleep", "60"]) as command:
        stage = started("import subprocess, sys, time\n"
                        "from stages.run.processes import end_with_orchestrator\nend_with_orchestrator()\n"
                        "print('ready', flush=True)\n"
                        f"subprocess.run(['sh', '-c', '\"{sys.executable}\" slow.py pid a; exit 0'])\n"
                        "time.sleep(60)\n", tmp_path, **{ORCHESTRATOR: str(command.pid)})
        until((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        command.kill()
    assert stage.wait(20) == -signal.SIGKILL
    until(lambda: not alive(pid), 2)


def test_one_process_holds_a_scratch_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_LOCK_SECONDS", 0.2)
    holder = started("import time\nfrom pathlib import Path\nfrom stages.run.processes import exclusive\n"
                     "with exclusive(Path('scratch'), 'train_hcl hcl'):\n"
                     "    print('ready', flush=True)\n    time.sleep(60)\n", tmp_path)
    try:
        with (pytest.raises(InputError, match=f"already running .process {holder.pid} holds"),
              exclusive(tmp_path / "scratch", "train_hcl hcl")):
            pass
    finally:
        holder.kill()
        holder.wait()
    for _ in range(2):  # and lets go of it
        with exclusive(tmp_path / "scratch", "train_hcl hcl") as folder:
            assert folder.is_dir()


def test_the_shell_script_finds_its_python_without_proc(tmp_path):
    """By `ps`, as on macOS: the Python that started the shell, though none is on PATH."""
    script = (ROOT / "stages" / "run.sh").read_text().replace("/proc/", f"{tmp_path}/none/")
    (tmp_path / "run.sh").write_text(script)
    for name in ("sh", "sed", "tr", "head", "readlink"):
        (tmp_path / name).symlink_to(shutil.which(name))
    # A copy of ps that says what macOS's would: the program by its path.
    (tmp_path / "ps").write_text(f'#!/bin/sh\ncase "$2" in comm=) echo {sys.executable};; *) echo " $PPID";; esac\n')
    (tmp_path / "ps").chmod(0o755)
    found = subprocess.run(["sh", str(tmp_path / "run.sh"), "ingest.ingest", "--help"], cwd=ROOT, text=True,
                           env={"PATH": str(tmp_path)}, capture_output=True, check=False)
    assert found.returncode == 0 and found.stderr == "" and "example: python -m stages.ingest.ingest" in found.stdout


def test_the_disk_has_every_file_and_folder_of_an_artifact(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(files.os, "fsync", lambda handle: waited.append(Path(f"/proc/self/fd/{handle}").readlink()))
    with files.atomic_folder(tmp_path / "model") as folder:
        (folder / "weights").mkdir()
        (folder / "weights" / "a").write_bytes(b"a")
    assert [path.name for path in waited] == ["weights", "a", folder.name, tmp_path.name]
