"""What a killed command may leave: ``dvc.lock`` cut off, DVC's lock of the repository, temporary files."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from stages.common.paths import ARTIFACTS, METRICS
from stages.common.tables import atomic_file
from stages.run.errors import InputError
from stages.run.processes import alive

LOCK = Path("dvc.lock")
BEFORE = Path(".keycontrast", "lock-before-run")  # a copy while a command runs
# DVC's name for what it writes or tries links with: 16 random bytes, sometimes after the name of the file.
_UNFINISHED = re.compile(r".*\.[\w-]{22}\.tmp")


class UnreadableLock(InputError):
    """``dvc.lock`` is damaged."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{' '.join(problem.split())}. `git checkout dvc.lock` brings back the last one that was "
                         f"committed, or in a merge `git checkout --ours dvc.lock` one side whole; `keycontrast run` "
                         f"then makes what does not fit. Where git has none, delete the file.")


def read_lock(root: Path = Path()) -> dict[str, Any]:
    """Return the stages of ``dvc.lock`` by name; none if there is no such file."""
    return stages_of((root / LOCK).read_bytes()) if (root / LOCK).exists() else {}


def stages_of(content: bytes) -> dict[str, Any]:
    """Return the stages of a lock by name."""
    try:
        parsed = yaml.load(content, yaml.CSafeLoader)  # noqa: S506 - safe, and ten times as fast as safe_load
    except yaml.YAMLError as error:
        raise UnreadableLock(f"dvc.lock: not valid YAML ({error})") from error
    stages = parsed.get("stages") if isinstance(parsed, dict) else None
    if not isinstance(stages, dict) or not all(isinstance(entry, dict) for entry in stages.values()):
        raise UnreadableLock("dvc.lock: not what DVC writes, which is a mapping with `schema` and `stages`")
    return stages


def clear_leftovers() -> Iterator[str]:
    """Mend and remove what a killed command left; yield a sentence for each kind.

    A kill leaves the beginning of ``dvc.lock``. DVC waits for a holder of its own lock that is a zombie, and stops at
    one that was cut off; it names temporary files anew each time and never looks for old ones.
    """
    from pipeline.dag import open_repo

    if BEFORE.exists() and not _is_whole():
        copy_whole(BEFORE, LOCK)
        yield "dvc.lock was cut off when a command was killed; it is again as it was before that command."
    lock = Path(".dvc", "tmp", "rwlock")
    content = lock.read_text(encoding="utf-8") if lock.exists() else "{}"
    holders = [int(pid) for pid in re.findall(r'"pid": (\d+)', content)]
    if not content.endswith("}") or holders and not any(map(alive, holders)):
        lock.unlink()
        yield "removed the lock that a killed command had left"
    unfinished = [Path(place) / name for folder in (Path(".dvc", "cache"), ARTIFACTS, METRICS)
                  for place, _, names in os.walk(folder) for name in names if _UNFINISHED.fullmatch(name)]
    if unfinished:
        with open_repo() as repo, repo.lock:  # DVC writes under it
            for path in unfinished:
                path.unlink(missing_ok=True)
        yield f"removed {len(unfinished)} temporary files of DVC that a killed command had left"


def _is_whole() -> bool:
    """Tell whether ``dvc.lock`` has every stage that it had before, and no hash is cut off."""
    try:
        stages = read_lock()
    except UnreadableLock:
        return False
    return stages_of(BEFORE.read_bytes()).keys() <= stages.keys() and all(
        len(str(out.get("md5"))) >= 32 for entry in stages.values() for out in entry.get("outs") or [{}])


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that ``target`` is never half of it."""
    with atomic_file(target) as temporary:
        shutil.copyfile(source, temporary)
