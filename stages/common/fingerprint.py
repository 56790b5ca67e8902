"""Hashes of params, files and code, from which artifacts and checkpoints know whether they still hold."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def hash_values(values: Mapping[str, Any]) -> str:
    """Return a 16-digit hash of plain values; equal for equal content whatever the order of keys."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


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
