"""What a killed command leaves of DVC's, and nobody takes away: locks, and files that were not finished."""

import json
import os
import re
from pathlib import Path
from typing import Any

import psutil

from pipeline.running.dag import open_repo
from stages.common.paths import ARTIFACTS, METRICS
from stages.run.processes import alive as runs

# DVC's name for what it writes, or tries links with: sometimes after the name of what it is to be, and 16 random bytes.
_UNFINISHED = re.compile(r".*\.[\w-]{22}\.tmp")


def clear_dead_locks(root: Path = Path()) -> list[str]:
    """Remove from DVC's read-write lock whatever a killed command left in it.

    DVC forgets entries of processes that are gone, but not those whose number another program has taken
    since, and not a file that was cut off while being written. Its repository lock needs no care: the
    system drops it with the process.

    Returns:
        One sentence per thing removed.
    """
    path = root / ".dvc" / "tmp" / "rwlock"
    if not path.exists():
        return []
    from dvc.lock import make_lock

    with make_lock(os.fspath(path.with_name("rwlock.lock"))):
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError:
            path.unlink()
            return ["removed a lock file that a killed command had left half written"]
        kept, dropped = _live_entries(held)
        if dropped:
            path.write_text(json.dumps(kept), encoding="utf-8")
    return [f"removed the lock that a killed command ({command}) had left" for command in sorted(dropped)]


def _live_entries(held: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    dropped: set[str] = set()

    def alive(entry: dict[str, Any]) -> bool:
        if runs(entry["pid"]) and _is_dvc(entry["pid"]):
            return True
        dropped.add(str(entry["cmd"]))
        return False

    write = {path: entry for path, entry in held.get("write", {}).items() if alive(entry)}
    read = {path: [entry for entry in entries if alive(entry)] for path, entries in held.get("read", {}).items()}
    return {"write": write, "read": {path: entries for path, entries in read.items() if entries}}, dropped


def _is_dvc(pid: int) -> bool:
    return pid == os.getpid() or "dvc" in " ".join(psutil.Process(pid).cmdline())


def clear_unfinished(root: Path = Path()) -> list[str]:
    """Remove the temporary files of DVC that a killed command left in its cache, and among artifacts and metrics.

    DVC gives them names of their own each time and never looks for old ones. It writes under its repository lock, so
    that what lies there while this function has it belongs to nobody. A cache outside the project is left alone: it may
    be shared with others that have locks of their own.

    Returns:
        A sentence, if anything was removed.

    Raises:
        InputError: not a DVC project, or another command has it.
    """
    if not _unfinished(root):
        return []
    with open_repo(root) as repo, repo.lock:
        found = _unfinished(root)
        for path in found:
            path.unlink()
    return [f"removed {len(found)} temporary files of DVC that a killed command had left"] if found else []


def _unfinished(root: Path) -> list[Path]:
    return [Path(place) / name for folder in (Path(".dvc", "cache"), ARTIFACTS, METRICS)
            for place, _, names in os.walk(root / folder) for name in names if _UNFINISHED.fullmatch(name)]
