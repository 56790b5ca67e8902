"""Processes of stages: they end with the command that started them, lock a folder, and measure their resources.

``stages/run.sh`` starts a stage by ``python -m stages.run.processes MODULE [ARGUMENT...]``, which ends even with a DVC
that was killed; otherwise a training would go on and write into the checkpoints of the next attempt.
"""

import ctypes
import gc
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from keycontrast.errors import CRASHED, InputError

# Environment variable with a process id: this process ends when that one does. stages/run.sh sets it to DVC's.
ORCHESTRATOR = "KEYCONTRAST_ORCHESTRATOR"
_POLL_SECONDS = 0.25
_LOCK_SECONDS = 20.0
# From glibc's malloc.h; a threshold of -1 is never reached.
_TRIM_THRESHOLD, _MMAP_MAX, _NEVER = -1, -4, -1


def usage() -> dict[str, float]:
    """Return CPU seconds of all cores of this process and its ended children, and the largest memory of one of them."""
    import resource  # missing on Windows, where the library is used but no stage runs

    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # ru_maxrss is in KiB, and in bytes on macOS.
    unit = 2**10 if sys.platform != "darwin" else 2**20
    seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return {"cpu_seconds": round(seconds, 3), "peak_memory_mib": max(own.ru_maxrss, children.ru_maxrss) // unit}


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory for the next request, and return whether it can (only glibc).

    Otherwise each step of a training requests the pages of its larger tensors again, which takes up to a fifth of its
    time. torch also requests pages of 2 MiB (only Linux, set before its first tensor): measured, a sixth less time.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    return bool(library.mallopt(_MMAP_MAX, 0) and library.mallopt(_TRIM_THRESHOLD, _NEVER))


def alive(pid: int) -> bool:
    """Return whether process ``pid`` runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_with_orchestrator() -> None:
    """End this process with the one that the environment names, if any."""
    if pid := os.environ.get(ORCHESTRATOR):
        die_with(int(pid))


def die_with(pid: int) -> None:
    """Start a thread that ends this process and its children when process ``pid`` has ended."""
    try:
        watched = psutil.Process(pid)
    except psutil.NoSuchProcess:
        _end_all()

    def end_with_it() -> None:
        with suppress(psutil.NoSuchProcess):
            while watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE:
                time.sleep(_POLL_SECONDS)
        _end_all()

    threading.Thread(target=end_with_it, name="guard", daemon=True).start()


def _end_all() -> None:
    """End this process and all that it has started."""
    for process in [*psutil.Process().children(recursive=True), psutil.Process()]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[Path]:
    """Lock ``folder``, created if missing, until the process ends; others fail after 20 seconds."""
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
    keep_freed_memory()
    del sys.argv[0]
    gc.disable()  # it takes a fifth of the time to import torch and transformers
    try:
        stage = importlib.import_module(sys.argv[0])
        gc.freeze()  # imported objects are never freed
        gc.enable()
        status = stage.main()
        if "_duckdb" in sys.modules:
            gc.unfreeze()  # DuckDB reports objects that are not freed
        sys.exit(status)
    except Exception:  # noqa: BLE001 - a crash, which has another exit status than a mistake of the user
        traceback.print_exc()
        sys.exit(CRASHED)
