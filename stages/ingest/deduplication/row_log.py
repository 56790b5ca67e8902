"""Every row that was read, on disk, until it is known which of them were not taken."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stages.ingest.deduplication.on_disk import RecordFile

# What becomes of a row that can be read: equal rows decide, and from CONNECTED on those that it belongs with.
KEPT, DUPLICATE, OTHER_SPLIT, BOTH_LABELS, CONNECTED, ALONE, GROUP_SIZE = range(7)
CATEGORIES = {DUPLICATE: "duplicate", OTHER_SPLIT: "other split", BOTH_LABELS: "both labels",
              CONNECTED: "other split", ALONE: "alone", GROUP_SIZE: "group size"}
_DETAILS = {CONNECTED: "its texts are connected with rows of a split that is evaluated",
            ALONE: "its group has no other text",
            GROUP_SIZE: "its group has more or fewer distinct texts than ingest.captions asks for"}
# Rows left out for these reasons are in order; nothing has to be corrected.
_IN_ORDER = ("duplicate", "other split", "alone", "group size")

VERDICT = np.dtype([("place", "<i8"), ("verdict", "i1"), ("file", "<i4"), ("row", "<i8")])
# Numbers of texts (and of the caption's group in `second`), label, published split, place in the input, hash of
# what a story or dialogue belongs to, number of texts besides first, second and negative.
TAKEABLE = np.dtype([("first", "<i4"), ("second", "<i4"), ("negative", "<i4"), ("label", "<i2"), ("rank", "i1"),
                     ("file", "<i4"), ("row", "<i8"), ("opening", "<u8"), ("further", "<i2")])

_BATCH = 8_192
_SCHEMA = pa.schema([("row", pa.int64()), ("reason", pa.string()), ("raw", pa.string())])


@dataclass(frozen=True)
class _Segment:
    """Rows of one file that were read one after another; ``start`` counts the takeable ones before them."""

    file: str
    path: Path
    start: int


class RowLog:
    """Rows in the order of the input, with the reason why they cannot be taken, if there is one.

    Attributes:
        files: names of the files, by number.
        total: rows read.
        takeable: rows without a reason.
        problems: number of rows by category of reason.
        in_order: categories of reasons for which nothing has to be corrected.
        examples: the first ten rows that have to be corrected: file number, row, reason.

    Args:
        folder: a new folder for the rows.
        set_aside: categories in order besides those that hold for all layouts.
    """

    def __init__(self, folder: Path, set_aside: Iterable[str] = ()) -> None:
        folder.mkdir()
        self._folder = folder
        self._segments: list[_Segment] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self.files: list[str] = []
        self._numbers: dict[str, int] = {}
        self.total = self.takeable = 0
        self.problems: Counter[str] = Counter()
        self.in_order = frozenset((*_IN_ORDER, *set_aside))
        self.examples: list[tuple[int, int, str]] = []

    def file_number(self, name: str) -> int:
        """Return the number of the file ``name``."""
        number = self._numbers.setdefault(name, len(self.files))
        if number == len(self.files):
            self.files.append(name)
        return number

    def add(self, file: str, rows: list[int], reasons: list[str | None], raw: list[str]) -> None:
        """Note rows of one file, one after another."""
        if self._writer is None or self._segments[-1].file != file:
            self._open(file)
        number = self.file_number(file)
        for row, reason in zip(rows, reasons, strict=True):
            if reason is None:
                self.takeable += 1
                continue
            category = reason.partition(":")[0]
            self.problems[category] += 1
            if len(self.examples) < 10 and category not in self.in_order:
                self.examples.append((number, row, reason))
        self.total += len(rows)
        if self._writer is not None:
            self._writer.write_batch(pa.record_batch([rows, reasons, raw], schema=_SCHEMA))

    def close(self) -> None:
        """End the writing."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def rejected(self, verdicts: RecordFile, takeable: RecordFile, later: Callable[[np.ndarray], np.ndarray],
                 labels: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield pieces of the table ``rejected``, sorted by file and row.

        Args:
            verdicts: one ``VERDICT`` per takeable row.
            takeable: one ``TAKEABLE`` per takeable row.
            later: gives the final verdicts of rows that were kept among their equals.
            labels: names of classes or kinds of responses, by number; empty where labels say whether a pair is one
                of paraphrases.
        """
        pending: list[tuple[str, int, str, str]] = []
        for segment in sorted(self._segments, key=lambda one: one.file):
            start = segment.start
            for rows, reasons, raw in _stored(segment.path):
                count = reasons.count(None)
                found = verdicts.read(start, count)
                kept = found["verdict"] == KEPT
                found["verdict"][kept] = later(takeable.read(start, count)[kept])
                decided = iter(found.tolist())
                for row, reason, text in zip(rows, reasons, raw, strict=True):
                    reason = reason or self.reason(next(decided), labels)
                    if reason:
                        pending.append((segment.file, row, reason, text))
                start += count
                if len(pending) >= _BATCH:
                    yield _columns(pending)
                    pending = []
        yield _columns(pending)

    def _open(self, file: str) -> None:
        self.close()
        path = self._folder / str(len(self._segments))
        self._segments.append(_Segment(file, path, self.takeable))
        self._writer = pa.ipc.new_stream(path, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd"))

    def reason(self, verdict: tuple[int, int, int, int], labels: Sequence[str]) -> str:
        """Return in words why a takeable row was not taken; empty if it was."""
        _, code, file, row = verdict
        if code == KEPT:
            return ""
        if code in _DETAILS:
            return f"{CATEGORIES[code]}: {_DETAILS[code]}"
        if code == BOTH_LABELS:
            both = (f"the text occurs as {labels[file]!r} and as {labels[row]!r}" if labels else
                    "the pair occurs as paraphrase and as non-paraphrase")
            return f"{CATEGORIES[code]}: {both}"
        place = f"{self.files[file]} row {row}"
        if code == DUPLICATE:
            return f"{CATEGORIES[code]}: of {place}"
        return f"{CATEGORIES[code]}: kept as {place}, of a split that is evaluated"


def _stored(path: Path) -> Iterator[tuple[list[int], list[str | None], list[str]]]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            rows, reasons, raw = (column.to_pylist() for column in batch.columns)
            yield rows, reasons, raw


def _columns(rows: list[tuple[str, int, str, str]]) -> dict[str, list[Any]]:
    values = zip(*rows, strict=True) if rows else chain([(), (), (), ()])
    return dict(zip(("file", "row", "reason", "raw"), map(list, values), strict=True))
