"""Raw rows checked, texts numbered, repeated and contradictory rows set aside; all of it on disk (METHODS A.1)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stages.common.layouts import structure_of
from stages.common.schemas import SPLITS
from stages.ingest.deduplication.checks import TEXT_ROLES, RowCheck, RowError
from stages.ingest.deduplication.numbering import Numbering, new_numbers
from stages.ingest.deduplication.on_disk import SPAN, Buckets, RecordFile, TextFile, in_order
from stages.ingest.deduplication.row_log import (
    BOTH_LABELS,
    CATEGORIES,
    DUPLICATE,
    KEPT,
    OTHER_SPLIT,
    TAKEABLE,
    VERDICT,
    RowLog,
)
from stages.ingest.items.items import TextLists, text_lists
from stages.ingest.layouts.registry import reasons_in_order
from stages.ingest.reading.rows import RawRow
from stages.run.errors import InputError
from stages.run.progress import progress

if TYPE_CHECKING:
    from stages.ingest.params import Dataset

_BATCH = 4096
_CLASSES = 10_000
# Structures whose outputs continue their inputs; each row says itself what it belongs to: a story, a context.
CONTINUATIONS = ("stories", "dialogue")
_NO_CONTINUATIONS = (np.empty(0, dtype=np.uint64), text_lists(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)))
_PLACED = np.dtype([*TAKEABLE.descr, ("place", "<i8")])  # type: ignore[misc]


@dataclass(frozen=True)
class Taken:
    """The rows that were kept among their equals, as arrays in the order of the input, paraphrases first.

    Attributes:
        structure: ``pairs``, ``triples``, ``captions``, ``labelled``, ``stories`` or ``dialogue``.
        texts: all texts of the rows that can be taken, numbered by first appearance.
        pairs: (n_rows, 2) text number of source, caption or labelled text; then text number of the target, or
            number of the caption's group, else -1.
        opening: (n_rows,) hash of a story's first sentence or a dialogue's context; (0,) in other structures.
        further: texts of each story or dialogue besides those of ``pairs``; no lists in other structures.
        negative: (n_rows,) text number of a given triple's negative; (0,) in other structures.
        label: (n_rows,) 1 for paraphrases, stories and right responses, 0 for the contrary; number of the class.
        rank: (n_rows,) published split as index into ``SPLITS``; 0 also where none is published.
        labels: names of the classes, or of the two kinds of responses, by number; empty if ``label`` is about
            paraphrases.
        log: all rows that were read.
        takeable: one ``TAKEABLE`` per row that could be read.
        verdicts: one ``VERDICT`` likewise.
        outcomes: number of takeable rows by verdict.
    """

    structure: str
    texts: TextFile
    pairs: np.ndarray
    negative: np.ndarray
    label: np.ndarray
    rank: np.ndarray
    labels: list[str]
    log: RowLog
    takeable: RecordFile
    verdicts: RecordFile
    outcomes: Counter[int]
    opening: np.ndarray
    further: TextLists

    @property
    def first(self) -> np.ndarray:
        """The first column of ``pairs``."""
        return self.pairs[:, 0]

    @property
    def second(self) -> np.ndarray:
        """The second column of ``pairs``."""
        return self.pairs[:, 1]

    @property
    def n_texts(self) -> int:
        """Number of distinct texts."""
        return len(self.texts)

    @property
    def published(self) -> list[int]:
        """The splits that are evaluated and whose rows are published, as indices into ``SPLITS``."""
        return [which for which in range(1, len(SPLITS)) if (self.rank == which).any()]

    def rejections(self) -> dict[str, int]:
        """Return how many rows were not taken, by category of reason."""
        found = Counter(self.log.problems)
        for code, count in self.outcomes.items():
            if code != KEPT and count:
                found[CATEGORIES[code]] += count
        return dict(sorted(found.items()))

    def unusable(self) -> int:
        """Return how many rows have to be corrected to be taken."""
        return sum(count for category, count in self.rejections().items() if category not in self.log.in_order)


def take_rows(rows: Iterable[RawRow], dataset: "Dataset", folder: Path, mode: str = "ending",
              copies: bool = False) -> Taken:
    """Check ``rows`` and keep each pair (in either order), triple, caption of a group, labelled text, story or
    context with its response once.

    Of equal rows the first is kept; under published splits the first of the test split, else of the validation
    split, so that no row is both trained on and evaluated. Rows whose equals carry another label are all
    dropped. Memory does not grow with the rows but for the arrays of the result.

    Args:
        rows: those of one file one after another, numbers rising.
        dataset: names structure and columns.
        folder: an empty folder for what is kept on disk as long as the result is used.
        mode: ``roc_mode``, what stories give.
        copies: keep every row, equal to another or not (``labelled_copies: keep``).

    Raises:
        InputError: labelled texts have more classes than any data set could mean.
    """
    intake = _Intake(dataset, folder, mode)
    for row in progress(rows, "ingest: rows", unit="row"):
        intake.add(row)
    intake.flush()
    return intake.taken(copies)


def check_share(taken: Taken, max_rejected: float) -> None:
    """Fail if more than the share ``max_rejected`` of the rows is unusable.

    Raises:
        InputError: names the first ten rows with file, row and reason.
    """
    unusable = taken.unusable()
    if unusable <= max_rejected * taken.log.total:
        return
    found = sorted(taken.log.examples + _contradictions(taken))[:10]
    lines = [f"  {taken.log.files[file]} row {row}: {reason}" for file, row, reason in found]
    more = [f"  ... and {unusable - len(lines)} more"] if unusable > len(lines) else []
    raise InputError("\n".join([
        f"{unusable} of {taken.log.total} rows cannot be used, more than ingest.max_rejected ({max_rejected:g}):",
        *lines, *more, "Correct these rows, or raise ingest.max_rejected to leave them out."]))


def _contradictions(taken: Taken) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    start = 0
    for verdicts in taken.verdicts.blocks():
        for place in np.flatnonzero(verdicts["verdict"] == BOTH_LABELS)[:10 - len(found)].tolist():
            where = taken.takeable.read(start + place, 1)[0]
            reason = taken.log.reason(tuple(verdicts[place].tolist()), taken.labels)
            found.append((int(where["file"]), int(where["row"]), reason))
        start += len(verdicts)
    return found


class _Intake:
    """Gathers rows in batches and writes them down; then sorts out which are kept."""

    def __init__(self, dataset: "Dataset", folder: Path, mode: str) -> None:
        self._structure, self._folder = structure_of(dataset.layout), folder
        self._check, self._continuations = RowCheck(dataset, mode), self._structure in CONTINUATIONS
        self._labels = {"0": 0, "1": 1} if self._structure != "labelled" else {}
        self._log = RowLog(folder / "rows", reasons_in_order(dataset))
        self._texts = TextFile(folder / "texts")
        self._text_numbers, self._group_numbers = (Numbering(folder / name) for name in ("keys", "groups"))
        self._spans = RecordFile(folder / "occurrences", SPAN)
        self._read = RecordFile(folder / "read", TAKEABLE)
        self._further = RecordFile(folder / "further", TAKEABLE["first"])
        self._clear()

    def _clear(self) -> None:
        self._file = ""
        self._rows: list[int] = []
        self._raw: list[str] = []
        self._reasons: list[str | None] = []
        self._good: list[tuple[int, int, int, int, int, int, int, int, int]] = []
        self._surfaces: list[bytes] = []
        self._keys: list[str] = []
        self._groups: list[str] = []

    def add(self, row: RawRow) -> None:
        """Check one row."""
        if row.file != self._file or len(self._rows) == _BATCH:
            self.flush()
            self._file = row.file
        self._rows.append(row.row)
        self._raw.append(row.raw)
        try:
            found = self._check(row)
            rank = _rank(row.split)
        except RowError as error:
            self._reasons.append(str(error))
            return
        self._reasons.append(None)
        self._surfaces += [surface.encode() for surface in found.surfaces]
        self._keys += found.keys
        self._groups.append(found.group)
        opening = int.from_bytes(blake2b(found.group.encode(), digest_size=8).digest()) if self._continuations else 0
        self._good.append((-1, -1, -1, self._class(found.label), rank, self._log.file_number(row.file), row.row,
                           opening, len(found.surfaces) - len(TEXT_ROLES[self._structure])))

    def flush(self) -> None:
        """Write the rows gathered so far to disk."""
        if self._rows:
            self._log.add(self._file, self._rows, self._reasons, self._raw)
            self._spans.add(self._texts.add(self._surfaces))
            self._text_numbers.add(self._keys)
            if self._structure == "captions":
                self._group_numbers.add(self._groups)
            self._read.add(np.array(self._good, TAKEABLE))
        self._clear()

    def taken(self, copies: bool) -> Taken:
        """Number the texts and keep one of equal rows, or all ``copies``."""
        self._log.close()
        takeable = RecordFile(self._folder / "takeable", TAKEABLE)
        equals = Buckets(self._folder / "equals", _PLACED)
        for records in self._numbered():
            equals.add(_bucket(records, equals.count), _identity(records, self._structure, len(takeable)))
            takeable.add(records)
        outcomes: Counter[int] = Counter()
        verdicts = in_order(self._folder / "verdicts", _verdicts(equals, outcomes, copies), VERDICT, len(takeable))
        pairs, negative, label, rank = _kept(takeable, verdicts, outcomes[KEPT], self._structure)
        opening, further = (_continuations(takeable, verdicts, self._further) if self._continuations
                            else _NO_CONTINUATIONS)
        labels = {"labelled": list(self._labels), "dialogue": ["wrong", "right"]}.get(self._structure, [])
        return Taken(self._structure, self._texts, pairs, negative, label, rank, labels, self._log, takeable, verdicts,
                     outcomes, opening, further)

    def _numbered(self) -> Iterator[np.ndarray]:
        """Yield the takeable rows with the numbers of their texts, and give the texts their numbers."""
        width = len(TEXT_ROLES[self._structure])
        numbers = self._text_numbers.numbers()
        groups = self._group_numbers.numbers()
        start = rows = 0
        for records in self._read.blocks():
            ends = np.cumsum(width + records["further"], dtype=np.int64)
            count = int(ends[-1])
            found = numbers.read(start, count)
            new = new_numbers(found, len(self._texts))
            self._texts.number(self._spans.read(start, count)[new])
            begins = ends - width - records["further"]
            main = np.zeros(count, dtype=bool)
            for place, role in enumerate(("first", "second", "negative")[:width]):
                records[role] = found[begins + place]
                main[begins + place] = True
            self._further.add(found[~main])
            if self._structure == "captions":
                records["second"] = groups.read(rows, len(records))
            start, rows = start + count, rows + len(records)
            yield records

    def _class(self, label: str) -> int:
        number = self._labels.setdefault(label, len(self._labels))
        if number >= _CLASSES:
            raise InputError(f"{self._file}: the labels have more than {_CLASSES} different values, so they are no "
                             f"classes. Name the column that holds the class in columns.label.")
        return number


def _rank(split: str | None) -> int:
    if split is None:
        return 0
    if split not in SPLITS:
        raise RowError(f"split: must be {', '.join(SPLITS)}, found {split!r}")
    return SPLITS.index(split)


def _identity(records: np.ndarray, structure: str, start: int) -> np.ndarray:
    """Return the rows with their places, texts put so that equal rows have equal ones."""
    placed = np.empty(len(records), _PLACED)
    for name in TAKEABLE.names or ():
        placed[name] = records[name]
    placed["place"] = np.arange(start, start + len(records))
    if structure == "pairs":
        # The direction of a given triple matters: it says which text is to be generated. A pair's does not.
        placed["first"] = np.minimum(records["first"], records["second"])
        placed["second"] = np.maximum(records["first"], records["second"])
    return placed


def _bucket(records: np.ndarray, count: int) -> np.ndarray:
    """Return a bucket that does not depend on the direction of a pair."""
    total = records["first"].astype(np.uint64) + records["second"].astype(np.uint64)
    return ((total * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)).astype(np.int64) % count


def _verdicts(equals: Buckets, outcomes: Counter[int], copies: bool) -> Iterator[np.ndarray]:
    """Yield what becomes of each row, and count it; all are kept if ``copies`` are."""
    for records in equals.take():
        # The first of equal rows is the one to keep: of the split that ranks highest, then of the earliest place.
        identity = [records["first"], records["second"], records["negative"]]
        records = records[np.lexsort([records["place"], -records["rank"], *identity])]
        first = np.arange(len(records)) == 0
        for name in ("first", "second", "negative"):
            first[1:] |= records[name][1:] != records[name][:-1]
        starts = np.flatnonzero(first)
        group = np.cumsum(first) - 1
        kept = records[starts][group]
        found = np.empty(len(records), VERDICT)
        found["place"], found["file"], found["row"] = records["place"], kept["file"], kept["row"]
        found["verdict"] = np.where(first, KEPT, np.where(records["rank"] == kept["rank"], DUPLICATE, OTHER_SPLIT))
        if copies:
            found["verdict"] = KEPT
        elif len(records):
            low, high = (way.reduceat(records["label"], starts)[group] for way in (np.minimum, np.maximum))
            both = low != high
            found["verdict"][both], found["file"][both], found["row"][both] = BOTH_LABELS, low[both], high[both]
        outcomes.update(found["verdict"].tolist())
        yield found


def _kept(takeable: RecordFile, verdicts: RecordFile, total: int,
          structure: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs, negatives, labels and ranks of the kept rows; pairs of paraphrases come before the others.

    In this order the two kinds of pairs are pieces of one array, and neither has to be copied.
    """
    pairs = np.empty((total, 2), TAKEABLE["first"])
    negative = np.empty(total if structure == "triples" else 0, TAKEABLE["negative"])
    label, rank = np.empty(total, TAKEABLE["label"]), np.empty(total, TAKEABLE["rank"])
    end = 0
    for wanted in _passes(structure):
        for records, found in zip(takeable.blocks(), verdicts.blocks(), strict=True):
            records = records[_chosen(records, found, wanted)]
            start, end = end, end + len(records)
            pairs[start:end, 0], pairs[start:end, 1] = records["first"], records["second"]
            label[start:end], rank[start:end] = records["label"], records["rank"]
            if len(negative):
                negative[start:end] = records["negative"]
    return pairs, negative, label, rank


def _continuations(takeable: RecordFile, verdicts: RecordFile, numbers: RecordFile) -> tuple[np.ndarray, TextLists]:
    """Return hash and further texts of the rows that ``_kept`` returns, in its order."""
    openings, lengths, texts = ([np.empty(0, dtype=kind)] for kind in (np.uint64, np.int64, np.int32))
    for wanted in _passes("dialogue"):
        start = 0
        for records, found in zip(takeable.blocks(), verdicts.blocks(), strict=True):
            count = int(records["further"].sum())
            chosen = _chosen(records, found, wanted)
            openings.append(records["opening"][chosen])
            lengths.append(records["further"][chosen])
            texts.append(numbers.read(start, count)[np.repeat(chosen, records["further"])])
            start += count
    return np.concatenate(openings), text_lists(np.concatenate(lengths), np.concatenate(texts))


def _passes(structure: str) -> tuple[int | None, ...]:
    """Return the labels in the order in which rows are gathered; None takes all at once."""
    return (1, 0) if structure == "pairs" or structure in CONTINUATIONS else (None,)


def _chosen(records: np.ndarray, found: np.ndarray, wanted: int | None) -> np.ndarray:
    kept = found["verdict"] == KEPT
    return kept if wanted is None else kept & (records["label"] == wanted)
