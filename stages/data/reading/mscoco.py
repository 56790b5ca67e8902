"""The captions of MSCOCO: one JSON document, read piece by piece."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.data.layouts.layout import check_columns
from stages.data.reading.json_document import BrokenDocument, Document
from stages.data.reading.rows import RawRow, RowMaker
from stages.data.reading.text import open_text, printable, undecodable, undecoded_problem
from stages.runtime.errors import InputError, nearest

_LIST = "annotations"


def read_captions(path: Path, encoding: str, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the annotations of ``captions_*.json`` in the order of the file, which is not that of the images.

    Memory does not grow with the file; ``images`` and ``licenses`` are passed over.

    Raises:
        InputError: the file is no such document, ends too early, or its annotations are no captions.
    """
    columns = tuple(maker.layout.columns.items())
    number = 0
    for number, found in enumerate(_annotations(path, encoding), start=1):
        if not isinstance(found, dict):
            yield maker.broken(number, printable(json.dumps(found, ensure_ascii=False)),
                               "broken entry: not a JSON object")
            continue
        if number == 1:
            check_columns(path, list(found), maker.layout)
        content = {role: found.get(column) for role, column in columns}
        text = content["text"]
        if isinstance(text, str) and undecodable(text):
            yield maker.broken(number, printable(json.dumps(found, ensure_ascii=False)),
                               undecoded_problem(text, encoding, f"in entry {number} of {_LIST!r}"))
        else:
            yield maker.row(number, content, found, found.values())
    if not number:
        raise InputError(f"{path}: the file has no rows: its list {_LIST!r} is empty.")


def _annotations(path: Path, encoding: str) -> Iterator[Any]:
    seen = []
    with open_text(path, encoding) as handle:
        document = Document(handle)
        try:
            for key in document.fields():
                seen.append(key)
                if key == _LIST:
                    yield from document.items()
                else:
                    document.skip()
        except BrokenDocument as error:
            raise InputError(f"{path}: not a JSON object as MSCOCO writes it: {error}. Fetch it again.") from error
    if _LIST not in seen:
        raise InputError(f"{path}: the document has no list {_LIST!r}, as the captions_*.json of MSCOCO have; "
                         f"{nearest(_LIST, seen)}")
