"""Are artifacts, and DVC's cache of them, still the bytes that ``dvc.lock`` names? A bad disk tells nobody."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from keycontrast.errors import InputError, plain
from pipeline.dag import open_repo
from pipeline.records import machine_lock


@dataclass(frozen=True)
class Fault:
    """A file that is not as ``dvc.lock`` has it.

    Attributes:
        stage: that made it.
        path: of the file, in the project or in the cache.
        what: is wrong with it.
        remedy: for a person.
    """

    stage: str
    path: str
    what: str
    remedy: str


def show_verified(console: Console, root: Path = Path()) -> bool:
    """Say which files are sound and which are not; return whether all are.

    Raises:
        InputError: ``dvc.lock`` is not whole or names nothing.
    """
    stages = machine_lock(root)
    if not stages:
        raise InputError("dvc.lock: names nothing yet. Make the artifacts first, with `keycontrast run`.")
    with open_repo(root) as repo:
        cache = Path(repo.cache.local.path)
    checked, faults, seen = 0, list[Fault](), set[str]()
    for name, entry in stages.items():
        for out in entry.get("outs", ()):
            for path, digest in _files(out, cache):
                checked += 1
                faults += _faults(name, root, path, digest, cache, seen)
    for fault in faults:
        console.print(plain(f"{fault.path}: {fault.what}. {fault.remedy}"), style="red", markup=False, soft_wrap=True)
    console.print(f"{checked:,} files of {len(stages)} stages compared with dvc.lock; {len(faults)} are not as it has "
                  f"them.", highlight=False)
    return not faults


def _files(out: Mapping[str, Any], cache: Path) -> Iterator[tuple[str, str]]:
    """Yield path and MD5 of each file of an out; of a folder whose list is not in the cache, the list itself."""
    path, digest = str(out["path"]), str(out.get("md5", ""))
    if not digest.endswith(".dir"):
        yield path, digest
        return
    listing = _object(cache, digest)
    try:
        content = listing.read_bytes()
        whole = hashlib.md5(content, usedforsecurity=False).hexdigest() == digest.removesuffix(".dir")
        if not whole:
            raise ValueError(f"{listing}: not the list that its name says")
        yield from ((f"{path}/{entry['relpath']}", entry["md5"]) for entry in json.loads(content))
    except (OSError, ValueError, TypeError, KeyError):
        yield path, digest


def _faults(stage: str, root: Path, path: str, digest: str, cache: Path, seen: set[str]) -> Iterator[Fault]:
    again = f"Make it again: `keycontrast stage {stage} --force`."
    kept, here = _object(cache, digest), root / path
    if digest.endswith(".dir"):  # a folder that DVC does not cache, or whose list is damaged there
        if not here.is_dir():
            yield Fault(stage, path, "is not there, nor whole in DVC's cache", again)
        elif _listed(here) != digest:
            yield Fault(stage, path, "has other files than its stage has written", again)
        return
    sound = kept.is_file() and _md5(kept) == digest
    if kept.is_file() and not sound and digest not in seen:
        yield Fault(stage, str(kept), f"DVC's cache of {path} is damaged", f"Delete it. {again}")
    seen.add(digest)
    if not here.is_file():
        back = f"`dvc checkout {path}` brings it back." if sound else again
        yield Fault(stage, path, "is not there", back)
    elif not (kept.is_file() and here.samefile(kept)) and _md5(here) != digest:
        back = f"`dvc checkout --force {path}` brings it back." if sound else again
        yield Fault(stage, path, "has other bytes than its stage has written", back)


def _listed(folder: Path) -> str:
    """Return the digest that DVC gives a folder: of the list of its files, by path, with the MD5 of each."""
    files = sorted((file.relative_to(folder).as_posix(), file) for file in folder.rglob("*") if file.is_file())
    listing = json.dumps([{"md5": _md5(file), "relpath": name} for name, file in files])
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def _object(cache: Path, digest: str) -> Path:
    return cache / digest[:2] / digest[2:]


def _md5(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
