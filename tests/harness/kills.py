"""Runs that are killed again and again, from an empty start to the end: what is left is whole, and the end the same.

A case is one small project, with kills of one `keycontrast run` after another and a last run that is left alone. Killed
is the command, a process that it has started, or all of them at once.
"""

import hashlib
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from pipeline.dag import UnreadableLock, read_lock
from stages.common.paths import METRICS
from tests import tiny_project
from tests.harness.cases import Verdict

_SECONDS_TO_END = 2.0   # for all that a killed command has started
_SECONDS_OF_A_RUN = 1200.0
_TARGETS = ("command", "command", "command", "child", "child", "child", "all")


class Undisturbed(NamedTuple):
    """A project before its first run, digests of what an undisturbed run makes of it by path, and its lock's stages."""

    start: Path
    files: dict[str, str]
    lock: dict[str, Any]


def _tiny(folder: Path) -> Path:
    """Make a project of all stages in which one model has two seeds, and no training takes long."""
    project, params = tiny_project.make(folder), tiny_project.params()
    params["train_hcl"]["training"] |= {"epochs": 4, "patience": 4}
    params["models"]["hcl"]["hcl"]["seeds"] = [13, 14]
    tiny_project.write_params(project, train_hcl=params["train_hcl"], models=params["models"])
    return project


_STARTING_SECONDS, _STAGE_SECONDS = 12, 3   # within which a kill falls, before and after a stage has begun
_MAKING, _DONE = threading.Lock(), list[Undisturbed]()
_TRACKER = "resource_tracker"


def undisturbed(home: Path) -> Undisturbed:
    """Return the project and what comes of it, made once in ``home``."""
    with _MAKING:
        if not _DONE:
            start = _tiny(home / "start")
            shutil.copytree(start, home / "done")
            if _run(home / "done", home / "log").wait(_SECONDS_OF_A_RUN):
                raise RuntimeError(f"the undisturbed run failed: {(home / 'log').read_text()[-2000:]}")
            _DONE.append(Undisturbed(start, _made(home / "done"), read_lock(home / "done")))
    return _DONE[0]


def killed_project(chance: random.Random, home: Path, kills: int = 10) -> Verdict:
    """Kill runs of one project, each at a random moment, and let it end; there are fewer kills if a run ends before."""
    whole, said = undisturbed(home), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        project, log = Path(folder) / "p", Path(folder) / "run.log"
        shutil.copytree(whole.start, project)
        for left in range(kills, 0, -1):
            command = _run(project, log)
            try:
                said += _killed(chance, command, project, len(whole.lock) - len(_lock(project)), left)
                fault = _fault(command, project, log) or _partial(whole, project)
            finally:
                command.kill()
                command.wait()
            if fault:
                return Verdict("; ".join(said), f"{fault}\n{log.read_text(errors='replace')[-1500:]}", len(said))
            if command.returncode == 0:
                break
        return Verdict("; ".join(said), _last_fault(whole, project, log), len(said))


def _killed(chance: random.Random, command: "subprocess.Popen[bytes]", project: Path, rest: int,
            left: int) -> list[str]:
    """Kill the command, a child or some of all after a random number of stages; return what was killed, if anything."""
    target, stages = chance.choice(_TARGETS), chance.randrange(1 + max(1, 2 * rest // (left + 1)))
    logs, began, end = project / ".keycontrast" / "logs", time.time(), time.monotonic() + _SECONDS_OF_A_RUN
    while command.poll() is None and time.monotonic() < end and stages > sum(
            path.stat().st_mtime > began for path in logs.glob("*.log")):
        time.sleep(0.05)
    with suppress(subprocess.TimeoutExpired):
        command.wait(chance.uniform(0, _STAGE_SECONDS if stages else _STARTING_SECONDS))
    if command.poll() is not None:
        return []
    own = psutil.Process(command.pid)
    below = own.children(recursive=True)
    # Without Python's own tracker of semaphores nothing goes wrong, but a new one says that it never saw the old.
    children = sorted((one for one in below if _name(one) != _TRACKER), key=lambda process: process.pid)
    victims = chance.sample([own, *below], 1 + len(below)) if target == "all" else [
        chance.choice(children) if target == "child" and children else own]
    said = f"{target} ({' '.join(map(_name, victims))[:80]}) after stage {stages}"
    for victim in victims:
        with suppress(psutil.NoSuchProcess):
            victim.kill()
    return [said]


def _fault(command: "subprocess.Popen[bytes]", project: Path, log: Path) -> str:
    """Return what is wrong with how the command ends, killed or without what was killed, and what it leaves running."""
    try:
        status = command.wait(_SECONDS_OF_A_RUN)
    except subprocess.TimeoutExpired:
        return f"the command did not end within {_SECONDS_OF_A_RUN:.0f} s"
    if status not in (0, 1, -signal.SIGKILL) or status >= 0 and "Traceback" in log.read_text(errors="replace"):
        return f"the command ended with status {status}"
    began = time.monotonic()
    while (alive := _living(project)) and time.monotonic() - began < _SECONDS_TO_END:
        time.sleep(0.05)
    return f"{_SECONDS_TO_END:.0f} s after the end by {status} there lived {alive}" if alive else ""


def _last_fault(whole: Undisturbed, project: Path, log: Path) -> str:
    """Run undisturbed; return what is not as it would have been without the kills."""
    status = _run(project, log).wait(_SECONDS_OF_A_RUN)
    output = log.read_text(errors="replace")
    if status or "Traceback" in output:
        return f"the last run ended with {status}: {output[-1500:]}"
    if wrong := _partial(whole, project):
        return wrong
    if missing := sorted(set(whole.files) - set(_made(project))):
        return f"never made: {missing}"
    if read_lock(project) != whole.lock:
        return "dvc.lock is another"
    if left := [str(path) for path in project.rglob("*.tmp")]:
        return f"left in the end: {left}"
    verified = subprocess.run(tiny_project.command("verify"), cwd=project, env=tiny_project.environment(),
                              capture_output=True, text=True, check=False)
    return f"verify: {verified.stdout[-500:]}{verified.stderr[-500:]}" if verified.returncode else ""


def _partial(whole: Undisturbed, project: Path) -> str:
    """Return which file under its own name is not that of an undisturbed run, or which stage of dvc.lock."""
    for path, digest in _made(project).items():
        if not any(part.startswith(".") and part.endswith((".tmp", ".old")) for part in Path(path).parts):
            if path not in whole.files:
                return f"{path}: nothing of the kind comes of an undisturbed run"
            if whole.files[path] != digest:
                return f"{path} has other bytes than an undisturbed run gives it"
    lock = _lock(project)
    last = list(lock)[-1:]  # may be cut off
    wrong = [name for name, entry in lock.items() if entry != whole.lock.get(name) and name not in last]
    return f"dvc.lock: {wrong}" if wrong else ""


def _lock(project: Path) -> dict[str, Any]:
    """Return ``dvc.lock``, or nothing while a kill has cut it off."""
    with suppress(UnreadableLock):
        return read_lock(project)
    return {}


def _made(project: Path) -> dict[str, str]:
    """Return the digests of all artifacts and metrics by their paths."""
    return {path.relative_to(project).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for folder in ("artifacts", METRICS) for path in (project / folder).rglob("*") if path.is_file()}


def _living(project: Path) -> list[str]:
    """Return the command lines of processes that work in ``project``."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(project.resolve()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        line = process.cmdline()
        if any(_TRACKER in word for word in line):
            return _TRACKER
        return line[line.index("-m") + 1] if "-m" in line else Path(line[0]).name if line else "?"
    return "gone"


def _run(project: Path, log: Path) -> "subprocess.Popen[bytes]":
    environment = tiny_project.environment(DVC_SITE_CACHE_DIR=str(project / ".dvc" / "tmp" / "site"))
    with log.open("wb") as output:
        return subprocess.Popen(tiny_project.command("run"), cwd=project, env=environment,
                                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
