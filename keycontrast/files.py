"""Files and folders that are written atomically, and flushed to the disk before anything depends on them; hashes."""

import glob
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import IO, Any


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its name only if the block succeeds."""
    path = Path(path)
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            # mkstemp makes private files; an artifact is as readable as any other new file.
            temporary.chmod(0o666 & ~_umask())
            flush_path(temporary)
            temporary.replace(path)
            flush_path(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that replaces it only if the block succeeds."""
    path = Path(path)
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            for below in [*sorted(temporary.rglob("*")), temporary]:
                flush_path(below)
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
            if path.exists():
                path.replace(old / "previous")
            temporary.replace(path)
            flush_path(path.parent)
            rmtree(old)
        finally:
            if temporary.exists():
                rmtree(temporary)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the name of a file as a note to an error, whose message may name the temporary file."""
    try:
        yield
    except Exception as error:
        error.add_note(str(path))
        raise


def _remove_leftovers(path: Path) -> None:
    """Remove what writers of ``path`` left behind when they were killed; an artifact has one writer at a time."""
    for ending in ("tmp", "old"):
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'?' * 8}.{ending}"):  # tempfile draws 8 letters
            if leftover.is_dir():
                rmtree(leftover)
            else:
                leftover.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def flush(file: IO[Any]) -> None:
    """Wait until the disk has the content of an open file."""
    file.flush()
    os.fsync(file.fileno())


def flush_path(path: Path) -> None:
    """Wait until the disk has a closed file, or the names in a folder; Windows can do neither."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hash_values(values: Mapping[str, Any]) -> str:
    """Return a 16-digit hash of plain values; equal for equal content whatever the order of keys."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
