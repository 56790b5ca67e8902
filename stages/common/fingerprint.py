"""Hashes of files and code, from which artifacts and checkpoints know whether they still hold."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from keycontrast.files import hash_values, sha256_of

_ROOT = Path(__file__).resolve().parents[2]


def hash_files(paths: Iterable[Path]) -> str:
    """Return a 16-digit hash of the names and bytes of files; folders count with all they hold."""
    digest = hashlib.sha256()
    for path in sorted(map(Path, paths)):
        inside = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        for file in inside if path.is_dir() else [path]:
            digest.update(f"{file.as_posix()}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as handle:
                digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()[:16]


def hash_code(files: Iterable[Path]) -> str:
    """Return a hash of files of this project's code by their places in it, wherever it lies on this machine."""
    return hash_values({place.as_posix(): sha256_of(path) for place, path in by_place(files).items()})


def by_place(files: Iterable[Path]) -> dict[Path, Path]:
    """Return files of this project's code by their places below its folder."""
    return {path.relative_to(_ROOT): path for path in files}
