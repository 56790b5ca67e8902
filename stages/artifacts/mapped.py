"""Tables that are looked into by id and need not fit into memory: their columns are mapped from the disk.

    with mapped(paths.table("texts"), TEXTS, ["text_id", "text"], process.scratch) as texts:
        texts.of(np.array([12, 7]))["text"]     # of text 12, then of text 7
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stages.artifacts.schemas import TableSchema
from stages.artifacts.tables import read_batches
from stages.runtime.errors import InputError

# Makes an array of zeros, given its shape and the type of its values.
NewArray = Callable[[tuple[int, ...], npt.DTypeLike], np.ndarray]
# Rows of a batch in the file: what is taken together from one is taken at once.
_ROWS = 8192


class MappedTable:
    """Some columns of a table that is sorted by one id, which is unique; see :func:`mapped`.

    Attributes:
        name: of the table, for messages.
        ids: of its rows, ascending, (rows,): all that is held in memory.
    """

    def __init__(self, name: str, ids: npt.NDArray[np.int64], batches: list[pa.RecordBatch], schema: pa.Schema) -> None:
        self.name, self.ids = name, ids
        self._batches, self._schema = batches, schema
        # First row of each batch, and the number of rows.
        self._bounds = [0, *accumulate(batch.num_rows for batch in batches)]

    @classmethod
    def of_table(cls, name: str, table: pa.Table, key: str = "text_id") -> "MappedTable":
        """Return ``table``, which is held in memory and may be in any order, as one to be looked into by ``key``."""
        rows = table.sort_by(key).combine_chunks()
        return cls(name, rows[key].to_numpy(), rows.to_batches(), rows.schema)

    def rows_of(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the row of each id.

        Raises:
            InputError: an id has no row.
        """
        rows = np.searchsorted(self.ids, ids)
        found = np.zeros(len(ids), dtype=bool)
        inside = rows < len(self.ids)
        found[inside] = self.ids[rows[inside]] == np.asarray(ids)[inside]
        if not found.all():
            missing = np.unique(np.asarray(ids)[~found])
            raise InputError(f"{self.name}.parquet: text {missing[0]} has no row (and {len(missing) - 1} more). It was "
                             f"made from other texts: run the stages ingest and annotate again.")
        return rows.astype(np.int64)

    def at(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return the given rows, in the order given, each as often as it is named."""
        if not len(rows):
            return self._schema.empty_table()
        wanted, place = np.unique(rows, return_inverse=True)
        batch = np.searchsorted(self._bounds, wanted, side="right") - 1
        cuts = np.flatnonzero(np.diff(batch, prepend=-1))
        taken = [self._batches[number].take(pa.array(some - self._bounds[number]))
                 for number, some in zip(batch[cuts].tolist(), np.split(wanted, cuts[1:]), strict=True)]
        return pa.Table.from_batches(taken, self._schema).combine_chunks().take(pa.array(place))

    def value(self, row: int, column: str) -> Any:
        """Return one value as Python has it."""
        number = bisect_right(self._bounds, row) - 1
        return self._batches[number].column(column)[row - self._bounds[number]].as_py()

    def of(self, ids: npt.NDArray[np.int64]) -> pa.Table:
        """Return the rows of ``ids``, in the order given; errors as in :meth:`rows_of`."""
        return self.at(self.rows_of(ids))


class MappedTexts(Mapping[int, str]):
    """The texts of a mapped table ``texts`` by id, where a dictionary would hold them all."""

    def __init__(self, table: MappedTable) -> None:
        self._table = table

    def __getitem__(self, text_id: int) -> str:
        """Return the text of ``text_id``; a KeyError says that there is none."""
        row = int(np.searchsorted(self._table.ids, text_id))
        if row == len(self) or self._table.ids[row] != text_id:
            raise KeyError(text_id)
        text: str = self._table.value(row, "text")
        return text

    def __iter__(self) -> Iterator[int]:
        """Iterate over the ids."""
        return iter(self._table.ids.tolist())

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._table.ids)


class TextSequence(Sequence[str]):
    """The texts of ``ids``, in that order, where a list would hold them all; a slice of them is a list."""

    def __init__(self, table: MappedTable, ids: npt.NDArray[np.int64]) -> None:
        self._table, self._rows = table, table.rows_of(ids)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        """Return the text at a place, or those of a slice."""
        if isinstance(place, slice):
            texts: list[str] = self._table.at(self._rows[place])["text"].to_pylist()
            return texts
        text: str = self._table.value(int(self._rows[place]), "text")
        return text

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._rows)


@contextmanager
def mapped_arrays(folder: Path) -> Iterator[NewArray]:
    """Yield what makes arrays of zeros that lie in files of ``folder`` and are mapped from there.

    The files are gone after the block, and with it what is in the arrays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []

    def new(shape: tuple[int, ...], kind: npt.DTypeLike) -> np.ndarray:
        if 0 in shape:
            return np.zeros(shape, kind)  # no file of no length can be mapped
        files.append(folder / f"{len(files)}.array")
        return np.memmap(files[-1], kind, "w+", shape=shape)

    try:
        yield new
    finally:
        for file in files:
            file.unlink(missing_ok=True)


@contextmanager
def mapped(path: Path, schema: TableSchema, columns: list[str], folder: Path) -> Iterator[MappedTable]:
    """Yield some columns of a table, which are copied, uncompressed, to a file that is mapped into memory.

    Only the ids take memory of the process, eight bytes each; the system keeps of the file what there is room for.

    Args:
        path: of the table; its first key column is unique.
        schema: of the table.
        columns: that are wanted, the id among them.
        folder: for the file, which is gone after the block: of one process, such as its scratch folder.

    Raises:
        InputError: the table is missing, damaged, or not sorted by its id.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, key = folder / f"{schema.name}.arrow", schema.key[0]
    arrow = pa.schema([field.remove_metadata() for field in schema.arrow() if field.name in columns])
    try:
        ids = [np.zeros(0, dtype=np.int64)]
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, arrow) as writer:
            for batch in read_batches(path, schema, columns, _ROWS):
                rows = batch.select(arrow.names).cast(arrow).combine_chunks()
                ids.append(rows[key].to_numpy())
                writer.write_table(rows)
        found = np.concatenate(ids).astype(np.int64, copy=False)
        if (np.diff(found) <= 0).any():
            raise InputError(f"{path}: not sorted by {key}, or a row stands twice: written by another version, or "
                             f"damaged since. Remove it and run its stage again.")
        with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as reader:
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            yield MappedTable(schema.name, found, batches, arrow)
    finally:
        file.unlink(missing_ok=True)
