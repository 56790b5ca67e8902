"""Files that the disk has before anything relies on them: a power cut takes what only the memory had."""

import os
from pathlib import Path
from typing import IO, Any

from stages.run.systems import open_to_flush


def flush(file: IO[Any]) -> None:
    """Wait until the disk has what was written into an open file."""
    file.flush()
    os.fsync(file.fileno())


def flush_file(path: Path) -> None:
    """Likewise for a file that is closed."""
    handle = os.open(path, open_to_flush())
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(path: Path) -> None:
    """Likewise for the names in a folder, where the system can (Windows cannot)."""
    if os.name == "posix":
        flush_file(path)


def flush_below(folder: Path) -> None:
    """Likewise for all that lies below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            flush_file(path)
        elif path.is_dir():
            flush_folder(path)
    flush_folder(folder)
