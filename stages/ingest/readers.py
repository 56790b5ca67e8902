"""Rows of a data set's files, each with its place or with the reason why it cannot be read."""

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa

from keycontrast.errors import InputError, nearest
from keycontrast.reading import (
    TableForm,
    character_problem,
    escaped,
    file_format,
    is_unicode,
    once,
    open_bytes,
    open_text,
    read_table,
    text_lines,
)
from stages.ingest.layouts import DOCUMENT, BoundLayout
from stages.ingest.parsing import RowError
from stages.ingest.rows import WORDS, RawRow, RowMaker

_ANNOTATIONS = "annotations"
# A line that is longer is no row.
_FIRST_LINE = 1 << 20


def read_file(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a file; raise an ``InputError`` if it is damaged, has no rows or lacks a column."""
    layout, form = maker.layout.layout, file_format(path)
    reader = layout.reader
    if reader == "posts":
        return _read_posts(path, encoding, maker)
    if form == DOCUMENT and (DOCUMENT not in layout.forms or not _is_document(path)):
        form = ".jsonl"
    if reader == "table" and form != DOCUMENT:
        return _read_table(path, form, encoding, maker)
    return _read_captions(path, encoding, maker) if reader == "table" else _read_lines(path, encoding, maker)


def _is_document(path: Path) -> bool:
    """Say whether a file named .json is one JSON document, and no lines of one object each."""
    with open_bytes(path) as file:
        head = file.readline(_FIRST_LINE)
    try:
        return not head.endswith(b"\n") or _ANNOTATIONS in json.loads(head)
    except ValueError:
        return True


def _read_table(path: Path, form: str, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    layout = maker.layout

    def check(names: list[str], first: str, schema: pa.Schema | None) -> None:
        unnamed = first and not set(names) & set(layout.columns.values())
        _check_columns(path, names, layout, f" The first line is {first!r}: if that is a row of data, put a line with "
                                            f"the columns' names above." if unnamed else "")

    columns = tuple(layout.columns.items())
    for record in read_table(path, TableForm(form, encoding, layout.quoting, layout.separator, WORDS), check):
        if (values := record.values) is None:
            yield maker.broken(record.number, record.line, record.problem)
        else:
            yield maker.row(record.number, {role: values.get(column) for role, column in columns}, values)


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


def _read_captions(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the annotations of ``captions_*.json`` in the order of the file, which is not that of the images."""
    with open_text(path, encoding, WORDS) as handle:
        try:
            document = json.load(handle, object_pairs_hook=once)
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
            problem = character_problem(text, encoding, f"entry {number} of {_ANNOTATIONS!r}", WORDS)
        if problem:
            yield maker.broken(number, escaped(json.dumps(entry, ensure_ascii=False)), problem)
        else:
            yield maker.row(number, content, entry)


def _read_lines(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a text file as the layout parses its lines; empty lines are passed over.

    To a line of an index (Yao et al. 2019) the same line of the file of its name in the folder ``corpus`` is joined.
    """
    layout, rows = maker.layout.layout, 0
    assert layout.parse is not None, "the layout reads no lines"
    lines = text_lines(path, encoding, WORDS) if layout.reader == "lines" else _indexed_lines(path, encoding)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        rows += 1
        text = line.rstrip("\r\n")
        if problem := character_problem(line, encoding, f"line {number}", WORDS):
            yield maker.broken(number, escaped(text), problem)
            continue
        try:
            values = layout.parse(text, path)
        except RowError as error:
            yield maker.broken(number, text, f"{error}, in line {number}")
            continue
        content = {role: values[column] for role, column in maker.layout.columns.items() if column in values}
        yield maker.row(number, content, values)
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def _indexed_lines(path: Path, encoding: str) -> Iterator[str]:
    corpus = path.parent / "corpus" / path.name
    if not corpus.is_file():
        raise InputError(f"{path}: its texts are missing; layout text_gcn keeps them in {corpus}, one per line of the "
                         f"index. Put them there.")
    both = zip_longest(text_lines(path, encoding, WORDS), text_lines(corpus, encoding, WORDS))
    for number, (entry, text) in enumerate(both, 1):
        if not (entry or "").strip() and not (text or "").strip():
            yield ""
        elif entry is None or text is None or not entry.strip():
            shorter, longer = (path, corpus) if text else (corpus, path)
            raise InputError(f"{shorter}: has nothing in line {number}, but {longer} has. Each line of the index "
                             f"belongs to the same line of the corpus: fetch both again.")
        else:
            yield f"{entry.rstrip()}\t{text}"


def _read_posts(folder: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the posts of one newsgroup by rising number, which is the row; one not of ``encoding`` is Latin-1."""
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
        yield maker.row(int(path.name), {role: values[column] for role, column in maker.layout.columns.items()}, values)
