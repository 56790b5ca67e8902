"""Raw rows checked, texts interned, repeated and contradictory pairs set aside."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stages.ingestion.readers import RawRow, is_unicode, needed_columns
from stages.ingestion.textkeys import text_key
from stages.params.data import Dataset
from stages.runtime.errors import InputError

DUPLICATE = "duplicate"
_LABELS = {0: False, 1: True, "0": False, "1": True}


class RowError(ValueError):
    """A row cannot be taken; the message is its reason, ``category: detail``."""


@dataclass(frozen=True)
class Rejected:
    """A row that was not taken, and why."""

    row: RawRow
    reason: str

    @property
    def category(self) -> str:
        """The reason without its details."""
        return self.reason.partition(":")[0]

    @property
    def raw(self) -> str:
        """The row as JSON, or the line that could not be parsed."""
        content = self.row.content
        if isinstance(content, str):
            return content
        text = json.dumps(content, ensure_ascii=False, default=str)
        return text if is_unicode(text) else json.dumps(content, default=str)


@dataclass
class Texts:
    """Distinct texts in order of first appearance; a text's number is its place."""

    keys: list[str] = field(default_factory=list)
    surfaces: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def intern(self, key: str, surface: str) -> int:
        """Return the number of the text with ``key``; the first surface form is kept."""
        number = self.numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
            self.surfaces.append(surface)
        return number


@dataclass(frozen=True)
class Taken:
    """The usable rows, without repetitions, as arrays of text numbers in the order of the input.

    Attributes:
        texts: all texts of the rows.
        source: (n_rows,) text number of the first text.
        target: (n_rows,) text number of the second text.
        negative: (n_rows,) text number of the negative; -1 in layout ``pairs``.
        paraphrase: (n_rows,) whether source and target say the same.
        rejected: the rows that were not taken.
        rows: number of rows read.
    """

    texts: Texts
    source: np.ndarray
    target: np.ndarray
    negative: np.ndarray
    paraphrase: np.ndarray
    rejected: list[Rejected]
    rows: int

    def rejections(self) -> dict[str, int]:
        """Return how many rows were not taken, by category of reason."""
        return dict(sorted(Counter(item.category for item in self.rejected).items()))

    def unusable(self) -> list[Rejected]:
        """Return the rows that were not taken for another reason than repetition."""
        return [item for item in self.rejected if item.category != DUPLICATE]


def take_rows(rows: Iterable[RawRow], dataset: Dataset) -> Taken:
    """Check ``rows`` and keep each pair (in either order) or triple once.

    A pair that carries both labels is dropped with all its rows.
    """
    texts, count = Texts(), 0
    groups: dict[Hashable, list[tuple[RawRow, tuple[int, int, int, bool]]]] = {}
    rejected: list[Rejected] = []
    columns = needed_columns(dataset)
    for row in rows:
        count += 1
        try:
            item = _checked(row, columns, texts)
        except RowError as error:
            rejected.append(Rejected(row, str(error)))
            continue
        source, target, negative, _ = item
        # The direction of a given triple matters: it says which text is to be generated.
        identity = (source, target, negative) if negative >= 0 else (min(source, target), max(source, target))
        groups.setdefault(identity, []).append((row, item))
    kept = []
    for group in groups.values():
        kept += _one_of(group, rejected)
    table = np.array(kept, dtype=np.int64).reshape(-1, 4)
    return Taken(texts, table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(bool), rejected, count)


def check_share(taken: Taken, max_rejected: float) -> None:
    """Fail if more than the share ``max_rejected`` of the rows is unusable.

    Raises:
        InputError: names the first ten rows with file, row and reason.
    """
    unusable = taken.unusable()
    if len(unusable) <= max_rejected * taken.rows:
        return
    lines = [f"  {item.row.file} row {item.row.row}: {item.reason}" for item in unusable[:10]]
    more = [f"  ... and {len(unusable) - 10} more"] if len(unusable) > 10 else []
    raise InputError("\n".join([
        f"{len(unusable)} of {taken.rows} rows cannot be used, more than ingest.max_rejected ({max_rejected:g}):",
        *lines, *more, "Correct these rows, or raise ingest.max_rejected to leave them out."]))


def _one_of(group: list[tuple[RawRow, tuple[int, int, int, bool]]],
            rejected: list[Rejected]) -> list[tuple[int, int, int, bool]]:
    """Return the first of equal rows, or none if their labels contradict; the others join ``rejected``."""
    first = group[0][0]
    if len({item[3] for _, item in group}) > 1:
        rejected += [Rejected(row, "both labels: the pair occurs as paraphrase and as non-paraphrase")
                     for row, _ in group]
        return []
    rejected += [Rejected(row, f"{DUPLICATE}: of {first.file} row {first.row}") for row, _ in group[1:]]
    return [group[0][1]]


def _checked(row: RawRow, columns: Mapping[str, str], texts: Texts) -> tuple[int, int, int, bool]:
    if row.problem or isinstance(row.content, str):
        raise RowError(row.problem or "broken line: not parsed")
    roles = [role for role in ("source", "target", "negative") if role in columns]
    surfaces = {role: _text(row.content.get(columns[role]), role) for role in roles}
    keys = {role: text_key(surface) for role, surface in surfaces.items()}
    for place, role in enumerate(roles):
        if not keys[role]:
            raise RowError(f"empty text: {role} has no letter or digit")
        for earlier in roles[:place]:
            if keys[role] == keys[earlier]:
                raise RowError(f"same text: {earlier} and {role} have the same letters and digits")
    paraphrase = _label(row.content.get(columns["label"])) if "label" in columns else True
    numbers = {role: texts.intern(keys[role], surfaces[role]) for role in roles}
    return numbers["source"], numbers["target"], numbers.get("negative", -1), paraphrase


def _text(value: Any, role: str) -> str:
    if value is None:
        raise RowError(f"empty text: {role} is missing")
    if not isinstance(value, str):
        raise RowError(f"not text: {role} is of type {type(value).__name__}")
    text = value.strip()
    if not text:
        raise RowError(f"empty text: {role}")
    if not is_unicode(text):
        raise RowError(f"encoding: {role} holds half a surrogate pair")
    return text


def _label(value: Any) -> bool:
    plain = value.strip() if isinstance(value, str) else value
    # True and 1.0 are 1 in Python; NaN, dictionaries and the like are not.
    if not isinstance(plain, (bool, int, float, str)) or plain not in _LABELS:
        raise RowError(f"label: must be 0 or 1, found {value!r}")
    return _LABELS[plain]  # type: ignore[index]
