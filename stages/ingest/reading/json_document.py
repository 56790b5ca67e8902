"""One large JSON document, read piece by piece: the captions of MSCOCO."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from stages.ingest.layouts.layout import check_columns
from stages.ingest.reading.rows import RawRow, RowMaker
from stages.ingest.reading.text import open_text, printable, undecodable, undecoded_problem
from stages.run.errors import InputError, nearest

_LIST = "annotations"
_CHUNK = 1 << 18
_SPACES = " \t\n\r"
_FOLLOWERS = frozenset(_SPACES + ",:]}")
_SPACE = re.compile(f"[{_SPACES}]+")


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


class BrokenDocument(ValueError):
    """The document is not valid JSON, or ends too early; the message says where."""


class Document:
    """A JSON object whose large lists are read item by item; memory holds one item and one chunk.

    After each key its value must be taken, by ``items`` or ``skip``, before the next key is asked for.

    Args:
        handle: the document, at its beginning.
    """

    def __init__(self, handle: TextIO) -> None:
        self._handle, self._decoder = handle, json.JSONDecoder()
        self._buffer, self._at, self._passed, self._ended = "", 0, 0, False

    def fields(self) -> Iterator[str]:
        """Yield the key of each field of the object; at last, make sure that nothing follows it."""
        for _ in self._members("{", "}"):
            key = self._value()
            if not isinstance(key, str):
                raise self._broken("a key must be a string")
            self._take(":")
            yield key
        if self._next():
            raise self._broken("something follows the document")

    def items(self) -> Iterator[Any]:
        """Yield the items of the list that comes next."""
        for _ in self._members("[", "]"):
            yield self._value()

    def skip(self) -> None:
        """Pass over the value that comes next."""
        if self._next() != "[":
            self._value()
            return
        for _ in self.items():
            pass

    def _members(self, opening: str, closing: str) -> Iterator[None]:
        """Stop at the beginning of each member of a list or object."""
        self._take(opening)
        if self._next() == closing:
            self._at += 1
            return
        while True:
            yield
            if self._next() == closing:
                self._at += 1
                return
            self._take(",")

    def _next(self) -> str:
        """Return the next character that is no space, without taking it; nothing at the end."""
        while True:
            here = self._buffer[self._at:self._at + 1]  # empty at the end of the chunk
            if here and here not in _SPACES:
                return here
            if here:
                self._at = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            elif not self._more(_CHUNK):
                return ""

    def _take(self, character: str) -> None:
        if self._next() != character:
            raise self._broken(f"{character!r} was expected")
        self._at += 1

    def _value(self) -> Any:
        self._next()
        size = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except (ValueError, RecursionError) as error:
                # Either broken, or cut where the chunk ends; more and more is read, to stay linear in the file.
                if not self._more(size):
                    raise self._broken(getattr(error, "msg", str(error))) from error
            else:
                # A number that the chunk cuts goes on in the next, perhaps behind its point or exponent.
                if self._buffer[end:end + 1] in _FOLLOWERS or not self._more(size):
                    self._at = end
                    return value
            size *= 2

    def _more(self, size: int) -> bool:
        """Read on; say whether there was anything. What has been taken is forgotten."""
        if self._ended:
            return False
        more = self._handle.read(size)
        if not more:
            self._ended = True
            return False
        self._passed += self._at
        self._buffer, self._at = self._buffer[self._at:] + more, 0
        return True

    def _broken(self, what: str) -> BrokenDocument:
        ends = "" if self._at < len(self._buffer) else ", where the file ends"
        return BrokenDocument(f"{what} at character {self._passed + self._at + 1}{ends}")
