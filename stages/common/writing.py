"""Tables that grow with the corpus, written batch by batch as folders of parts; see :mod:`stages.common.tables`.

    with table_writer(paths.table("edges"), EDGES, provenance) as writer:
        for batch in batches:
            writer.write(batch)
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from keycontrast.files import atomic_folder
from stages.common.schemas import TableSchema
from stages.common.tables import PART_ROWS, Provenance, as_table, part_name, read_batches, row_count, write_part


class TableWriter:
    """Writes a table batch by batch, or of parts that are there; see :func:`table_writer`.

    Attributes:
        rows: written so far.
    """

    def __init__(self, folder: Path, schema: TableSchema, provenance: Provenance) -> None:
        self.rows = 0
        self._folder, self._schema, self._provenance = folder, schema, provenance
        self._parts = 0
        # What the last part is made of, whose metadata are known at the end: rows, or a file.
        self._waiting = schema.arrow().empty_table()
        self._file: Path | None = None
        self._last: tuple[Any, ...] = ()

    def write(self, rows: pd.DataFrame | pa.Table | Mapping[str, Any]) -> None:
        """Add ``rows``, whose keys come after all that were written before.

        Raises:
            ValueError: wrong columns or types, a key that repeats, or rows out of order.
        """
        table = as_table(self._schema, rows)
        if not table.num_rows:
            return
        self._follow(table)
        self.rows += table.num_rows
        self._waiting = pa.concat_tables([self._waiting, table])
        while self._waiting.num_rows > PART_ROWS:
            part = self._waiting.slice(0, PART_ROWS)
            write_part(self._next(), self._schema, [part], self._provenance.of_part())
            self._waiting = self._waiting.slice(PART_ROWS)

    def add_part(self, file: Path) -> None:
        """Add a copy of a file that :func:`stages.common.tables.write_part` has written for this table."""
        if self._file is not None:
            shutil.copyfile(self._file, self._next())
        self._file = file
        self.rows += row_count(file)

    def finish(self) -> None:
        """Write the last part, whose metadata count rows and parts."""
        part = self._next()
        tables = [self._waiting] if self._file is None else read_batches(self._file, self._schema)
        write_part(part, self._schema, tables, self._provenance, self._parts)

    def _next(self) -> Path:
        self._parts += 1
        return self._folder / part_name(self._parts - 1)

    def _follow(self, table: pa.Table) -> None:
        first, last = (tuple(table[name][place].as_py() for name in self._schema.key)
                       for place in (0, table.num_rows - 1))
        if self._last and not (self._last < first or (not self._schema.unique and self._last == first)):
            raise ValueError(f"{self._schema.name}: rows after {self._last} begin with {first}, which is not later")
        self._last = last


@contextmanager
def table_writer(path: Path, schema: TableSchema, provenance: Provenance) -> Iterator[TableWriter]:
    """Yield a :class:`TableWriter` of ``schema``; the folder ``path`` appears only if the block succeeds.

    The last part says ``provenance`` as it is when the block ends, so its counts may be filled in meanwhile.
    """
    with atomic_folder(path) as folder:
        writer = TableWriter(folder, schema, provenance)
        yield writer
        writer.finish()
