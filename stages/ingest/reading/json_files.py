"""Files with one JSON object per line, and the captions of MSCOCO, which are one JSON document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.ingest.layouts.layout import check_columns
from stages.ingest.reading.rows import RawRow, RowMaker
from stages.ingest.reading.text import (
    character_problem,
    is_sound,
    open_text,
    printable,
    text_lines,
    undecodable,
    undecoded_problem,
)
from stages.run.errors import InputError, nearest

_ANNOTATIONS = "annotations"


class _NotRead(ValueError):
    """A line is no JSON object; the message is the row's problem."""


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's fields; JSON by itself would keep the last of two with one name."""
    found = dict(fields)
    if len(found) != len(fields):
        names = [name for name, _ in fields]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def read_jsonl(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the objects of a file with one JSON object per line; empty lines are passed over.

    Raises:
        InputError: the file is one JSON document, has no rows, or no object has a column that is needed.
    """
    seen: set[str] = set()
    rows, objects = 0, False
    columns = tuple(maker.layout.columns.items())
    for number, line in enumerate(text_lines(path, encoding), start=1):
        text = line.strip()
        if not text:
            continue
        if not rows:
            _refuse_document(path, text)
        rows += 1
        try:
            if not is_sound(line):
                raise _NotRead(character_problem(line, encoding, number))
            found = _object(text, number)
        except _NotRead as error:
            yield maker.broken(number, printable(text), str(error))
            continue
        objects = True
        if not seen.issuperset(found):
            seen.update(found)
        yield maker.row(number, {role: found.get(column) for role, column in columns}, found, found.values())
    if not rows:
        raise InputError(f"{path}: the file has no rows.")
    if objects:
        # Objects may leave fields out; a column that none of them has is a wrong name.
        check_columns(path, sorted(seen), maker.layout)


def _refuse_document(path: Path, first: str) -> None:
    if first.startswith("["):
        raise InputError(f"{path}: this is one JSON array. Write one object per line, without commas between them.")
    if first == "{":
        raise InputError(f"{path}: this is one JSON document over several lines. Write one object per line.")


def _object(text: str, line: int) -> dict[str, Any]:
    try:
        found, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise _NotRead(_problem(text, line, error)) from error
    if end != len(text):
        raise _NotRead(_problem(text, line, json.JSONDecodeError("Extra data", text, end)))
    if not isinstance(found, dict):
        raise _NotRead(f"broken line: not a JSON object in line {line}")
    return found


def _problem(text: str, line: int, error: Exception) -> str:
    if "\r" in text:
        return f"line ending: a carriage return (\\r) without a line feed in line {line}; write \\n"
    if text.endswith(","):
        return f"broken line: line {line} ends with a comma; write one object per line, without commas between them"
    what = f"{error.msg}, character {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
    return f"broken line: not valid JSON in line {line} ({what})"


def read_captions(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the annotations of ``captions_*.json`` in the order of the file, which is not that of the images.

    Raises:
        InputError: the file is no such document, ends too early, or its annotations are no captions.
    """
    with open_text(path, encoding) as handle:
        try:
            document = json.load(handle, object_pairs_hook=_once)
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
                problem = undecoded_problem(content["text"], encoding, f"in entry {number} of {_ANNOTATIONS!r}")
        if problem:
            yield maker.broken(number, printable(json.dumps(one, ensure_ascii=False)), problem)
        else:
            yield maker.row(number, content, one, one.values())
