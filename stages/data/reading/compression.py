"""Files as streams of bytes, compressed or not; damaged archives are named."""

import gzip
import io
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import pyarrow as pa

from stages.runtime.errors import InputError

COMPRESSIONS = (".gz", ".zst")
_BUFFER = 1 << 17


class _Archive(io.RawIOBase):
    """What comes out of an archive; whatever is wrong with it becomes an error that names it."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        """Say that bytes can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer`` as far as there is something, return how many bytes that are."""
        try:
            data = self._stream.read(len(buffer))
        except EOFError as error:
            raise InputError(f"{self._path}: the archive ends too early. Fetch it again.") from error
        except (OSError, zlib.error) as error:
            early = "truncated" in str(error).lower()
            what = "ends too early" if early else f"is damaged, or is no {self._path.suffix} at all ({error})"
            raise InputError(f"{self._path}: the archive {what}. Fetch it again.") from error
        buffer[:len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the archive too."""
        self._stream.close()
        super().close()


def open_bytes(path: Path) -> io.BufferedReader:
    """Open ``path`` for reading; ``.gz`` and ``.zst`` are decompressed on the way, in constant memory.

    Raises:
        InputError: (also while reading) an archive is damaged or ends too early.
    """
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return path.open("rb")
    stream = gzip.GzipFile(path) if suffix == ".gz" else pa.input_stream(str(path), compression="zstd")
    return io.BufferedReader(_Archive(cast(IO[bytes], stream), path), _BUFFER)


@contextmanager
def seekable(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for reading at any place; an archive is unpacked into a temporary file first."""
    if path.suffix.lower() not in COMPRESSIONS:
        with path.open("rb") as handle:
            yield handle
        return
    with tempfile.TemporaryFile() as unpacked, open_bytes(path) as packed:
        shutil.copyfileobj(packed, unpacked, _BUFFER)
        unpacked.seek(0)
        yield cast(BinaryIO, unpacked)
