"""Rows of CSV, TSV, JSON lines and Parquet, packed or not, and lines of text files.

    for record in read_table(Path("questions.csv"), TableForm(".csv"), check=lambda names, first, schema: None):
        record.problem or record.values["question"]

A faulty row is reported in its record; a faulty file raises an InputError.
"""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from keycontrast.errors import InputError

MARK = "\ufeff"
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
LONGEST_TEXT = 1_000_000    # characters; language pipelines read no more at a time
Quoting = Literal["standard", "none"]
# Gets the names of the columns, the first line (of CSV) and the Arrow schema (of Parquet); raises an InputError.
Check = Callable[[list[str], str, pa.Schema | None], None]

_BUFFER = 1 << 17
_BATCH = 16_384
# Characters of a field; more are a sign of a quotation mark that is not closed.
_LONGEST = 1 << 24
_SHOWN = 80
# The longer marks first: that of UTF-32 begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32", ("utf-32", "utf-32-le")),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32", ("utf-32", "utf-32-be")),
    (codecs.BOM_UTF8, "UTF-8", "utf-8-sig", ("utf-8", "utf-8-sig")),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16", ("utf-16", "utf-16-le")),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16", ("utf-16", "utf-16-be")),
)
_UNDECODED = re.compile("[\udc80-\udcff]")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_NAMED = {delimiter: ending for ending, delimiter in _DELIMITERS.items()}


class Words(NamedTuple):
    """Names of settings in messages: the encoding, no quoting, and the separator."""

    encoding: str = "--encoding"
    unquoted: str = "--quoting none"
    separator: str = "--separator"


OPTIONS = Words()


@dataclass(frozen=True)
class TableForm:
    """The format of a file: ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``, and its settings.

    Quoting is ``standard`` (RFC 4180), or ``none``: marks are ordinary. An empty separator is that of the ending.
    """

    ending: str
    encoding: str = "utf-8"
    quoting: Quoting = "standard"
    separator: str = ""
    words: Words = OPTIONS

    @property
    def delimiter(self) -> str:
        """Separator of the columns."""
        return self.separator or _DELIMITERS[self.ending]


class Record(NamedTuple):
    """One row: its number from 1 (without a header, with empty lines) and its values by column.

    For a row that cannot be read, ``values`` is None, ``line`` is its text, and ``problem`` is ``category: detail``.
    """

    number: int
    values: Mapping[str, Any] | None
    line: str = ""
    problem: str = ""


def read_table(path: Path, form: TableForm, check: Check, columns: Sequence[str] | None = None) -> Iterator[Record]:
    """Yield the rows of a table; of Parquet with ``columns`` alone, or with all."""
    if form.ending == ".parquet":
        return _parquet(path, check, columns)
    return _json_lines(path, form, check) if form.ending == ".jsonl" else _delimited(path, form, check)


# Bytes and text


class _Archive(io.RawIOBase):
    """The bytes of an archive; damage becomes an error that names it."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        """Return True: bytes can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read bytes into ``buffer`` and return their number."""
        try:
            data = self._stream.read(len(buffer))
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise _damaged(self._path, str(error)) from error
        buffer[:len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the archive too."""
        self._stream.close()
        super().close()


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(f"{path}: the archive is damaged, ends too early, or is no {path.suffix} file ({reason}). Fetch "
                      f"it again.")


# By the ending of a name, with the bytes that such a file begins with.
_PACKED: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    ".gz": (b"\x1f\x8b\x08", gzip.GzipFile), ".bz2": (b"BZh", bz2.BZ2File), ".xz": (b"\xfd7zXZ\0", lzma.LZMAFile),
    ".zst": (b"\x28\xb5\x2f\xfd", lambda path: pa.input_stream(str(path), compression="zstd"))}
COMPRESSIONS = tuple(_PACKED)


def file_format(path: Path) -> str:
    """Return the ending of a file without that of its compression."""
    return Path(path.stem if path.suffix.lower() in COMPRESSIONS else path.name).suffix.lower()


def packed(path: Path) -> str | None:
    """Return the ending that a packed file has or should have, by its first bytes; None if it is not packed."""
    try:
        with path.open("rb") as file:
            head = file.read(6)
    except PermissionError as error:
        raise InputError(f"{path}: cannot be read: this user has no permission for it. Change its permissions "
                         f"(ls -l).") from error
    packing = next((ending for ending, (magic, _) in _PACKED.items() if head.startswith(magic)), None)
    if packing is None and head and path.suffix.lower() in COMPRESSIONS:
        raise _damaged(path, "its first bytes are others")
    return packing


def open_bytes(path: Path) -> io.BufferedReader:
    """Open ``path`` for reading, unpacked in constant memory if its first bytes are those of an archive."""
    ending = packed(path)
    return path.open("rb") if ending is None else io.BufferedReader(_Archive(_PACKED[ending][1](path), path), _BUFFER)


def open_text(path: Path, encoding: str, words: Words = OPTIONS) -> io.TextIOWrapper:
    r"""Open ``path`` as text without a byte order mark; lines end with \n, bad bytes become lone surrogates."""
    stream = open_bytes(path)
    try:
        codec = _codec(path, stream.peek(4), encoding, words)
    except InputError:
        stream.close()
        raise
    return io.TextIOWrapper(stream, codec, "surrogateescape", newline="\n")


def _codec(path: Path, head: bytes, encoding: str, words: Words) -> str:
    """Return the codec for a file that begins with ``head``, so that a mark is left out."""
    name = codecs.lookup(encoding).name
    for mark, shown, codec, fitting in _MARKS:
        if head.startswith(mark):
            if name not in fitting:
                raise InputError(f"{path}: the file begins with the mark of {shown}, but {words.encoding} is "
                                 f"{encoding}. Set it to {fitting[0]}, or save the file anew.")
            return codec
    if name in ("utf-16", "utf-32"):
        raise InputError(f"{path}: the file has no byte-order mark, which {name} needs. "
                         f"Set {words.encoding} to {name}-le or {name}-be.")
    return name


def text_lines(path: Path, encoding: str, words: Words = OPTIONS) -> Iterator[str]:
    r"""Yield the lines of ``path``, each with its \n."""
    with open_text(path, encoding, words) as handle:
        try:
            yield from handle
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not valid {encoding} ({error.reason}). {_remedy(words)}") from error


def is_unicode(text: str) -> bool:
    """Return whether ``text`` can be written as UTF-8, that is, has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def text_fault(text: str, name: str) -> str:
    """Return the fault of a text, called ``name`` in its row, as ``category: detail``, or nothing."""
    if "\0" in text:
        return (f"NUL byte: {name} holds a NUL byte, and text holds none; take it out, or name the encoding that the "
                f"file has")
    if len(text) > LONGEST_TEXT:
        return (f"too long: {name} has {len(text):,} characters, and a text at most {LONGEST_TEXT:,}; split it into "
                f"paragraphs, or leave it out")
    return "" if is_unicode(text) else f"encoding: {name} holds half a surrogate pair"


def character_problem(text: str, encoding: str, place: str, words: Words = OPTIONS) -> str:
    """Return what is wrong with the characters at ``place`` (``line 3``), as ``category: detail``, or nothing."""
    if text.startswith(MARK):
        return (f"byte order mark: {place} begins with one, as where files were put one behind the other. Remove it, "
                f"and any header that follows it.")
    if "\0" in text:
        return (f"NUL byte: {place} holds one, and text holds none. {_binary(words)}")
    if is_unicode(text):
        return ""
    byte = _UNDECODED.search(text)
    what = f"byte 0x{ord(byte[0]) - 0xdc00:02x}" if byte else "half a surrogate pair"
    return f"encoding: not valid {encoding.upper()}: {what} in {place}. {_remedy(words)}"


def _binary(words: Words) -> str:
    return (f"Unpack a .zip, save a workbook as CSV, name Parquet .parquet; for UTF-16 set {words.encoding} to utf-16, "
            f"without a mark to utf-16-le or utf-16-be.")


def _remedy(words: Words) -> str:
    return f"If the file has another encoding, name it as {words.encoding} (latin-1, cp1252, utf-16, gb18030, ...)."


def escaped(text: str) -> str:
    """Return ``text`` with undecodable bytes and lone surrogates as escapes."""
    spelt = _UNDECODED.sub(lambda match: f"\\x{ord(match[0]) - 0xdc00:02x}", text)
    return spelt.encode("utf-8", "backslashreplace").decode("utf-8")


# CSV and TSV

# A record: its number (0 for the header), the number of its first line, its text, its fields, and its fault.
_Fields = tuple[int, int, str, list[str], str]


def _delimited(path: Path, form: TableForm, check: Check) -> Iterator[Record]:
    r"""Yield the rows of a ``.csv`` or ``.tsv`` file with a header; lines may end with \n or \r\n, also mixed."""
    records = _records(path, text_lines(path, form.encoding, form.words), form)
    header = _header(path, next(records, None), form, check)
    number = 0
    for number, line, text, fields, problem in records:
        if not problem and len(fields) != len(header):
            problem = f"broken line: {len(fields)} fields instead of {len(header)} in line {line}"
            if len(fields) > len(header):
                marks = _SEPARATORS.get(form.delimiter, repr(form.delimiter))
                problem += (f"; without quoting no field can hold {marks}" if form.quoting == "none" else
                            f"; fields that hold {marks} must be in quotation marks")
        problem = problem or character_problem(text, form.encoding, f"line {line}", form.words)
        if not problem and form.quoting == "standard" and '"' in text and '"' in "".join(fields):
            problem = _stray_mark(text, line, header, form)
        yield (Record(number, None, escaped(text.rstrip("\r\n")), problem) if problem
               else Record(number, dict(zip(header, fields, strict=True))))
    if number == 0:
        raise InputError(f"{path}: the file has a header but no rows.")


def _header(path: Path, record: _Fields | None, form: TableForm, check: Check) -> list[str]:
    """Return the names of the columns after the check."""
    if record is None:
        raise InputError(f"{path}: the file is empty. Fetch it again, or leave it out.")
    _, _, text, fields, problem = record
    if "\0" in text:
        raise InputError(f"{path}: the header holds NUL bytes. {_binary(form.words)}")
    if problem := problem or character_problem(text, form.encoding, "the header", form.words).rstrip("."):
        raise InputError(f"{path}: the header cannot be read ({problem}).")
    if len(fields) == 1:
        for other, what in _SEPARATORS.items():
            if other != form.delimiter and other in text:
                remedy = f"name it {_NAMED[other]}, or " if other in _NAMED else ""
                raise InputError(f"{path}: only one column was found, and its name holds {what}. If {what} separate "
                                 f"the columns of this file, {remedy}set {form.words.separator} to {other!r}.")
    shown = escaped(text.rstrip("\r\n"))
    check(fields, shown[:_SHOWN] + "..." if len(shown) > _SHOWN else shown, None)
    return fields


def _records(path: Path, source: Iterator[str], form: TableForm) -> Iterator[_Fields]:
    """Yield the records of a CSV file; an unclosed quotation mark, which swallows good rows, is an error."""
    csv.field_size_limit(_LONGEST)
    lines: list[str] = []

    def remembered() -> Iterator[str]:
        for line in source:
            lines.append(line)
            yield line

    reader = csv.reader(remembered(), delimiter=form.delimiter, strict=True,
                        quoting=csv.QUOTE_NONE if form.quoting == "none" else csv.QUOTE_MINIMAL)
    number, width, first = -1, 0, 1
    while True:
        lines.clear()
        fields: list[str] = []
        problem = ""
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = (f"line ending: a carriage return (\\r) without a line feed in line {first}; remove it"
                       if "new-line" in str(error) else
                       f"broken line: {error} in line {first}; double the quotation marks inside fields")
        if fields or problem or number >= 0:
            number += 1
        width = width or len(fields)
        if len(lines) > 1 and (problem or len(fields) != width):
            raise InputError(f"{path}: lines {first} to {first + len(lines) - 1}: a quotation mark is not closed as it "
                             f"should be. Double the quotation marks inside fields; or, if they are ordinary "
                             f"characters in this file, use {form.words.unquoted}.")
        if fields or problem:
            yield number, first, "".join(lines), fields, problem
        first += len(lines)


def _stray_mark(text: str, line: int, header: Sequence[str], form: TableForm) -> str:
    """Return the problem of a quotation mark in a field that is not quoted, or nothing."""
    # Possessive, so that a row without a match costs no more than its length.
    field = re.compile(f'"[^"]*+(?:""[^"]*+)*+"|[^"{re.escape(form.delimiter)}]*+')
    record, place = text.rstrip("\r\n"), 0
    for column in header:
        match = field.match(record, place)
        place = match.end() + 1 if match else place
        if place <= len(record) and record[place - 1] != form.delimiter:
            return (f"quotation mark: column {column!r} holds one in line {line}, but is not quoted itself. Quote it "
                    f"and double the mark; or, if marks are ordinary characters in this file, use "
                    f"{form.words.unquoted}")
    return ""


# JSON lines


def once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's fields; JSON by itself would keep the last of two with one name."""
    content = dict(fields)
    if len(content) != len(fields):
        names = [name for name, _ in fields]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return content


_DECODER = json.JSONDecoder(object_pairs_hook=once)


def _json_lines(path: Path, form: TableForm, check: Check) -> Iterator[Record]:
    """Yield the objects of a file with one JSON object per line; empty lines are passed over."""
    seen: set[str] = set()
    rows, objects = 0, False
    for number, line in enumerate(text_lines(path, form.encoding, form.words), start=1):
        text = line.strip()
        if not text:
            continue
        if not rows and (text == "{" or text.startswith("[")):
            raise InputError(f"{path}: this is one JSON document. Write one object per line, without commas between "
                             f"them.")
        rows += 1
        values: Any = None
        problem = character_problem(line, form.encoding, f"line {number}", form.words)
        try:
            values = None if problem else _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            what = f"{error.msg}, character {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            problem = f"broken line: not valid JSON in line {number} ({what})"
        if not problem and not isinstance(values, dict):
            problem = f"broken line: not a JSON object in line {number}"
        if problem:
            yield Record(number, None, escaped(text), problem)
            continue
        objects = True
        seen.update(values)
        yield Record(number, values)
    if not rows:
        raise InputError(f"{path}: the file has no rows.")
    if objects:
        # Objects may leave fields out; a column that none of them has is a wrong name.
        check(sorted(seen), "", None)


# Parquet


def _parquet(path: Path, check: Check, named: Sequence[str] | None) -> Iterator[Record]:
    """Yield the rows of a Parquet file, batch by batch; an archive is unpacked to a temporary file first."""
    with open_bytes(path) as handle, tempfile.TemporaryFile() as unpacked:
        is_packed = packed(path) is not None
        if is_packed:
            shutil.copyfileobj(handle, unpacked, _BUFFER)
            unpacked.seek(0)
        try:
            with pq.ParquetFile(unpacked if is_packed else handle, page_checksum_verification=True) as file:
                schema = file.schema_arrow
                check(schema.names, "", schema)
                if file.metadata.num_rows == 0:
                    raise InputError(f"{path}: the file has no rows.")
                done = 0
                for batch in file.iter_batches(batch_size=_BATCH, columns=named):
                    batch.validate(full=True)
                    names = batch.schema.names
                    columns = [_python_values(path, *column) for column in zip(names, batch.columns, strict=True)]
                    for number, values in enumerate(zip(*columns, strict=True), start=done + 1):
                        yield Record(number, dict(zip(names, values, strict=True)))
                    done += batch.num_rows
        except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:   # the last of a damaged name of a column
            raise InputError(f"{path}: not a readable Parquet file ({error}). Fetch it again.") from error


def _python_values(path: Path, name: str, column: pa.Array) -> list[Any]:
    try:
        return column.to_pylist()
    except (OverflowError, ValueError) as error:
        raise InputError(f"{path}: column {name!r} has a value of type {column.type} that Python cannot hold "
                         f"({error}). Leave the column out, or write it anew as text.") from error
