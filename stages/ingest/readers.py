"""Rows of files, each with its place or with the reason why it cannot be read; packed files are unpacked on the way."""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from stages.ingest.layouts import DOCUMENT, BoundLayout
from stages.ingest.parsing import RowError
from stages.ingest.rows import RawRow, RowMaker, is_unicode
from stages.run.errors import InputError, nearest

_MAGIC = {".gz": rb"\x1f\x8b\x08", ".bz2": rb"BZh[1-9]1AY&SY", ".xz": rb"\xfd7zXZ\0", ".zst": rb"\x28\xb5\x2f\xfd"}
COMPRESSIONS = tuple(_MAGIC)
# The longer marks first: that of UTF-32 begins like that of UTF-16.
_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ENCODING_REMEDY = ("If the file has another encoding, name it as the data set's `encoding` (latin-1, cp1252, utf-16, "
                    "gb18030, ...).")
_UNDECODED = re.compile("[\udc80-\udcff]")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SEPARATORS = {",": ("commas", "name it .csv"), "\t": ("tabs", "name it .tsv"),
               ";": ("semicolons", "set the data set's `separator` to ';'"),
               "|": ("bars", "set the data set's `separator` to '|'")}
# Characters of a field; more are a sign of a quotation mark that is not closed.
_LONGEST = 1 << 24
_BATCH, _SHOWN = 16_384, 80
_ANNOTATIONS = "annotations"


def file_format(path: Path) -> str:
    """Return the ending that says how a file is laid out, without that of its compression."""
    return Path(path.stem if path.suffix.lower() in COMPRESSIONS else path.name).suffix.lower()


def read_file(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a file as the layout of ``maker`` has them.

    Raises:
        InputError: the file is damaged, has no rows, lacks a column, or cannot be read as a whole.
    """
    reader, form = maker.layout.layout.reader, file_format(path)
    if reader == "posts":
        return _read_posts(path, encoding, maker)
    if reader == "table" and form != DOCUMENT:
        return read_table(path, form, encoding, maker)
    return _read_captions(path, encoding, maker) if reader == "table" else _read_lines(path, encoding, maker)


def read_table(path: Path, form: str, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a table of format ``form``: .csv, .tsv, .jsonl or .parquet; raises as ``read_file``."""
    if form == ".parquet":
        return _read_parquet(path, maker)
    return _read_jsonl(path, encoding, maker) if form == ".jsonl" else _read_delimited(path, form, encoding, maker)


# Bytes and characters


def _packing(path: Path) -> str:
    """Return how ``path`` is packed, by its first bytes or else by its ending; empty if it is not."""
    with path.open("rb") as file:
        head = file.read(10)
    by_name = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    return next((form for form, magic in _MAGIC.items() if re.match(magic, head)), by_name)


@contextmanager
def _open_bytes(path: Path) -> Iterator[Any]:
    """Open ``path``, unpacked, as a buffered stream of bytes.

    Raises:
        InputError: (also within the context) an archive is damaged, or the file cannot be read.
    """
    packed = _packing(path)
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zstd}
    try:
        with openers.get(packed, open)(path, "rb") as stream:
            yield stream
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        what = f"the archive is damaged, ends too early, or is no {packed} file" if packed else "it cannot be read"
        raise InputError(f"{path}: {what} ({error}). Fetch it again.") from error


def _open_zstd(path: Path, mode: str) -> io.BufferedReader:
    stream: Any = pa.input_stream(str(path), compression="zstd")
    return io.BufferedReader(stream)


@contextmanager
def _open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    r"""Open ``path`` as text; lines end with \n alone, and a mark at the beginning is left out.

    Bytes that are not of the encoding become lone surrogates, so that one bad row does not hide the others.

    Raises:
        InputError: an archive is damaged; the file begins with the mark of another encoding, or has none where one is
            needed; or has bytes that cannot even be passed over, as in broken UTF-16.
    """
    with _open_bytes(path) as stream:
        name = codec = codecs.lookup(encoding).name
        head = stream.peek(4)
        family = next((family for mark, family in _MARKS if head.startswith(mark)), "")
        if family and not name.startswith(family):
            raise InputError(f"{path}: the file begins with the mark of {family.upper()}, but the data set's "
                             f"`encoding` is {encoding}. Set it to {family}, or save the file anew.")
        if family:
            codec = "utf-8-sig" if family == "utf-8" else family
        elif name in ("utf-16", "utf-32"):
            raise InputError(f"{path}: the file does not begin with the mark that tells the order of bytes in {name}. "
                             f"Set the data set's `encoding` to {name}-le or {name}-be.")
        try:
            yield io.TextIOWrapper(stream, codec, "surrogateescape", newline="\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not valid {encoding} ({error.reason}). {_ENCODING_REMEDY}") from error


def text_lines(path: Path, encoding: str) -> Iterator[str]:
    r"""Yield the lines of ``path``, each with its \n.

    Raises:
        InputError: the file is damaged, or not of the encoding as a whole.
    """
    with _open_text(path, encoding) as handle:
        yield from handle


def character_problem(text: str, encoding: str, place: str) -> str:
    """Return what is wrong with the characters of ``text``, ``category: detail``, or nothing.

    Args:
        text: as it was read.
        encoding: by which it was.
        place: where it stands, such as ``line 3``.
    """
    if text.startswith("\ufeff"):
        return (f"byte order mark: {place} begins with one, as where files were put one behind the other. Remove "
                f"it, and any header that follows it.")
    if "\0" in text:
        return (f"NUL byte: {place} holds one, and text holds none; if the file is UTF-16, name it as the data set's "
                f"`encoding`.")
    if is_unicode(text):
        return ""
    byte = _UNDECODED.search(text)
    what = f"byte 0x{ord(byte[0]) - 0xdc00:02x}" if byte else "half a surrogate pair"
    return f"encoding: not valid {encoding.upper()}: {what} in {place}. {_ENCODING_REMEDY}"


def _printable(text: str) -> str:
    """Return ``text`` with undecodable bytes, and whatever else cannot be written as UTF-8, spelt out."""
    spelt = _UNDECODED.sub(lambda found: f"\\x{ord(found[0]) - 0xdc00:02x}", text)
    return spelt.encode("utf-8", "backslashreplace").decode("utf-8")


# CSV and TSV


def _read_delimited(path: Path, form: str, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    r"""Yield the rows of a ``.csv`` or ``.tsv`` file, which must begin with a header.

    Lines may end with \n or \r\n, also mixed. With ``quoting: none`` every line is a row and quotation marks
    are ordinary characters; otherwise fields that hold delimiters, marks or line ends must be in quotation
    marks, and marks inside them doubled.
    """
    layout = maker.layout
    delimiter = layout.separator or _DELIMITERS[form]
    records = _records(path, text_lines(path, encoding), delimiter, layout.quoting)
    header = _header(path, next(records, None), delimiter, layout)
    places = [(role, header.index(column)) for role, column in layout.columns.items()]
    number = 0
    for number, line, text, fields, problem in records:
        if not problem and len(fields) != len(header):
            problem = f"broken line: {len(fields)} fields instead of {len(header)} in line {line}"
            if len(fields) > len(header):
                marks = _SEPARATORS[delimiter][0]
                problem += (f"; without quoting no field can hold {marks}" if layout.quoting == "none" else
                            f"; fields that hold {marks} must be in quotation marks")
        problem = problem or character_problem(text, encoding, f"line {line}")
        if problem:
            yield maker.broken(number, _printable(text.rstrip("\r\n")), problem)
        else:
            yield maker.row(number, {role: fields[place] for role, place in places}, header, fields)
    if number == 0:
        raise InputError(f"{path}: the file has a header but no rows.")


# A record that is not an empty line: its number (0 for the header), the number of its first line, what stands
# there, its fields, and what is wrong with it.
_Record = tuple[int, int, str, list[str], str]


def _records(path: Path, source: Iterator[str], delimiter: str, quoting: str) -> Iterator[_Record]:
    """Yield the records of a CSV file.

    A broken record over several lines is an error of the file: an unclosed quotation mark may have
    swallowed any number of good rows.
    """
    csv.field_size_limit(_LONGEST)
    lines: list[str] = []

    def remembered() -> Iterator[str]:
        for line in source:
            lines.append(line)
            yield line

    reader = csv.reader(remembered(), delimiter=delimiter, strict=True,
                        quoting=csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL)
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
            raise InputError(f"{path}: lines {first} to {first + len(lines) - 1}: a quotation mark is not closed "
                             f"as it should be. Double the quotation marks inside fields; or, if they are "
                             f"ordinary characters in this file, set the data set's `quoting` to none.")
        if fields or problem:
            yield number, first, "".join(lines), fields, problem
        first += len(lines)


def _header(path: Path, record: _Record | None, delimiter: str, layout: BoundLayout) -> list[str]:
    """Return the names of the columns, once they are known to hold what is needed."""
    if record is None:
        raise InputError(f"{path}: the file is empty. Remove it from `files`, or fetch it again.")
    _, _, text, fields, problem = record
    if "\0" in text:
        raise InputError(f"{path}: the header holds NUL bytes. If the file is UTF-16 without a mark, set the data "
                         f"set's `encoding` to utf-16-le or utf-16-be.")
    if problem:
        raise InputError(f"{path}: the header cannot be read ({problem}).")
    for other, (what, remedy) in _SEPARATORS.items():
        if len(fields) == 1 and other != delimiter and other in text:
            raise InputError(f"{path}: only one column was found, and its name holds {what}. If {what} separate "
                             f"the columns of this file, {remedy}.")
    if not set(fields) & set(layout.columns.values()):
        shown = _printable(text.rstrip("\r\n"))
        hint = (f" The first line is {shown[:_SHOWN] + '...' * (len(shown) > _SHOWN)!r}: if that is a row of data, put "
                f"a line with the columns' names above.")
    else:
        hint = ""
    _check_columns(path, fields, layout, hint)
    return fields


def _check_columns(path: Path, names: Sequence[str], layout: BoundLayout, hint: str = "") -> None:
    """Make sure that ``names``, the columns of the file, hold the column of every role, once."""
    for role, column in layout.columns.items():
        if column not in names:
            declared = layout.layout.columns.get(role)
            missing = f" {declared.missing}" if declared and declared.missing else ""
            raise InputError(f"{path}: no column {column!r} ({layout.named_by(role)}); {nearest(column, names)}"
                             f"{hint or missing}")
        if names.count(column) > 1:
            raise InputError(f"{path}: column {column!r} occurs {names.count(column)} times in the header. Give each "
                             f"column a name of its own.")


# JSON


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's fields; JSON by itself would keep the last of two with one name."""
    found = dict(fields)
    if len(found) != len(fields):
        names = [name for name, _ in fields]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _read_jsonl(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the objects of a file with one JSON object per line; empty lines are passed over."""
    seen: set[str] = set()
    rows, objects = 0, False
    columns = tuple(maker.layout.columns.items())
    for number, line in enumerate(text_lines(path, encoding), start=1):
        text = line.strip()
        if not text:
            continue
        if not rows and (text == "{" or text.startswith("[")):
            raise InputError(f"{path}: this is one JSON document. Write one object per line, without commas between "
                             f"them.")
        rows += 1
        found: Any = None
        problem = character_problem(line, encoding, f"line {number}")
        try:
            found = None if problem else _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            what = f"{error.msg}, character {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            problem = f"broken line: not valid JSON in line {number} ({what})"
        if not problem and not isinstance(found, dict):
            problem = f"broken line: not a JSON object in line {number}"
        if problem:
            yield maker.broken(number, _printable(text), problem)
            continue
        objects = True
        seen.update(found)
        yield maker.row(number, {role: found.get(column) for role, column in columns}, found, found.values())
    if not rows:
        raise InputError(f"{path}: the file has no rows.")
    if objects:
        # Objects may leave fields out; a column that none of them has is a wrong name.
        _check_columns(path, sorted(seen), maker.layout)


def _read_captions(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the annotations of ``captions_*.json`` in the order of the file, which is not that of the images."""
    with _open_text(path, encoding) as handle:
        try:
            document = json.load(handle, object_pairs_hook=_once)
        except UnicodeDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a JSON object as MSCOCO writes it: {error}. Fetch it again.") from error
    if not isinstance(document, dict) or not isinstance(document.get(_ANNOTATIONS), list):
        hint = nearest(_ANNOTATIONS, document) if isinstance(document, dict) else "it is no object."
        raise InputError(f"{path}: the document has no list {_ANNOTATIONS!r}, as the captions_*.json of MSCOCO have; "
                         f"{hint}")
    found = document[_ANNOTATIONS]
    if not found:
        raise InputError(f"{path}: the file has no rows: its list {_ANNOTATIONS!r} is empty.")
    if isinstance(found[0], dict):
        _check_columns(path, list(found[0]), maker.layout)
    columns = tuple(maker.layout.columns.items())
    for number, entry in enumerate(found, start=1):
        content = {role: entry.get(column) for role, column in columns} if isinstance(entry, dict) else {}
        problem = "" if content else "broken entry: not a JSON object"
        if not is_unicode(text := str(content.get("text"))):
            problem = character_problem(text, encoding, f"entry {number} of {_ANNOTATIONS!r}")
        if problem:
            yield maker.broken(number, _printable(json.dumps(entry, ensure_ascii=False)), problem)
        else:
            yield maker.row(number, content, entry, entry.values())


# Lines and posts


def _read_lines(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a text file as the layout parses its lines; empty lines are passed over.

    To a line of an index (Yao et al. 2019) the same line of the file of its name in the folder ``corpus`` is joined.
    """
    layout, rows = maker.layout.layout, 0
    assert layout.parse is not None, "the layout reads no lines"
    lines = text_lines(path, encoding) if layout.reader == "lines" else _indexed_lines(path, encoding)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        rows += 1
        text = line.rstrip("\r\n")
        if problem := character_problem(line, encoding, f"line {number}"):
            yield maker.broken(number, _printable(text), problem)
            continue
        try:
            values = layout.parse(text, path)
        except RowError as error:
            yield maker.broken(number, text, f"{error}, in line {number}")
            continue
        content = {role: values[column] for role, column in maker.layout.columns.items() if column in values}
        yield maker.row(number, content, tuple(values), tuple(values.values()))
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def _indexed_lines(path: Path, encoding: str) -> Iterator[str]:
    corpus = path.parent / "corpus" / path.name
    if not corpus.is_file():
        raise InputError(f"{path}: its texts are missing; layout text_gcn keeps them in {corpus}, one per line of the "
                         f"index. Put them there.")
    for number, (entry, text) in enumerate(zip_longest(text_lines(path, encoding), text_lines(corpus, encoding)), 1):
        if not (entry or "").strip() and not (text or "").strip():
            yield ""
        elif entry is None or text is None or not entry.strip():
            shorter, longer = (path, corpus) if text else (corpus, path)
            raise InputError(f"{shorter}: has nothing in line {number}, but {longer} has. Each line of the index "
                             f"belongs to the same line of the corpus: fetch both again.")
        else:
            yield f"{entry.rstrip()}\t{text}"


def _read_posts(folder: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the posts of one newsgroup by rising number, which is the row; headers and signatures included.

    Posts do not say what they are written in. One that is not of ``encoding`` is read as Latin-1, to which every
    byte belongs.
    """
    posts = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if not posts:
        raise InputError(f"{folder}: holds no posts. Fetch the folder again, or take it out.")
    for path in posts:
        if not path.is_file() or not (path.name.isascii() and path.name.isdigit()):
            raise InputError(f"{path}: is no post; those of layout newsgroups are files named by their number, one "
                             f"folder per group. Take it out of the folder.")
    for path in sorted(posts, key=lambda path: int(path.name)):
        content = path.read_bytes()
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        values = {"group": folder.name, "post": path.name, "text": text}
        yield maker.row(int(path.name), {role: values[column] for role, column in maker.layout.columns.items()},
                        tuple(values), tuple(values.values()))


# Parquet


def _read_parquet(path: Path, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a Parquet file, batch by batch; one inside an archive is unpacked in memory first."""
    with _open_bytes(path) as stream:
        handle = io.BytesIO(stream.read()) if _packing(path) else stream
        try:
            with pq.ParquetFile(handle) as file:
                names = file.schema_arrow.names
                _check_columns(path, names, maker.layout)
                if file.metadata.num_rows == 0:
                    raise InputError(f"{path}: the file has no rows.")
                places = [(role, names.index(column)) for role, column in maker.layout.columns.items()]
                number = 0
                for batch in file.iter_batches(batch_size=_BATCH):
                    batch.validate(full=True)
                    for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        number += 1
                        yield maker.row(number, {role: values[place] for role, place in places}, names, values)
        except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:   # the last of a damaged name of a column
            raise InputError(f"{path}: not a readable Parquet file ({error}). Fetch it again.") from error
