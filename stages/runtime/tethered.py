"""Run a module tied to the DVC that started it: ``python -m stages.runtime.tethered MODULE [ARGUMENT...]``.

``SIGKILL`` of a command leaves its children alive, and a stage takes seconds to import torch before its own guard
stands. Nothing but the standard library is imported here.
"""

import ctypes
import os
import runpy
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_POLL_SECONDS = 0.25
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_SHELLS = ("sh", "dash", "bash")


def end_with_parent(parent: int) -> None:
    """Have the system end this process with ``parent``, where it can (Linux); the thread that forked it counts."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was faster
            os.kill(os.getpid(), signal.SIGKILL)


def end_with_dvc() -> None:
    """Start a thread that ends this process with the DVC above it, also behind shells; without ``/proc``, none."""
    watched, pid = {}, os.getppid()
    while (state := _state(pid)) is not None:
        program, parent, began = state
        watched[pid] = began
        if "dvc" in program:
            threading.Thread(target=_end_after, args=(watched,), name="tether", daemon=True).start()
            return
        if Path(program.split("\0")[0]).name not in _SHELLS:
            return
        pid = parent


def _end_after(watched: dict[int, str]) -> None:
    while all((state := _state(pid)) is not None and state[2] == began for pid, began in watched.items()):
        time.sleep(_POLL_SECONDS)
    end_all()


def end_all() -> None:
    """End this process and, where ``/proc`` tells of them, all that it has started, which may still import."""
    for pid in [*_below(os.getpid()), os.getpid()]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _below(pid: int) -> list[int]:
    """Return the processes that ``pid`` has started, and those that they have."""
    parents = {int(entry.name): state[1] for entry in Path("/proc").glob("[0-9]*")
               if (state := _state(int(entry.name))) is not None}
    found, above = list[int](), {pid}
    while above:
        above = {child for child, parent in parents.items() if parent in above}
        found += above
    return found


def _state(pid: int) -> tuple[str, int, str] | None:
    """Return command line, parent and time of start of a process; None if it is gone, or a zombie."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] in ("Z", "X") else (line, int(fields[1]), fields[19])


if __name__ == "__main__":
    end_with_dvc()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
