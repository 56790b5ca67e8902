"""Tables that are looked into by id and need not fit into memory: their columns are mapped from the disk.

    with mapped(paths.table("texts"), TEXTS, ["text_id", "text"], process.scratch) as texts:
        texts.of(np.array([12, 7]))["text"]     # of text 12, then of text 7

:func:`copied` maps what a stage makes of a table, batch by batch, such as its rows of one mode; :func:`grouped` rows of
which several have one id.
"""

import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.schemas import TableSchema
from stages.common.tables import read_batches

# Makes an array of zeros, given its shape and the type of its values.
NewArray = Callable[[tuple[int, ...], npt.DTypeLike], np.ndarray]
# Rows read at a time, and bytes of a batch in the file: what is asked for together is taken from each batch at once.
_ROWS, _BYTES = 4096, 1 << 23
Ids = npt.NDArray[np.int64]
_Rows = TypeVar("_Rows", bound="_MappedRows")


class _MappedRows:
    """Rows in a file that is mapped into memory, by their number; or, of a small table, in memory.

    Attributes:
        name: of the table, for messages.
    """

    def __init__(self, name: str, rows: Path | pa.Table) -> None:
        self.name, self._memory = name, None
        if isinstance(rows, pa.Table):
            self._schema, self._batches = rows.schema, rows.to_batches()
        else:
            with rows.open("rb") as opened:
                self._memory = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            reader = pa.ipc.open_file(pa.py_buffer(self._memory))
            self._schema = reader.schema
            self._batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        # First row of each batch, and the number of rows.
        self._bounds = [0, *accumulate(batch.num_rows for batch in self._batches)]

    def at(self, rows: Ids) -> pa.Table:
        """Return the given rows, in the order given, each as often as it is named."""
        if not len(rows):
            return self._schema.empty_table()
        wanted, place = np.unique(rows, return_inverse=True)
        batch = np.searchsorted(self._bounds, wanted, side="right") - 1
        cuts = np.flatnonzero(np.diff(batch, prepend=-1))
        taken = []
        for number, some in zip(batch[cuts].tolist(), np.split(wanted, cuts[1:]), strict=True):
            taken.append(self._batches[number].take(pa.array(some - self._bounds[number])))
            self._hand_back()
        found = pa.Table.from_batches(taken, self._schema).combine_chunks()
        return found if np.array_equal(wanted, rows) else found.take(pa.array(place))

    def value(self, row: int, column: str) -> Any:
        """Return one value as Python has it."""
        number = bisect_right(self._bounds, row) - 1
        return self._batches[number].column(column)[row - self._bounds[number]].as_py()

    def batches(self) -> Iterator[pa.Table]:
        """Yield all rows, in order; a table is good until the next one is asked for."""
        for batch in self._batches:
            yield pa.Table.from_batches([batch])
            self._hand_back()

    def numbers(self, of: Callable[[pa.Table], npt.NDArray[Any]], kind: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
        """Return a number for each row, which ``of`` finds for some rows at a time, (rows,) of ``kind``."""
        found = np.empty(self._bounds[-1], dtype=kind)
        for start, rows in zip(self._bounds, self.batches(), strict=False):
            found[start:start + rows.num_rows] = of(rows)
        return found

    def _hand_back(self) -> None:
        """Let the system take the pages that were read, which it reads again when they are looked at."""
        if self._memory is not None:
            self._memory.madvise(mmap.MADV_DONTNEED)

    def let_go(self) -> None:
        """Hold the file no longer, so that it can be removed on every system; no row can be asked for after that."""
        del self._batches, self._memory


class MappedTable(_MappedRows):
    """Some columns of a table that is sorted by a unique key of one id or two; see :func:`mapped` and :func:`copied`.

    Attributes:
        name: of the table, for messages.
        ids: of its rows, ascending, (rows,): with ``others`` all that is held in memory.
        others: the second id of each row, ascending among rows of one id, (rows,); None where a row has one id.
    """

    def __init__(self, name: str, rows: Path | pa.Table, second: str | None = None) -> None:
        super().__init__(name, rows)
        self.ids, self.others = self._column(self._schema.names[0]), None if second is None else self._column(second)
        first, same = self._schema.names[0], self.ids[1:] == self.ids[:-1]
        if self.others is not None:
            first, same = f"{first} and {second}", same & (self.others[1:] <= self.others[:-1])
        if same.any() or (self.ids[1:] < self.ids[:-1]).any():
            raise _unsorted(name, first, ", or a row stands twice")

    @classmethod
    def of_table(cls, name: str, table: pa.Table) -> "MappedTable":
        """Return a small table, in any order, as one to be looked into by its column ``text_id``."""
        others = [column for column in table.column_names if column != "text_id"]
        return cls(name, table.select(["text_id", *others]).sort_by("text_id").combine_chunks())

    def _column(self, name: str) -> Ids:
        return self.numbers(lambda rows: rows[name].to_numpy())

    def places(self, ids: Ids, others: Ids | None = None) -> Ids:
        """Return the row of each id, or of each two ids, -1 where there is none."""
        if not len(self.ids):
            return np.full(len(ids), -1, dtype=np.int64)
        row = np.searchsorted(self.ids, ids)
        if self.others is not None:
            row = _bisected(self.others, row, np.searchsorted(self.ids, ids, side="right"), np.asarray(others))
        row = np.minimum(row, len(self.ids) - 1)
        found = self.ids[row] == ids
        if self.others is not None:
            found &= self.others[row] == others
        return np.where(found, row, -1).astype(np.int64)

    def rows_of(self, ids: Ids) -> Ids:
        """Return the row of each id.

        Raises:
            InputError: an id has no row.
        """
        rows = self.places(ids)
        missing = np.unique(np.asarray(ids)[rows < 0])
        if len(missing):
            raise InputError(f"{self.name}.parquet: text {missing[0]} has no row (and {len(missing) - 1} more). It was "
                             f"made from other texts: run the stages ingest and annotate again.")
        return rows

    def of(self, ids: Ids) -> pa.Table:
        """Return the rows of ``ids``, in the order given; errors as in :meth:`rows_of`."""
        return self.at(self.rows_of(ids))


class MappedGroups(_MappedRows):
    """Some columns of a table that is sorted by an id which several rows may have; see :func:`grouped`.

    Attributes:
        name: of the table, for messages.
        ids: that have rows, ascending, (ids,): with their first rows all that is held in memory.
    """

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(name, file)
        first = self._schema.names[0]
        nothing = np.zeros(0, dtype=np.int64)
        runs = [(nothing, nothing), *(_runs(rows[first].to_numpy()) for rows in self.batches())]
        ids, counts = (np.concatenate(arrays) for arrays in zip(*runs, strict=True))
        if (ids[1:] < ids[:-1]).any():
            raise _unsorted(name, first, "")
        opens = _opens(ids)     # a batch may end among the rows of an id
        self.ids = ids[opens]
        self._first = np.append(0, np.cumsum(np.add.reduceat(counts, opens) if len(opens) else counts))

    def of(self, ids: Ids) -> pa.Table:
        """Return all rows of each of ``ids``, which are in the table, in the order given."""
        place = np.searchsorted(self.ids, ids)
        start, counts = self._first[place], np.diff(self._first)[place]
        return self.at(np.arange(counts.sum()) + np.repeat(start - np.cumsum(counts) + counts, counts))


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
    with copied(schema.name, columns_of(schema, columns), read_batches(path, schema, columns, _ROWS),
                folder / f"{schema.name}.arrow") as table:
        yield table


@contextmanager
def copied(name: str, schema: pa.Schema, batches: Iterable[pa.Table], file: Path,
           second: str | None = None) -> Iterator[MappedTable]:
    """Yield the rows of ``batches`` by the id that is their first column; as :func:`mapped`.

    Args:
        name: of the table that they are from, for messages.
        schema: columns that are kept.
        batches: come by id; may have further columns.
        file: where they are kept, gone after the block.
        second: column of the second id, if it takes two to name a row.

    Raises:
        InputError: they do not come by their ids, or a key stands twice.
    """
    with _written(schema, batches, file), _held(MappedTable(name, file, second)) as table:
        yield table


@contextmanager
def grouped(name: str, schema: pa.Schema, batches: Iterable[pa.Table], file: Path) -> Iterator[MappedGroups]:
    """Yield the rows of ``batches`` by their first column, an id that several rows may have; as :func:`copied`.

    Raises:
        InputError: they do not come by their ids.
    """
    with _written(schema, batches, file), _held(MappedGroups(name, file)) as groups:
        yield groups


@contextmanager
def _written(schema: pa.Schema, batches: Iterable[pa.Table], file: Path) -> Iterator[None]:
    """Write ``batches`` to ``file``, and remove it after the block."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in _joined(batches, schema):
                writer.write_table(batch)
        yield
    finally:
        file.unlink(missing_ok=True)


def _joined(batches: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Join small ``batches`` to some of about _BYTES."""
    held: list[pa.Table] = []
    size = 0
    for batch in batches:
        held.append(batch.select(schema.names).cast(schema))
        size += held[-1].nbytes
        if size >= _BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()


@contextmanager
def _held(rows: _Rows) -> Iterator[_Rows]:
    try:
        yield rows
    finally:
        rows.let_go()


def _opens(ids: Ids) -> Ids:
    """Return where each run of equal ids begins."""
    return np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[:len(ids)])


def _runs(ids: Ids) -> tuple[Ids, Ids]:
    """Return the id of each run of equal ones, and how many there are in it."""
    opens = _opens(ids)
    return ids[opens], np.diff(np.append(opens, len(ids)))


def _bisected(values: Ids, low: Ids, high: Ids, wanted: Ids) -> Ids:
    """Return the first of the places from ``low`` to ``high`` whose value is not below the one wanted, each at once."""
    while (low < high).any():
        middle = (low + high) // 2
        below = (low < high) & (values[np.minimum(middle, len(values) - 1)] < wanted)
        low, high = np.where(below, middle + 1, low), np.where(below, high, np.minimum(middle, high))
    return low


def columns_of(schema: TableSchema, columns: list[str]) -> pa.Schema:
    """Return the Arrow schema of some columns of a table, in its order."""
    return pa.schema([field.remove_metadata() for field in schema.arrow() if field.name in columns])


def _unsorted(name: str, key: str, doubled: str) -> InputError:
    return InputError(f"{name}.parquet: not sorted by {key}{doubled}: written by another version, or damaged since. "
                      f"Remove it and run its stage again.")
