"""Bytes out of files, packed or not, and text out of bytes: what is wrong is named, none of it guessed away."""

import bz2
import codecs
import gzip
import io
import lzma
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from stages.ingest.reading.rows import is_unicode
from stages.run.errors import InputError

MARK = "\ufeff"
_BUFFER = 1 << 17
# The longer marks first: that of UTF-32 begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32", ("utf-32", "utf-32-le")),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32", ("utf-32", "utf-32-be")),
    (codecs.BOM_UTF8, "UTF-8", "utf-8-sig", ("utf-8", "utf-8-sig")),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16", ("utf-16", "utf-16-le")),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16", ("utf-16", "utf-16-be")),
)
_UNDECODED = re.compile("[\udc80-\udcff]")
_UNSOUND = re.compile("[\0\ud800-\udfff]")
ENCODING_REMEDY = ("If the file has another encoding, name it as the data set's `encoding` (latin-1, cp1252, utf-16, "
                   "gb18030, ...).")


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
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            early = isinstance(error, EOFError) or "truncated" in str(error).lower()
            what = "ends too early" if early else f"is damaged, or is no {self._path.suffix} at all ({error})"
            raise InputError(f"{self._path}: the archive {what}. Fetch it again.") from error
        buffer[:len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the archive too."""
        self._stream.close()
        super().close()


def _open_zstd(path: Path) -> IO[bytes]:
    import pyarrow as pa

    return cast(IO[bytes], pa.input_stream(str(path), compression="zstd"))


_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile, ".zst": _open_zstd}
COMPRESSIONS = tuple(_OPENERS)


def open_bytes(path: Path) -> io.BufferedReader:
    """Open ``path`` for reading; what its ending says is packed is unpacked on the way, in constant memory.

    Raises:
        InputError: (also while reading) an archive is damaged or ends too early.
    """
    opener = _OPENERS.get(path.suffix.lower())
    return path.open("rb") if opener is None else io.BufferedReader(_Archive(opener(path), path), _BUFFER)


@contextmanager
def seekable(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for reading at any place; an archive is unpacked into a temporary file first."""
    with ExitStack() as stack:
        handle = stack.enter_context(open_bytes(path))
        if path.suffix.lower() in COMPRESSIONS:
            unpacked = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(handle, unpacked, _BUFFER)
            unpacked.seek(0)
            yield cast(BinaryIO, unpacked)
        else:
            yield handle


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    r"""Open ``path`` as text; lines end with \n alone, and a mark at the beginning is left out.

    Bytes that are not of the encoding become lone surrogates, so that one bad row does not hide the others.

    Raises:
        InputError: the file begins with the mark of another encoding, or has none where one is needed.
    """
    stream = open_bytes(path)
    try:
        codec = _codec(path, stream.peek(4), encoding)
    except InputError:
        stream.close()
        raise
    return io.TextIOWrapper(stream, codec, "surrogateescape", newline="\n")


def _codec(path: Path, head: bytes, encoding: str) -> str:
    """Return the codec for a file that begins with ``head``, so that a mark is left out."""
    name = codecs.lookup(encoding).name
    for mark, shown, codec, fitting in _MARKS:
        if head.startswith(mark):
            if name not in fitting:
                raise InputError(f"{path}: the file begins with the mark of {shown}, but the data set's `encoding` is "
                                 f"{encoding}. Set it to {fitting[0]}, or save the file anew.")
            return codec
    if name in ("utf-16", "utf-32"):
        raise InputError(f"{path}: the file does not begin with the mark that tells the order of bytes in {name}. "
                         f"Set the data set's `encoding` to {name}-le or {name}-be.")
    return name


def text_lines(path: Path, encoding: str) -> Iterator[str]:
    r"""Yield the lines of ``path``, each with its \n.

    Raises:
        InputError: as ``open_text``; or bytes that cannot even be passed over, as in broken UTF-16.
    """
    with open_text(path, encoding) as handle:
        try:
            yield from handle
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not valid {encoding} ({error.reason}). {ENCODING_REMEDY}") from error


def is_sound(text: str) -> bool:
    """Say whether a line is decoded as a whole, and no mark stands at its beginning."""
    return is_decoded(text) and not text.startswith(MARK)


def is_decoded(text: str) -> bool:
    """Say whether all bytes of ``text`` could be decoded, and none is NUL."""
    return "\0" not in text and is_unicode(text)


def character_problem(text: str, encoding: str, line: int, column: str = "") -> str:
    """Return what is wrong with a ``text`` that is not sound, ``category: detail``.

    Args:
        text: one or more lines as they were read.
        encoding: by which they were.
        line: 1-based number of the first of them.
        column: where the character stands, if that is known.
    """
    if text.startswith(MARK):
        return (f"byte order mark: line {line} begins with one, as where files were put one behind the other. Remove "
                f"it, and any header that follows it.")
    found = _UNSOUND.search(text)
    place = found.start() if found else 0
    before = text[:place]
    first = before.rfind("\n") + 1
    byte = len(before[first:].encode(_unmarked(encoding), "surrogateescape")) + 1
    where = f"byte {byte} of line {line + before.count(chr(10))}" + (f", column {column!r}" if column else "")
    if text[place] != "\0":
        return undecoded_problem(text[place], encoding, f"at {where}")
    return f"NUL byte: {where}. Text holds none; if the file is UTF-16, name it as the data set's `encoding`."


def undecodable(text: str) -> bool:
    """Say whether ``text`` holds a byte that is not of the encoding by which it was read."""
    return not text.isascii() and _UNDECODED.search(text) is not None


def undecoded_problem(text: str, encoding: str, where: str) -> str:
    """Name the first undecodable byte of ``text``, which stands at ``where``, and the remedy."""
    found = _UNDECODED.search(text)
    what = f"byte 0x{ord(found[0]) - 0xdc00:02x}" if found else "half a surrogate pair"
    return f"encoding: not valid {encoding.upper()}: {what} {where}. {ENCODING_REMEDY}"


def _unmarked(encoding: str) -> str:
    """Return the codec that writes as ``encoding`` does, but no mark."""
    name = codecs.lookup(encoding).name
    return {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(name, name)


def printable(text: str) -> str:
    """Return ``text`` with undecodable bytes, and whatever else cannot be written as UTF-8, spelt out."""
    spelt = _UNDECODED.sub(lambda found: f"\\x{ord(found[0]) - 0xdc00:02x}", text)
    return spelt.encode("utf-8", "backslashreplace").decode("utf-8")
