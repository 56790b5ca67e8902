"""Are the artifacts still the bytes that ``dvc.lock`` names? DVC trusts the time and size of a file; this reads it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from keycontrast.errors import InputError, plain
from pipeline.dag import open_repo
from pipeline.records import machine_lock


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
    checked, faults = 0, list[str]()
    for name, entry in stages.items():
        for path, digest in (found for out in entry.get("outs", ()) for found in _files(out, cache)):
            checked += 1
            here, kept = root / path, _object(cache, digest)
            if (digest_of(here) if here.exists() else None) == digest:
                continue
            what = "has other bytes than its stage has written" if here.exists() else "is not there"
            sound = kept.is_file() and digest_of(kept) == digest
            # Where files are links into DVC's cache, what damages the one damages the other, and DVC would keep it.
            again = f"Delete {kept}. " if kept.is_file() else ""
            back = (f"`dvc checkout --force {path}` brings it back" if sound else
                    f"{again}Make it again: `keycontrast stage {name} --force`")
            faults.append(f"{path}: {what}. {back}.")
    for fault in faults:
        console.print(plain(fault), style="red", markup=False, soft_wrap=True)
    console.print(f"{checked:,} files of {len(stages)} stages compared with dvc.lock; {len(faults)} are not as it has "
                  f"them.", highlight=False)
    return not faults


def _files(out: Mapping[str, Any], cache: Path) -> Iterator[tuple[str, str]]:
    """Yield path and digest of each file of an out; of a folder whose list the cache has not, of the folder."""
    path, digest = str(out["path"]), str(out.get("md5", ""))
    listing = _object(cache, digest)
    if digest.endswith(".dir") and listing.is_file() and f"{digest_of(listing)}.dir" == digest:
        yield from ((f"{path}/{entry['relpath']}", entry["md5"]) for entry in json.loads(listing.read_bytes()))
    else:
        yield path, digest


def digest_of(path: Path) -> str:
    """Return the digest that DVC gives a file, or a folder: of the list of its files, by path, with the MD5 of each."""
    if path.is_dir():
        files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
        listing = json.dumps([{"md5": digest_of(file), "relpath": name} for name, file in files])
        return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _object(cache: Path, digest: str) -> Path:
    return cache / digest[:2] / digest[2:]
