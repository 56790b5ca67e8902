"""What Linux, macOS and Windows do differently: each difference in one function, and nowhere else.

Nothing but the standard library is imported before it is needed; where a system lacks its own way, psutil is asked,
which DVC needs, so that only a machine that does nothing but train may be without. ``docs/platforms.md`` says what
follows from each.
"""

import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PROC = Path("/proc")
_KIB, _MIB = 2**10, 2**20


@dataclass(frozen=True)
class Usage:
    """What a process and those of its children that have ended have used.

    Attributes:
        cpu_seconds: of all cores; on Windows of this process alone.
        peak_memory_mib: the most that one of them held.
    """

    cpu_seconds: float
    peak_memory_mib: int


@dataclass(frozen=True)
class State:
    """A running process.

    Attributes:
        command: its command line, arguments parted by NUL.
        parent: process id.
        began: when, in whatever unit; two processes of one id differ in it.
    """

    command: str
    parent: int
    began: str


def differences() -> list[str]:
    """Return what this system does in another way than Linux, one sentence each; ``keycontrast doctor`` shows them."""
    found = []
    if not forks_stages():
        found.append("each stage is a process that imports anew, some seconds each")
    if not (PROC / "self").exists():
        found.append("processes are looked up by psutil, for want of /proc")
    if not hasattr(os, "killpg"):
        found.append("processes are ended one by one, for want of groups")
    if find_spec("resource") is None:
        found.append("CPU time of a stage is without its workers'")
    return found


def usage() -> Usage:
    """Return what this process has used so far."""
    try:
        import resource
    except ModuleNotFoundError:     # Windows
        process = _psutil().Process()
        times, memory = process.cpu_times(), process.memory_info()
        return Usage(times.user + times.system, getattr(memory, "peak_wset", memory.rss) // _MIB)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # KiB, but bytes on macOS (getrusage(2) of each).
    unit = _MIB // _KIB if sys.platform != "darwin" else _MIB
    return Usage(own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
                 max(own.ru_maxrss, children.ru_maxrss) // unit)


def state(pid: int) -> State | None:
    """Return what is known of a process; None if it is gone or a zombie, or if nothing here tells."""
    if (PROC / "self").exists():
        try:
            line = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return None
        return None if fields[0] in ("Z", "X") else State(line, int(fields[1]), fields[19])
    try:
        psutil = _psutil()
    except ModuleNotFoundError:
        return None
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return None
            return State("\0".join(process.cmdline()), process.ppid(), str(process.create_time()))
    except psutil.Error:        # gone, or another user's
        return None


def below(pid: int) -> list[int]:
    """Return the processes that ``pid`` has started, and those that they have."""
    if (PROC / "self").exists():
        parents = {int(entry.name): told.parent for entry in PROC.glob("[0-9]*")
                   if (told := state(int(entry.name))) is not None}
        found, above = list[int](), {pid}
        while above:
            above = {child for child, parent in parents.items() if parent in above}
            found += above
        return found
    try:
        psutil = _psutil()
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except ModuleNotFoundError:
        return []
    except psutil.Error:
        return []


def kill(pid: int) -> None:
    """End a process at once, if it is there."""
    # On Windows any signal but two of the console ends a process at once, and one that is gone is an error of any kind.
    with suppress(OSError if os.name == "nt" else ProcessLookupError):
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def end_group(process: "subprocess.Popen[Any]", at_once: bool) -> None:
    """End a process that leads a session of its own, with all in it; where there are no groups, with all below it.

    Args:
        process: started with ``start_new_session=True``.
        at_once: by SIGKILL, which nothing can put off; else by SIGTERM, so that programs may end in order.
    """
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL if at_once else signal.SIGTERM)
        return
    if process.poll() is not None:      # its number may be another's by now
        return
    for pid in [*below(process.pid), process.pid]:
        kill(pid)


def parent_changes() -> bool:
    """Tell whether a process gets another parent when its own ends; on Windows it keeps that one's number."""
    return os.name != "nt"


def forks_stages() -> bool:
    """Tell whether a process that has imported what stages need may be forked for each.

    Not on macOS, whose libraries may have started threads by then and end a fork that uses them; not on Windows.
    """
    return sys.platform == "linux" and hasattr(os, "fork")


def start_method() -> str:
    """Return how processes start that are to share what has been imported: ``forkserver``, on Windows ``spawn``."""
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def open_to_flush() -> int:
    """Return the flag with which a file is opened so that the disk can be waited for; Windows wants to write."""
    return os.O_RDWR if os.name == "nt" else os.O_RDONLY


def hand_back(mapped: mmap.mmap) -> None:
    """Let the system take the pages that were read of a mapped file, which it reads again when they are looked at.

    On Windows it takes them as it needs them.
    """
    if hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _psutil() -> Any:
    import psutil

    return psutil
