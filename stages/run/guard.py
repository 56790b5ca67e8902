"""A stage dies with the command that started it, and holds its scratch folder alone.

``SIGKILL`` of ``dvc repro`` or of ``keycontrast run`` leaves their children alive; a training that goes on
unseen would write into the checkpoints of the next attempt.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from stages.run.errors import InputError
from stages.run.systems import parent_changes
from stages.run.tethered import end_all

ORCHESTRATOR = "KEYCONTRAST_ORCHESTRATOR"
_POLL_SECONDS = 0.25
_LOCK_SECONDS = 20.0
# Programs between a stage and the person: their death ends the stage. An interactive shell is not one.
_COMMANDS = {"dvc", "keycontrast", "make", "sh", "dash"}


def alive(pid: int) -> bool:
    """Say whether process ``pid`` runs; a zombie, which holds nothing and does nothing any more, does not."""
    return _watch(pid)()


def _watch(pid: int) -> Callable[[], bool]:
    """Return what says whether the process that is ``pid`` now still runs.

    Machines that only train may have no psutil; there a stage needs to know nothing but whether its parent runs.
    """
    creator = multiprocessing.parent_process()
    if creator is not None and creator.pid == pid:
        return creator.is_alive
    if pid == os.getppid() and parent_changes():
        return lambda: os.getppid() == pid
    import psutil

    def runs() -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return lambda: False
    return runs


def watched_ancestors() -> list[int]:
    """Return the commands above this process whose death must end it.

    The chain is followed upwards while the programs are ``dvc``, ``keycontrast``, ``make`` or a plain shell
    that one of them started; a process named in the environment by the orchestrator always joins it.
    """
    found = [int(pid) for pid in [os.environ.get(ORCHESTRATOR)] if pid]
    try:
        import psutil
    except ModuleNotFoundError:
        return found  # DVC needs it: where it is missing there is no such chain
    pending: list[int] = []
    for process in psutil.Process().parents():
        try:
            program = _program(process.cmdline())
        except psutil.Error:  # gone, or another user's
            break
        if program not in _COMMANDS or process.pid == 1:
            break
        pending.append(process.pid)
        if program not in ("sh", "dash"):
            # A shell counts only below a command: `sh -c "dvc repro"` by a person is the person's.
            found += pending
            pending = []
    return list(dict.fromkeys(found))


def _program(command: Sequence[str]) -> str:
    """Return the name of the program that ``command`` runs, behind Python if that runs it."""
    names = [Path(part).name.removesuffix(".exe") for part in command if part]
    if names and names[0].lower().startswith("python"):
        if names[1:3] == ["-m", "pipeline"]:
            return "keycontrast"
        names = names[1:2] if names[1:2] != ["-m"] else names[2:3]
    return names[0] if names else ""


def die_with(pids: Sequence[int]) -> None:
    """Start a thread that ends this process (and its children) when one of ``pids`` is gone."""
    if not pids:
        return
    watches = [_watch(pid) for pid in pids]

    def end_with_them() -> None:
        while all(runs() for runs in watches):
            time.sleep(_POLL_SECONDS)
        end_all()

    threading.Thread(target=end_with_them, name="guard", daemon=True).start()


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[Path]:
    """Hold ``folder`` (created if missing) for this process alone; the lock goes with the process.

    Raises:
        InputError: another live process still holds it after 20 seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock, holder = FileLock(folder / "lock"), folder / "holder"
    try:
        lock.acquire(timeout=_LOCK_SECONDS, poll_interval=_POLL_SECONDS)
    except Timeout as error:
        by = holder.read_text().strip() if holder.exists() else "unknown"
        raise InputError(f"{what} is already running (process {by} holds {folder}). "
                         f"Wait for it, or end that process, and try again.") from error
    try:
        holder.write_text(f"{os.getpid()}\n")
        yield folder
    finally:
        lock.release()
