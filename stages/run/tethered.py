"""Run a module tied to the DVC that started it: ``python -m stages.run.tethered MODULE [ARGUMENT...]``.

``SIGKILL`` of a command leaves its children alive, and a stage takes seconds to import torch before its own guard
stands. Nothing but the standard library is imported here, where there is ``/proc``.
"""

import ctypes
import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

from stages.run.systems import below, kill, state

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
    """Start a thread that ends this process with the DVC above it, also behind shells."""
    watched, pid = {}, os.getppid()
    while (found := state(pid)) is not None:
        watched[pid] = found.began
        if "dvc" in found.command:
            threading.Thread(target=_end_after, args=(watched,), name="tether", daemon=True).start()
            return
        if Path(found.command.split("\0")[0]).name.removesuffix(".exe") not in _SHELLS:
            return
        pid = found.parent


def _end_after(watched: dict[int, str]) -> None:
    while all((found := state(pid)) is not None and found.began == began for pid, began in watched.items()):
        time.sleep(_POLL_SECONDS)
    end_all()


def end_all() -> None:
    """End this process and, where the system tells of them, all that it has started, which may still import."""
    for pid in [*below(os.getpid()), os.getpid()]:
        kill(pid)


if __name__ == "__main__":
    end_with_dvc()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
