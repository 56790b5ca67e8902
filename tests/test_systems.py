"""What macOS and Windows lack, taken away here: the same answers, or what is said instead. None of it ran on either."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from source_imports import ROOT

from pipeline import doctor
from pipeline.packed.run import launcher
from pipeline.running import dvc_worker
from pipeline.running.leftovers import clear_dead_locks
from stages.run import durable, guard, systems, tethered
from stages.run.guard import alive, exclusive
from stages.run.memory import keep_freed_memory
from stages.tracks.common import finished

NEVER = 2**22 + 1       # above what Linux numbers processes by


@pytest.fixture
def no_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(systems, "PROC", tmp_path / "proc")


@pytest.fixture
def no_groups(monkeypatch):
    monkeypatch.delattr(os, "killpg")


@pytest.fixture
def family():
    """A process that leads a session, with one below it; both are ended in the end."""
    code = ("import subprocess, sys, time\n"
            "sleeping = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'\n"
            "subprocess.Popen([sys.executable, '-c', sleeping])\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        child = int(process.stdout.readline())
        yield process, child
        for pid in (child, process.pid):
            systems.kill(pid)


def gone(pid):
    end = time.monotonic() + 5
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pid)


def test_what_is_known_of_a_process_is_the_same_without_proc(monkeypatch, tmp_path, family):
    process, child = family
    own = systems.state(os.getpid()), systems.state(child), systems.below(process.pid)
    monkeypatch.setattr(systems, "PROC", tmp_path / "proc")
    asked = systems.state(os.getpid()), systems.state(child), systems.below(process.pid)
    assert own[2] == asked[2] == [child] and asked[1].parent == process.pid
    for one, other in zip(own[:2], asked[:2], strict=True):
        assert one.command.rstrip("\0") == other.command and one.parent == other.parent and other.began
    assert systems.state(NEVER) is None and systems.below(NEVER) == []


@pytest.mark.parametrize("missing", [False, True])
def test_a_zombie_is_no_process(missing, monkeypatch, tmp_path):
    if missing:
        monkeypatch.setattr(systems, "PROC", tmp_path / "proc")
    with subprocess.Popen(["true"]) as process:
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert systems.state(process.pid) is None


def test_without_proc_and_psutil_nothing_is_known(no_proc, monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert systems.state(os.getpid()) is None and systems.below(os.getpid()) == []


def test_a_tether_holds_without_proc(no_proc, monkeypatch, family):
    """The thread that watches sees the end of a process by psutil."""
    process, child = family
    ended = []
    monkeypatch.setattr(tethered, "end_all", lambda: ended.append(True))
    monkeypatch.setattr(tethered, "_POLL_SECONDS", 0.01)
    watched = {child: systems.state(child).began}
    monkeypatch.setattr(tethered.time, "sleep", lambda seconds: systems.kill(child))
    tethered._end_after(watched)
    assert ended == [True] and gone(child)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_family_ends_without_groups(no_groups, family, at_once):
    process, child = family
    systems.end_group(process, at_once)
    assert process.wait(5) == -signal.SIGKILL and gone(child)
    systems.end_group(process, at_once)     # it is gone, and its number perhaps another's


def test_a_family_ends_as_a_group(family):
    process, child = family
    systems.end_group(process, at_once=False)
    assert process.wait(5) == -signal.SIGTERM and gone(child)


def test_usage_without_the_module_resource(monkeypatch):
    own = systems.usage()
    monkeypatch.setitem(sys.modules, "resource", None)
    asked = systems.usage()
    assert 0 < asked.cpu_seconds <= own.cpu_seconds + 5
    assert asked.peak_memory_mib == psutil.Process().memory_info().rss // 2**20 <= own.peak_memory_mib + 1


def test_macos_counts_memory_in_bytes(monkeypatch):
    import resource

    class Used:
        ru_utime, ru_stime, ru_maxrss = 1.0, 0.5, 300 * 2**20

    monkeypatch.setattr(resource, "getrusage", lambda who: Used)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert systems.usage() == systems.Usage(3.0, 300)
    monkeypatch.setattr(sys, "platform", "linux")
    assert systems.usage().peak_memory_mib == 300 * 1024


@pytest.mark.parametrize(("platform", "expected"), [("linux", True), ("darwin", False), ("win32", False)])
def test_stages_are_forked_on_linux_alone(monkeypatch, caplog, platform, expected):
    hosts = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(dvc_worker, "_run_stages_in", hosts.append)
    monkeypatch.setattr(logging.getLogger("keycontrast"), "propagate", True)
    with caplog.at_level(logging.INFO, "keycontrast"):
        dvc_worker.host_stages()
    assert bool(hosts) == expected == systems.forks_stages()
    assert ("stages are started one by one" in caplog.text) != expected


def test_a_pack_starts_its_jobs_without_a_forkserver(monkeypatch):
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert systems.start_method() == "spawn"
    assert "SpawnContext" in str(launcher(["train_hcl"]).__closure__[0].cell_contents)


def test_a_file_is_opened_to_write_where_only_that_can_be_flushed(monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"a")
    flags, open_file = [], os.open
    monkeypatch.setattr(durable.os, "open", lambda path, how: flags.append(how) or open_file(path, how))
    durable.flush_file(tmp_path / "file")
    monkeypatch.setattr(systems, "os", type("Windows", (), {"name": "nt", "O_RDWR": os.O_RDWR}))
    durable.flush_file(tmp_path / "file")
    assert flags == [os.O_RDONLY, os.O_RDWR]


def test_a_parent_is_watched_by_its_start_where_its_number_stays(monkeypatch):
    monkeypatch.setattr(guard, "parent_changes", lambda: False)
    made = []
    monkeypatch.setattr(psutil, "Process", lambda pid: made.append(pid) or type(
        "Gone", (), {"is_running": lambda self: False})())
    assert not guard._watch(os.getppid())() and made == [os.getppid()]


@pytest.mark.parametrize(("command", "name"), [
    ((r"venv/Scripts/keycontrast.exe", "run"), "keycontrast"),
    (("python.exe", "-m", "pipeline"), "keycontrast"), (("dvc.exe", "repro"), "dvc")])
def test_programs_of_windows_are_known(command, name):
    assert guard._program(command) == name


def test_the_lock_of_a_dvc_that_runs_is_kept_without_proc(no_proc, tmp_path):
    (tmp_path / "dvc").write_text("import time\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, str(tmp_path / "dvc")]) as other:
        path = tmp_path / ".dvc" / "tmp" / "rwlock"
        path.parent.mkdir(parents=True)
        held = {"write": {"a": {"pid": other.pid, "cmd": "dvc repro"}, "b": {"pid": NEVER, "cmd": "dvc gone"}}}
        path.write_text(json.dumps(held))
        while "dvc" not in systems.state(other.pid).command:
            time.sleep(0.01)
        assert clear_dead_locks(tmp_path) == ["removed the lock that a killed command (dvc gone) had left"]
        assert list(json.loads(path.read_text())["write"]) == ["a"]
        other.kill()


def test_the_shell_script_finds_its_python_without_proc(tmp_path):
    """By `ps`: the Python that started the shell, though none is on PATH."""
    script = (ROOT / "stages" / "run.sh").read_text().replace("/proc/", f"{tmp_path}/none/")
    (tmp_path / "run.sh").write_text(script)
    for name in ("sh", "sed", "tr", "head", "readlink", "ps"):
        (tmp_path / name).symlink_to(shutil.which(name))
    # A copy of ps that says what macOS's would: the program by its path.
    (tmp_path / "ps").unlink()
    (tmp_path / "ps").write_text(f'#!/bin/sh\ncase "$2" in comm=) echo {sys.executable};; *) echo " $PPID";; esac\n')
    (tmp_path / "ps").chmod(0o755)
    found = subprocess.run(["sh", str(tmp_path / "run.sh"), "data.ingest", "--help"], cwd=ROOT, text=True,
                           env={"PATH": str(tmp_path)}, capture_output=True, check=False)
    assert found.returncode == 0 and found.stderr == "" and "example: python -m stages.ingest.ingest" in found.stdout


def test_files_are_copied_where_there_are_no_links(monkeypatch, tmp_path):
    def refused(*_):
        raise OSError("no links here")

    (tmp_path / "one" / "in").mkdir(parents=True)
    (tmp_path / "one" / "in" / "file").write_bytes(b"bytes")
    monkeypatch.setattr(os, "link", refused)
    finished._link(tmp_path / "one", tmp_path / "other")
    other = tmp_path / "other" / "in" / "file"
    assert other.read_bytes() == b"bytes" and other.stat().st_nlink == 1


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_freed_memory_is_handed_back_where_the_library_is_not_glibc(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    assert keep_freed_memory() is False


def test_the_doctor_says_what_differs(monkeypatch, no_proc, no_groups):
    monkeypatch.setattr(sys, "platform", "darwin")
    detail = next(doctor._system(ROOT)).detail
    assert "imports anew" in detail and "psutil" in detail and "one by one" in detail and "workers'" not in detail


def test_the_page_names_every_function_that_differs():
    page = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    public = {name for name, value in vars(systems).items()
              if callable(value) and getattr(value, "__module__", "") == systems.__name__ and name[0] not in "_SU"}
    assert {name for name in public if f"`{name}`" not in page} == {"differences"}


def test_linux_differs_in_nothing():
    assert systems.differences() == [] or sys.platform != "linux"


# psutil's own part for Linux needs what is taken away; that for Windows does not.
MODULES = '''
import importlib.abc, os, sys
import psutil

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "pwd", "grp"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
'''
PROC = '''
def hidden(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))

sys.addaudithook(hidden)
stat = os.stat
os.stat = lambda path, *rest, **named: stat("/no/such/file" if str(path).startswith("/proc") else path, *rest, **named)
'''


def blocked(code, folder, taken=MODULES + PROC):
    return subprocess.run([sys.executable, "-W", "ignore", "-c", taken + code], cwd=folder, capture_output=True,
                          text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_keywords_are_ranked_without_fcntl_resource_users_and_proc(tmp_path):
    told = blocked("import keycontrast\n"
                   "found = keycontrast.Keywords().rank(['My rice cooker burns the bottom layer.'], top=2)\n"
                   "print([phrase.text for phrase in found[0]], 'fcntl' in sys.modules, os.path.exists('/proc'))\n"
                   "graph = keycontrast.keyword_graph(['A dog chases a ball.', 'The ball hits a window.'])\n"
                   "print(graph.nodes.num_rows)\n", tmp_path)
    assert told.stdout == "['rice cooker', 'bottom layer'] False False\n3\n", told.stderr


def test_a_stage_and_the_command_line_run_without_them(tmp_path):
    code = ("from pathlib import Path\n"
            "import pipeline.cli, pipeline.running.workers, pipeline.running.stage_host\n"
            "from stages.run import process\n"
            "process.read_params = lambda: {}\n"
            "process.stage_params = lambda *_: {}\n"
            "def work(found): found.measured['texts'] = 3\n"
            "print(process.run_stage('say', work, [], instance=None))\n")
    told = blocked(code, tmp_path, MODULES)
    assert told.stdout == "0\n", told.stderr
    record = json.loads((tmp_path / ".keycontrast" / "records" / "say@all.json").read_text())
    assert record["texts"] == 3 and record["peak_memory_mib"] > 10 and record["cpu_seconds"] > 0


def test_a_folder_is_locked_by_whatever_lock_there_is(tmp_path):
    """The lock is filelock's: of msvcrt on Windows, of fcntl elsewhere, a plain file where there is neither."""
    told = blocked("from stages.run.guard import exclusive, FileLock\nfrom pathlib import Path\n"
                   "with exclusive(Path('held'), 'it'):\n    print(FileLock.__name__, sorted(os.listdir('held')))\n",
                   tmp_path)
    assert told.stdout == "SoftFileLock ['holder', 'lock']\n", told.stderr
    with exclusive(tmp_path / "mine", "it") as folder:
        assert folder == Path(tmp_path / "mine")
