"""The records of DVC around a run: leftovers of killed commands, the committed lock, and the bytes of this machine.

Another type of processor gives weights and metrics other last digits. Then ``dvc.lock`` and metrics stay as committed,
and those of this machine are kept in ``.keycontrast/local`` and used while a command runs. ``keycontrast verify``
compares artifacts with them, byte by byte: DVC trusts the time and size of a file.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from keycontrast.errors import InputError, plain
from keycontrast.files import atomic_file
from pipeline.dag import LOCK, UnreadableLock, open_repo, read_lock, stages_of
from stages.common.paths import ARTIFACTS, METRICS
from stages.run.processes import alive

BEFORE = Path(".keycontrast", "lock-before-run")  # a copy while a command runs
LOCAL = Path(".keycontrast", "local")
_OWN, _COMMITTED, _FILES = LOCAL / "dvc.lock", LOCAL / "committed.lock", LOCAL / "files"
_SAVED = Path(".keycontrast", "saved.lock")
# DVC's temporary files: 16 random bytes, sometimes after the name of the file.
_UNFINISHED = re.compile(r".*\.[\w-]{22}\.tmp")


def clear_leftovers() -> Iterator[str]:
    """Repair or remove leftovers of a killed command; yield a sentence for each kind.

    They are a truncated ``dvc.lock``, DVC's own lock if the process that acquired it is dead, and its temporary files.
    """
    if BEFORE.exists() and not _is_whole():
        copy_whole(BEFORE, LOCK)
        yield "dvc.lock was cut off when a command was killed; its state before that command is restored."
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
    """Return whether ``dvc.lock`` is as committed, or has every stage that it had before and no hash is cut off."""
    try:
        stages = read_lock()
    except UnreadableLock:
        return False
    if LOCK.exists() and LOCK.read_bytes() == _git("show", f"HEAD:./{LOCK}"):
        return True
    return stages_of(BEFORE.read_bytes()).keys() <= stages.keys() and all(
        len(str(out.get("md5"))) >= 32 for entry in stages.values() for out in entry.get("outs") or [{}])


def machine_lock() -> dict[str, Any]:
    """Return the stages of ``dvc.lock`` with the hashes of this machine."""
    return stages_of(_OWN.read_bytes()) if _is_local() else read_lock()


@contextmanager
def own_lock(say: Callable[[str], None], save: bool = False) -> Iterator[None]:
    """Use the lock and metrics of this machine during the block; then restore the committed ones, unless ``save``.

    A lock that was saved stays, also before it is committed.
    """
    if LOCK.exists() and not BEFORE.exists():  # it exists if the last command was killed
        read_lock()     # a damaged lock is an error here, not something to come back to
        copy_whole(LOCK, BEFORE)
    save = save or BEFORE.exists() and _SAVED.exists() and BEFORE.read_bytes() == _SAVED.read_bytes()
    if _is_local():
        copy_whole(_OWN, LOCK)
        for path in _FILES.rglob("*"):
            if path.is_file():
                copy_whole(path, path.relative_to(_FILES))
    try:
        yield
    finally:
        _keep_committed(say, save)
        BEFORE.unlink(missing_ok=True)


def _is_local() -> bool:
    """Return whether ``dvc.lock`` is the committed one, and this machine has other bytes."""
    return all(map(Path.exists, (_OWN, LOCK, _COMMITTED))) and LOCK.read_bytes() == _COMMITTED.read_bytes()


def _keep_committed(say: Callable[[str], None], save: bool) -> None:
    known = _OWN.read_bytes() if _OWN.exists() else b""
    shutil.rmtree(LOCAL, ignore_errors=True)
    committed = _git("show", f"HEAD:./{LOCK}")
    if save and LOCK.exists():
        copy_whole(LOCK, _SAVED)
    if not committed or save or not LOCK.exists():
        return
    content = LOCK.read_bytes()
    before, after = stages_of(committed), stages_of(content)
    changed = [name for name in after if after[name] != before.get(name)]
    if not changed or not differs_by_rounding(before, after):
        return
    outs = [item["path"] for name in changed for item in after[name].get("outs", ())]
    files = _git("diff", "--name-only", "--diff-filter=M", "--relative", "HEAD", "--", *outs).decode().splitlines()
    for path in map(Path, files):
        copy_whole(path, _FILES / path)
        _write(path, _git("show", f"HEAD:./{path.as_posix()}"))
    _write(_COMMITTED, committed)   # first: whether the own lock is in use is decided by it
    copy_whole(LOCK, _OWN)
    _write(LOCK, committed)
    if content != known:
        say(f"{len(changed)} of {len(after)} stages wrote other bytes from the same inputs, as another type of "
            f"processor or another version of Python or of a package does. dvc.lock and {len(files)} metrics files "
            f"stay as committed; `keycontrast run --save` writes those of this machine.")


def differs_by_rounding(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether all stages of ``after`` had the inputs of ``before``: command, params and deps.

    A dep is the same, too, if a stage with the same inputs made it.
    """
    rebuilt: set[str] = set()
    rest = {name for name in after if after[name] != before.get(name)}
    while same := {name for name in rest if name in before and _same_inputs(before[name], after[name], rebuilt)}:
        rebuilt |= {path for name in same for path in _hashes(after[name], "outs")}
        rest -= same
    return not rest


def _same_inputs(entry: dict[str, Any], other: dict[str, Any], rebuilt: set[str]) -> bool:
    deps, others = _hashes(entry, "deps"), _hashes(other, "deps")
    same = all(entry.get(part) == other.get(part) for part in ("cmd", "params")) and deps.keys() == others.keys()
    return same and all(deps[path] == others[path] or any(_overlap(path, out) for out in rebuilt) for path in deps)


def _overlap(path: str, other: str) -> bool:
    return path == other or other.startswith(f"{path}/") or path.startswith(f"{other}/")


def _hashes(entry: dict[str, Any], kind: str) -> dict[str, Any]:
    return {item["path"]: item.get("md5") for item in entry.get(kind, ())}


def _git(*words: str) -> bytes:
    """Return the output of git; nothing if git fails or is missing."""
    try:
        return subprocess.run(["git", *words], capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return b""


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file atomically."""
    _write(target, source.read_bytes())


def _write(path: Path, content: bytes) -> None:
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def show_verified(console: Console) -> bool:
    """Print the files that differ from ``dvc.lock``; return whether none does."""
    stages = machine_lock()
    if not stages:
        raise InputError("dvc.lock: names nothing yet. Make the artifacts first, with `keycontrast run`.")
    with open_repo() as repo:
        cache, current = Path(repo.cache.local.path), {getattr(stage, "name", "") for stage in repo.index.stages}
    stages = {name: entry for name, entry in stages.items() if name in current}    # a recipe may have dropped rows
    checked, faults = 0, list[str]()
    for name, entry in stages.items():
        for path, digest in (file for out in entry.get("outs", ()) for file in _files(out, cache)):
            checked += 1
            here, kept = Path(path), _object(cache, digest)
            if (digest_of(here) if here.exists() else None) == digest:
                continue
            what = "has other bytes than its stage has written" if here.exists() else "is not there"
            sound = kept.is_file() and digest_of(kept) == digest
            # If files are links into DVC's cache, both are damaged, and DVC would keep the damaged one.
            remedy = f"Delete {kept}. " if kept.is_file() else ""
            back = (f"`dvc checkout --force {path}` brings it back" if sound else
                    f"{remedy}Make it again: `keycontrast run --force {name}`")
            faults.append(f"{path}: {what}. {back}.")
    for fault in faults:
        console.print(plain(fault), style="red", markup=False, soft_wrap=True)
    console.print(f"{checked:,} files of {len(stages)} stages compared with dvc.lock; {len(faults)} differ.",
                  highlight=False)
    return not faults


def _files(out: Mapping[str, Any], cache: Path) -> Iterator[tuple[str, str]]:
    """Yield path and digest of each file of an out, or of a folder whose list is not in the cache."""
    path, digest = str(out["path"]), str(out.get("md5", ""))
    listing = _object(cache, digest)
    if digest.endswith(".dir") and listing.is_file() and f"{digest_of(listing)}.dir" == digest:
        yield from ((f"{path}/{entry['relpath']}", entry["md5"]) for entry in json.loads(listing.read_bytes()))
    else:
        yield path, digest


def digest_of(path: Path) -> str:
    """Return DVC's digest of a file or folder; that of a folder is of the list of its files with their MD5."""
    if path.is_dir():
        files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
        listing = json.dumps([{"md5": digest_of(file), "relpath": name} for name, file in files])
        return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _object(cache: Path, digest: str) -> Path:
    return cache / digest[:2] / digest[2:]
