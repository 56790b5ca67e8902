"""Files in forms of their own: lines that the layout parses, and captions of MSCOCO, one JSON document."""

import json
from collections.abc import Iterator
from pathlib import Path

from keycontrast.errors import InputError, nearest
from keycontrast.reading import (
    character_problem,
    escaped,
    is_sound,
    once,
    open_text,
    text_lines,
    undecodable,
    undecoded_problem,
)
from stages.ingest.layouts.layout import check_columns
from stages.ingest.reading.rows import WORDS, RawRow, RowMaker

_ANNOTATIONS = "annotations"


def read_lines(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a text file; empty lines are passed over.

    Raises:
        InputError: the file has no rows, or is not text of the encoding.
    """
    rows = 0
    for number, line in enumerate(text_lines(path, encoding, WORDS), start=1):
        if line.strip():
            rows += 1
            yield line_row(number, line, path, encoding, maker)
    if not rows:
        raise InputError(f"{path}: the file has no rows.")


def line_row(number: int, line: str, path: Path, encoding: str, maker: RowMaker) -> RawRow:
    """Return the row in ``line``, the ``number``-th of the file ``path``."""
    text = line.rstrip("\r\n")
    if not is_sound(line):
        return maker.broken(number, escaped(text), character_problem(line, encoding, number, words=WORDS))
    parse = maker.layout.layout.parse
    assert parse is not None, "the layout reads no lines"
    try:
        values = parse(text, path)
    except ValueError as error:
        return maker.broken(number, text, f"{error}, in line {number}")
    content = {role: values[column] for role, column in maker.layout.columns.items() if column in values}
    return maker.row(number, content, tuple(values), tuple(values.values()))


def read_captions(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the annotations of ``captions_*.json`` in the order of the file, which is not that of the images.

    Raises:
        InputError: the file is no such document, ends too early, or its annotations are no captions.
    """
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
        check_columns(path, list(found[0]), maker.layout)
    columns = tuple(maker.layout.columns.items())
    for number, one in enumerate(found, start=1):
        problem = ""
        if not isinstance(one, dict):
            problem = "broken entry: not a JSON object"
        else:
            content = {role: one.get(column) for role, column in columns}
            if isinstance(content["text"], str) and undecodable(content["text"]):
                problem = undecoded_problem(content["text"], encoding, f"in entry {number} of {_ANNOTATIONS!r}",
                                            WORDS)
        if problem:
            yield maker.broken(number, escaped(json.dumps(one, ensure_ascii=False)), problem)
        else:
            yield maker.row(number, content, one, one.values())
