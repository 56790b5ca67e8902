"""Check raw rows, number their texts, and reject repeated and contradictory rows, in DuckDB."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from keycontrast.errors import InputError
from keycontrast.progress import progress
from stages.common.examples import structure_of
from stages.common.schemas import ALL_SPLITS
from stages.common.tables import open_database
from stages.ingest.params import Dataset
from stages.ingest.parsing import RowError
from stages.ingest.rows import TEXT_ROLES, RawRow, RowCheck
from stages.ingest.texts import TextFile, TextLists, text_lists

_BATCH = 2**13
_CLASSES = 10_000
# Structures whose outputs continue their inputs; each row says itself what it belongs to: a story, a context.
CONTINUATIONS = ("stories", "dialogue")
# Rows left out for these reasons are in order; nothing has to be corrected.
_BENIGN = ["duplicate", "other split", "alone", "group size", "unused", "left out", "no negative"]

# `place` counts all rows in the order of reading, `nth` all texts of the rows that can be taken, `role` those of a row.
# `name` is of the group of a caption; `opening` is the hash of what a story or dialogue belongs to.
_TABLES = {
    "rows": pa.schema({"place": pa.int64(), "file": pa.string(), "row": pa.int64(), "raw": pa.string()}),
    "rejected": pa.schema({"place": pa.int64(), "reason": pa.string()}),
    "valid": pa.schema({"place": pa.int64(), "label": pa.int16(), "rank": pa.int8(), "name": pa.string(),
                        "opening": pa.uint64()}),
    "occurrences": pa.schema({"place": pa.int64(), "role": pa.int16(), "nth": pa.int64(), "key": pa.string(),
                              "text": pa.string()})}

_NUMBERED = """
    CREATE TABLE texts AS
        SELECT key, min(nth) AS nth, CAST(row_number() OVER (ORDER BY min(nth)) - 1 AS INTEGER) AS number
        FROM occurrences GROUP BY key;
    CREATE TABLE names AS
        SELECT name, CAST(row_number() OVER (ORDER BY min(place)) - 1 AS INTEGER) AS number FROM valid GROUP BY name;
    CREATE TABLE numbered AS SELECT place, role, number FROM occurrences JOIN texts USING (key);
    CREATE TABLE compared AS
        SELECT place, label, rank, opening, first, coalesce({second}, -1) AS second, third, further
        FROM valid JOIN names AS named USING (name) JOIN (
            SELECT place, max(number) FILTER (role = 0) AS first, max(number) FILTER (role = 1) AS target,
                max(number) FILTER (role = 2 AND {width} > 2) AS third, count(*) - {width} AS further
            FROM numbered GROUP BY place) USING (place)"""
_TEXTS = "SELECT text FROM occurrences SEMI JOIN texts USING (nth) ORDER BY nth"
# The first of equal rows is kept: of the split that ranks highest, then of the earliest place.
_REPEATED = """
    INSERT INTO rejected
    SELECT place, CASE
        WHEN low <> high THEN 'both labels: ' || {both}
        WHEN rank = kept_rank THEN 'duplicate: of ' || kept
        ELSE 'other split: kept as ' || kept || ', of a stricter split' END
    FROM (
        SELECT place, rank, row_number() OVER best AS nth, first_value(rank) OVER best AS kept_rank,
            first_value(file || ' row ' || row) OVER best AS kept,
            min(label) OVER equal AS low, max(label) OVER equal AS high
        FROM compared JOIN rows USING (place)
        WINDOW equal AS (PARTITION BY {identity}), best AS (PARTITION BY {identity} ORDER BY rank DESC, place))
    WHERE nth > 1 OR low <> high"""
_KEPT = """
    CREATE TABLE kept AS
        SELECT *, row_number() OVER (ORDER BY {order}) AS nth FROM compared ANTI JOIN rejected USING (place)"""
_FURTHER = ("SELECT number FROM numbered JOIN kept USING (place) WHERE further > 0 AND role >= {width} "
            "ORDER BY nth, role")


class RowTables:
    """All rows, and the reasons why some are rejected, in a database of at most ``memory_gib`` GiB that spills to
    ``folder``."""

    def __init__(self, folder: Path, memory_gib: float) -> None:
        self.database = open_database(folder / "database", memory_gib)
        for name, schema in _TABLES.items():
            self.database.from_arrow(schema.empty_table()).create(name)

    def add(self, table: str, columns: Sequence[Sequence[Any] | np.ndarray]) -> None:
        """Add rows, given as columns, to a table."""
        self.database.from_arrow(pa.table(list(columns), schema=_TABLES[table])).insert_into(table)

    @property
    def total(self) -> int:
        """Number of all rows."""
        return self.database.table("rows").count("*").fetchall()[0][0]  # type: ignore[no-any-return]

    def rejections(self) -> dict[str, int]:
        """Return how many rows were not taken, by category of reason."""
        return dict(self.database.execute(
            "SELECT split_part(reason, ':', 1), count(*) FROM rejected GROUP BY ALL ORDER BY ALL").fetchall())

    def unusable(self) -> int:
        """Return how many rows have to be corrected to be taken."""
        return sum(count for category, count in self.rejections().items() if category not in _BENIGN)

    def check_share(self, max_rejected: float) -> None:
        """Raise an ``InputError`` that names ten rows if more than the share ``max_rejected`` is unusable."""
        unusable, total = self.unusable(), self.total
        if unusable <= max_rejected * total:
            return
        faulty = self.database.execute(
            "SELECT file, row, reason FROM rejected JOIN rows USING (place) "
            "WHERE NOT list_contains($1, split_part(reason, ':', 1)) ORDER BY place LIMIT 10", [_BENIGN])
        lines = [f"  {file} row {row}: {reason}" for file, row, reason in faulty.fetchall()]
        more = [f"  ... and {unusable - len(lines)} more"] if unusable > len(lines) else []
        raise InputError("\n".join([
            f"{unusable} of {total} rows cannot be used, more than ingest.max_rejected ({max_rejected:g}):",
            *lines, *more, "Correct these rows, or raise ingest.max_rejected to leave them out."]))

    def rejected(self) -> Iterator[pa.Table]:
        """Yield pieces of the table ``rejected``, sorted by file and row; at least one."""
        batches = self.database.sql("SELECT file, row, reason, raw FROM rejected JOIN rows USING (place) "
                                    "ORDER BY file, place").to_arrow_reader(_BATCH)
        yield batches.schema.empty_table()
        yield from map(pa.table, batches)


@dataclass(frozen=True)
class UniqueRows:
    """The rows that were kept, as arrays (n_rows,) in the order of the input, paraphrases first."""

    structure: str
    texts: TextFile       # numbered by first appearance
    tables: RowTables
    labels: list[str]     # names of the classes, or of the two kinds of responses, by number; else empty
    place: np.ndarray     # among all rows
    first: np.ndarray     # text number of source, input, caption or labelled text
    second: np.ndarray    # text number of the target, or number of the caption's group, else -1
    negative: np.ndarray  # text number of a given triple's negative; (0,) in other structures
    label: np.ndarray     # 1 for paraphrases, stories and right responses, 0 for the contrary; number of the class
    rank: np.ndarray      # published split as index into ``ALL_SPLITS``; 0 also where none is published
    opening: np.ndarray   # hash of a story's first sentence or a dialogue's context; 0 in other structures
    further: TextLists    # other texts of each story or dialogue; empty in other structures

    def __len__(self) -> int:
        return len(self.place)

    @property
    def pairs(self) -> np.ndarray:
        """Columns ``first`` and ``second`` side by side."""
        return np.stack([self.first, self.second], axis=1)

    @property
    def n_texts(self) -> int:
        """Number of distinct texts."""
        return len(self.texts)

    @property
    def published(self) -> list[int]:
        """The splits other than training whose rows are published, as indices into ``ALL_SPLITS``."""
        return [which for which in range(1, len(ALL_SPLITS)) if (self.rank == which).any()]

    def reject(self, rows: np.ndarray, reason: str) -> None:
        """Reject ``rows`` (n_rows,) bool for ``reason``."""
        self.tables.add("rejected", [self.place[rows], [reason] * np.count_nonzero(rows)])

    def without(self, dropped: np.ndarray, reason: str) -> "UniqueRows":
        """Return the rows that are not ``dropped`` (n_rows,) bool, and reject the others for ``reason``."""
        if not dropped.any():
            return self
        self.reject(dropped, reason)
        left = np.flatnonzero(~dropped)
        columns = {name: getattr(self, name)[left]
                   for name in ("place", "first", "second", "label", "rank", "opening")}
        negative = self.negative[left] if len(self.negative) else self.negative
        return replace(self, negative=negative, further=self.further.at(left), **columns)


def deduplicate(rows: Iterable[RawRow], dataset: Dataset, folder: Path, mode: str = "ending", copies: bool = False,
              memory_gib: float = 4.0, identity: str = "symbols") -> UniqueRows:
    """Check ``rows`` and keep each pair (in either order), triple, caption of a group, labelled text, story or
    context with its response once.

    The first of equal rows is kept; under published splits the first of the test split, else of the validation
    split, so that no row is both trained on and evaluated. Equal rows with different labels are all dropped. With
    ``copies`` every row is kept. ``mode`` is ``roc_mode``, ``identity`` is ``text_identity``; ``folder`` must be empty
    and outlive the result.
    """
    tables = RowTables(folder, memory_gib)
    structure = structure_of(dataset.layout)
    labels = _read(rows, structure, RowCheck(dataset, mode, identity), tables)
    labels = {"labelled": labels, "dialogue": ["wrong", "right"]}.get(structure, [])
    database, width = tables.database, len(TEXT_ROLES[structure])
    database.execute(_NUMBERED.format(width=width, second="named.number" if structure == "captions" else "target"))
    texts = TextFile(folder / "texts.arrow", database.sql(_TEXTS).to_arrow_reader(_BATCH))
    database.execute("DROP TABLE occurrences")
    if not copies:
        # The direction of a given triple matters: it says which text is to be generated. A pair's does not.
        identity = "least(first, second), greatest(first, second)" if structure == "pairs" else "first, second, third"
        both = ("'the text occurs as ' || $spelt[low + 1] || ' and as ' || $spelt[high + 1]" if labels else
                "'the pair occurs as paraphrase and as non-paraphrase'")
        database.execute(_REPEATED.format(identity=identity, both=both),
                         {"spelt": [repr(label) for label in labels]} if labels else None)
    database.execute(_KEPT.format(order="place" if structure == "labelled" else "label DESC, place"))
    kept = database.sql("FROM kept ORDER BY nth").fetchnumpy()
    further = database.sql(_FURTHER.format(width=width)).fetchnumpy()["number"]
    for table in ("valid", "texts", "names", "numbered", "compared", "kept"):
        database.execute(f"DROP TABLE {table}")
    return UniqueRows(
        structure, texts, tables, labels, negative=kept["third"] if structure == "triples" else np.empty(0, np.int32),
        further=text_lists(kept["further"], further),
        **{name: kept[name] for name in ("place", "first", "second", "label", "rank", "opening")})


def _read(rows: Iterable[RawRow], structure: str, check: RowCheck, tables: RowTables) -> list[str]:
    """Fill the tables with ``rows``, and return the labels by number."""
    labels = {} if structure == "labelled" else {"0": 0, "1": 1}
    batch: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _TABLES}
    nth = 0

    def write() -> None:
        for name, rows in batch.items():
            if rows:
                tables.add(name, list(zip(*rows, strict=True)))
                rows.clear()

    for place, row in enumerate(progress(rows, "ingest: rows", unit="row")):
        batch["rows"].append((place, row.file, row.row, row.raw))
        try:
            checked = check(row)
        except RowError as error:
            batch["rejected"].append((place, str(error)))
        else:
            label = labels.setdefault(checked.label, len(labels))
            if label >= _CLASSES:
                raise InputError(f"{row.file}: the labels have more than {_CLASSES} different values, so they are no "
                                 f"classes. Name the column that holds the class in columns.label.")
            name, opening = checked.group, 0
            if structure in CONTINUATIONS:
                name, opening = "", int.from_bytes(blake2b(checked.group.encode(), digest_size=8).digest())
            batch["valid"].append((place, label, ALL_SPLITS.index(row.split or ALL_SPLITS[0]), name, opening))
            for role, (key, text) in enumerate(zip(checked.keys, checked.surfaces, strict=True)):
                batch["occurrences"].append((place, role, nth + role, key, text))
            nth += len(checked.keys)
        if len(batch["rows"]) == _BATCH:
            write()
    write()
    return list(labels)
