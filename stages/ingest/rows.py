"""A row as it was found: its values by role, its place, its published split, or why it cannot be read."""

import json
import math
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from keycontrast.reading import Words, is_unicode
from stages.ingest.layouts import SPLIT, BoundLayout
from stages.ingest.parsing import RowError

_SPLITS = {"train": "train", "validation": "validation", "valid": "validation", "val": "validation",
           "dev": "validation", "test": "test"}
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_ENDLESS = (math.inf, -math.inf)
# How messages of the readers call settings.
WORDS = Words("the data set's `encoding`", "the data set's `quoting: none`", "the data set's `separator`")


class RawRow(NamedTuple):
    """One row as it was found; a tuple, because that is made three times as fast as a frozen data class.

    Attributes:
        file: name inside the data set's folder.
        row: 1-based number; the header of a CSV or TSV file is not counted, empty lines are.
        content: values by role, as the layout has them, or the line itself where it could not be parsed.
        problem: why the row cannot be taken, ``category: detail``; empty if nothing speaks against it.
        split: the published split: ``train``, ``validation``, ``test``, or None.
        names: all columns of the row, as the file calls them.
        values: their values.
    """

    file: str
    row: int
    content: Mapping[str, Any] | str
    problem: str = ""
    split: str | None = None
    names: Collection[str] = ()
    values: Collection[Any] = ()

    @property
    def raw(self) -> str:
        """The row as JSON under its file's own column names, or the line that could not be parsed."""
        if isinstance(self.content, str):
            return self.content
        content = dict(zip(self.names, self.values, strict=True)) if self.names else self.content
        text = json.dumps(content, ensure_ascii=False, default=str)
        return text if is_unicode(text) else json.dumps(content, default=str)


class RowMaker:
    """Makes the rows of one file.

    Args:
        file: name of the file inside the data set's folder.
        layout: roles and their columns.
        split: the published split of the whole file, or None.
    """

    def __init__(self, file: str, layout: BoundLayout, split: str | None) -> None:
        self.layout = layout
        self._file, self._split = file, split
        # What names something may be a number in one file and text in another.
        self._names = tuple(role for role in layout.columns if layout.is_name(role))

    def row(self, number: int, content: dict[str, Any], names: Collection[str], values: Collection[Any]) -> RawRow:
        """Return row ``number`` with ``content`` by role, from ``values`` of the columns ``names``."""
        problem, split, convert = "", self._split, self.layout.layout.convert
        try:
            for role in self._names:
                content[role] = name_of(content.get(role), role)
            if SPLIT in self.layout.columns:
                split = content[SPLIT] = _published(content.get(SPLIT))
                if self._split not in (None, split):
                    split = self._split
                    raise RowError(f"split: the row says {content[SPLIT]}, but its file is named under "
                                     f"splits.{self._split}")
            if convert:
                content = convert(content)
        except RowError as error:
            problem = str(error)
        return RawRow(self._file, number, content, problem, split, names, values)

    def broken(self, number: int, line: str, problem: str) -> RawRow:
        """Return row ``number`` of which there is only a ``line``, and the ``problem`` with it."""
        return RawRow(self._file, number, line, problem, self._split)


def name_of(value: Any, role: str) -> str:
    """Return a label or the name of a group as text, the same from every kind of file: true for True and TRUE, 1 for
    1.0, as in columns of numbers with gaps."""
    if value is None or value != value:
        raise RowError(f"{role}: is missing")
    if not isinstance(value, (bool, int, float, Decimal, str)) or value in _ENDLESS:
        raise RowError(f"{role}: must be text, a number, or true or false, found {value!r}")
    if not (name := str(value).strip()):
        raise RowError(f"{role}: is empty")
    if name.lower() in ("true", "false"):
        return name.lower()
    return whole[1] if (whole := _WHOLE.fullmatch(name)) else name


def _published(value: Any) -> str:
    split = _SPLITS.get(value.strip().lower()) if isinstance(value, str) else None
    if split is None:
        raise RowError(f"split: must be train, validation (or dev, val, valid) or test, found {value!r}")
    return split
