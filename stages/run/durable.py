"""Files that the disk has before anything relies on them: a power cut takes what only the memory had."""

import os
from pathlib import Path
from typing import IO, Any


def flush(file: IO[Any]) -> None:
    """Wait until the disk has what was written into an open file."""
    file.flush()
    os.fsync(file.fileno())


def flush_path(path: Path) -> None:
    """Likewise for a file that is closed, or for the names in a folder; Windows can do neither."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_below(folder: Path) -> None:
    """Likewise for all that lies below a folder."""
    for path in [*sorted(folder.rglob("*")), folder]:
        flush_path(path)
