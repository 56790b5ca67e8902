"""Rows of a table by id: some of its columns in memory, or a sorted table read alongside another."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from stages.common.schemas import TableSchema
from stages.common.tables import read_table

Ids = npt.NDArray[np.int64]


class Lookup:
    """Rows that are sorted by the id in their first column, or by two ids; ``ids`` has the first of each row."""

    def __init__(self, name: str, table: pa.Table, second: str | None = None, unique: bool = True) -> None:
        """Index ``table``, which messages call ``name``, by its first column and the column ``second``."""
        self.name, self.table = name, table.combine_chunks()
        first = table.column_names[0]
        self.ids: Ids = table[first].to_numpy().astype(np.int64)
        # Two ids are one number, in the same order.
        others = None if second is None else table[second].to_numpy().astype(np.int64)
        self._span = None if others is None else int(others.max(initial=0)) + 1
        self._keys = self.ids if self._span is None else self.ids * self._span + others
        steps = np.diff(self._keys)
        if (steps < 0).any() or (unique and (steps == 0).any()):
            key = first if second is None else f"{first} and {second}"
            raise InputError(f"table {name}: not sorted by {key}{', or a row is repeated' if unique else ''}: written "
                             f"by another version, or damaged since. Remove it and run its stage again.")

    @classmethod
    def read(cls, path: Path, schema: TableSchema, columns: list[str]) -> "Lookup":
        """Return some columns of a table by the first of them."""
        return cls(schema.name, read_table(path, schema, columns))

    @classmethod
    def of_table(cls, name: str, table: pa.Table) -> "Lookup":
        """Return a table, in any order, by its column ``text_id``."""
        others = [column for column in table.column_names if column != "text_id"]
        return cls(name, table.select(["text_id", *others]).sort_by("text_id"))

    def places(self, ids: Ids, others: Ids | None = None) -> Ids:
        """Return the row of each id or each pair of ids, -1 where there is none."""
        wanted = np.asarray(ids)
        if not len(self._keys):
            return np.full(len(wanted), -1, dtype=np.int64)
        within = np.full(len(wanted), True)
        if self._span is not None and others is not None:
            within = (others >= 0) & (others < self._span)
            wanted = wanted * self._span + others
        row = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(within & (self._keys[row] == wanted), row, -1).astype(np.int64)

    def rows_of(self, ids: Ids) -> Ids:
        """Return the row of each id, which must have one."""
        rows = self.places(ids)
        missing = np.unique(np.asarray(ids)[rows < 0])
        if len(missing):
            raise InputError(f"table {self.name}: text {missing[0]} has no row (and {len(missing) - 1} more). It was "
                             f"made from other texts: run the stages ingest and annotate again.")
        return rows

    def of(self, ids: Ids) -> pa.Table:
        """Return the row of each of ``ids``, in the order given; errors as in :meth:`rows_of`."""
        return self.table.take(pa.array(self.rows_of(ids)))

    def all_of(self, ids: Ids) -> pa.Table:
        """Return all rows of each of ``ids``, in the order given."""
        start, stop = (np.searchsorted(self.ids, ids, side=side) for side in ("left", "right"))
        counts = stop - start
        rows = np.arange(counts.sum()) + np.repeat(start - np.cumsum(counts) + counts, counts)
        return self.table.take(pa.array(rows))


class Following:
    """Reads batches of a table sorted by text id, up to one text after another."""

    def __init__(self, batches: Iterable[pa.Table], empty: pa.Table) -> None:
        """Read ``batches``; a table without any is ``empty``."""
        self._batches = iter(batches)
        self._unread = next(self._batches, empty)

    def up_to(self, last: int) -> pa.Table:
        """Return the rows up to text ``last`` that have not been returned before."""
        # A batch may end within a text, so the next one is read too.
        while not self._unread.num_rows or self._unread["text_id"][-1].as_py() <= last:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._unread = pa.concat_tables([self._unread, batch])
        before = pc.less_equal(self._unread["text_id"], last)
        rows, self._unread = self._unread.filter(before), self._unread.filter(pc.invert(before))
        return rows

    def rest(self) -> np.ndarray:
        """Return the sorted ids of the texts whose rows have not been returned."""
        return np.unique(np.concatenate([table["text_id"].to_numpy() for table in (self._unread, *self._batches)]))
