"""Archives that are written whole or not at all, member by member, without holding them in memory."""

import io
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_archive(file: Path, folder: str, members: Mapping[str, Path | bytes]) -> None:
    """Write ``members``, files or contents by name, below ``folder`` into a tar.gz."""
    unfinished = file.with_name(f".{file.name}.tmp")
    with tarfile.open(unfinished, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.mtime = int(content.stat().st_mtime if isinstance(content, Path) else time.time())
            with _opened(content) as (stream, size):
                entry.size = size
                archive.addfile(entry, stream)
    unfinished.replace(file)


@contextmanager
def _opened(content: Path | bytes) -> Iterator[tuple[BinaryIO, int]]:
    if isinstance(content, bytes):
        yield io.BytesIO(content), len(content)
        return
    with content.open("rb") as stream:
        yield stream, content.stat().st_size
