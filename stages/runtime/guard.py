"""A stage dies with the command that started it, and holds its scratch folder alone.

``SIGKILL`` of ``dvc repro`` or of ``keycontrast run`` leaves their children alive; a training that goes on
unseen would write into the checkpoints of the next attempt.
"""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stages.runtime.errors import InputError

ORCHESTRATOR = "KEYCONTRAST_ORCHESTRATOR"
_POLL_SECONDS = 0.25
_LOCK_SECONDS = 20.0
# Programs between a stage and the person: their death ends the stage. An interactive shell is not one.
_COMMANDS = {"dvc", "keycontrast", "make", "sh", "dash"}


def process_mark(pid: int) -> str | None:
    """Return ``pid:start time``, which names a process uniquely since boot; None if it is gone.

    A zombie counts as gone: it holds nothing and does nothing any more.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{pid}:{fields[19]}"


def watched_ancestors() -> list[str]:
    """Return the marks of the commands above this process whose death must end it.

    The chain is followed upwards while the programs are ``dvc``, ``keycontrast``, ``make`` or a plain shell
    that one of them started; a process named in the environment by the orchestrator always joins it.
    """
    marks = [mark for mark in [os.environ.get(ORCHESTRATOR)] if mark]
    pending: list[str] = []
    pid = os.getppid()
    while pid > 1 and _program(pid) in _COMMANDS:
        mark = process_mark(pid)
        if mark:
            pending.append(mark)
        if _program(pid) not in ("sh", "dash"):
            # A shell counts only below a command: `sh -c "dvc repro"` by a person is the person's.
            marks.extend(pending)
            pending = []
        pid = _parent(pid)
    return list(dict.fromkeys(marks))


def die_with(marks: list[str]) -> None:
    """Start a thread that ends this process (and its children) when one of ``marks`` is gone."""
    if not marks:
        return

    def watch() -> None:
        while all(process_mark(int(mark.split(":")[0])) == mark for mark in marks):
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="guard", daemon=True).start()


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[Path]:
    """Hold ``folder`` (created if missing) for this process alone; the lock goes with the process.

    Raises:
        InputError: another live process still holds it after 20 seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as handle:
        _take(handle.fileno(), folder, what)
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield folder


def _take(descriptor: int, folder: Path, what: str) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = (folder / "lock").read_text().strip() or "unknown"
                raise InputError(f"{what} is already running (process {holder} holds {folder}). "
                                 f"Wait for it, or end that process, and try again.") from None
            time.sleep(_POLL_SECONDS)


def _program(pid: int) -> str:
    try:
        parts = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    names = [Path(part.decode(errors="replace")).name for part in parts if part]
    if names and names[0].startswith("python"):
        if names[1:3] == ["-m", "pipeline"]:
            return "keycontrast"
        names = names[1:2] if names[1:2] != ["-m"] else names[2:3]
    return names[0] if names else ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
