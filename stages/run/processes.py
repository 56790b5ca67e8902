"""Processes of stages: how they end with what started them, lock a folder, and what they used.

``SIGKILL`` of ``dvc repro`` or of ``keycontrast run`` leaves their children alive, and a training that goes on unseen
would write into the checkpoints of the next attempt. So ``stages/run.sh`` starts a stage by
``python -m stages.run.processes MODULE [ARGUMENT...]``, and it ends with DVC even while it still imports.
"""

import ctypes
import gc
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from keycontrast.errors import CRASHED, InputError

# The environment's variable that names the process whose death ends this one; stages/run.sh sets it to DVC's.
ORCHESTRATOR = "KEYCONTRAST_ORCHESTRATOR"
_POLL_SECONDS = 0.25
_LOCK_SECONDS = 20.0
# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER = -1     # not the largest number that it takes: a step that frees more than 2 GiB would hand them back after all


def usage() -> dict[str, float]:
    """Return what this process and those of its children that have ended have used, for a record.

    ``cpu_seconds`` are of all cores, ``peak_memory_mib`` is the most that one of them held.
    """
    import resource  # Windows has none, where the library is used but no stage runs

    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # KiB, but bytes on macOS (getrusage(2) of each).
    unit = 2**10 if sys.platform != "darwin" else 2**20
    seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return {"cpu_seconds": round(seconds, 3), "peak_memory_mib": max(own.ru_maxrss, children.ru_maxrss) // unit}


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory for the next request, rather than hand it back to the system.

    By default every tensor above some megabytes is fetched from the system anew, page by page, in each step of a
    training: with bf16 on a CPU that takes a fifth of the step and more. No value depends on it. A process keeps its
    peak until it ends.

    Returns:
        Whether it was done; only glibc can.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    return bool(library.mallopt(_MMAP_MAX, 0) and library.mallopt(_TRIM_THRESHOLD, _NEVER))


def alive(pid: int) -> bool:
    """Say whether process ``pid`` runs; a zombie, which holds nothing and does nothing any more, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_with_orchestrator() -> None:
    """Have this process end with the one that the environment names, if it names one."""
    die_with([int(pid) for pid in [os.environ.get(ORCHESTRATOR)] if pid])


def die_with(pids: Sequence[int]) -> None:
    """Start a thread that ends this process (and its children) when one of ``pids`` is gone."""
    if not pids:
        return
    watched = []
    for pid in pids:
        try:
            watched.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            _end_all()

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def end_with_them() -> None:
        while all(map(runs, watched)):
            time.sleep(_POLL_SECONDS)
        _end_all()

    threading.Thread(target=end_with_them, name="guard", daemon=True).start()


def _end_all() -> None:
    """End this process and all that it has started, which may still import."""
    for process in [*psutil.Process().children(recursive=True), psutil.Process()]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


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


if __name__ == "__main__":
    end_with_orchestrator()
    del sys.argv[0]
    gc.disable()  # Measured: a fifth of the time that it takes to import torch and transformers is spent in it.
    try:
        stage = importlib.import_module(sys.argv[0])
        gc.freeze()  # what was imported stays
        gc.enable()
        sys.exit(stage.main())
    except Exception:  # noqa: BLE001 - a crash, which the exit status tells from what a person has to mend
        traceback.print_exc()
        sys.exit(CRASHED)
