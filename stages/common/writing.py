"""Tables that grow with the corpus, written batch by batch, in one file or in parts; see :mod:`stages.common.parts`.

    with table_writer(paths.table("tokens"), TOKENS, provenance, Layout.of(params)) as writer:
        for batch in batches:
            writer.write(batch)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from keycontrast.files import beside, sha256_of, take_place
from stages.common.parts import LIST, Layout, Listed, Part
from stages.common.schemas import SCHEMA_VERSION, TableSchema
from stages.common.tables import ROW_GROUP, WRITTEN, Provenance, as_table, stored_metadata


class TableWriter:
    """Writes a table batch by batch, so that it never lies in memory as a whole; see :func:`table_writer`.

    Attributes:
        rows: written so far.
        parts: that have ended.
    """

    def __init__(self, folder: Path, schema: TableSchema, layout: Layout) -> None:
        self.rows = 0
        self.parts: list[Part] = []
        self._folder, self._schema, self._layout = folder, schema, layout
        self._arrow = schema.arrow()
        self._file: pq.ParquetWriter | None = None
        # Of the part that is written: its path and rows; then the last key of all.
        self._path, self._held = folder, 0
        self._last: tuple[Any, ...] = ()

    def write(self, rows: pd.DataFrame | pa.Table | Mapping[str, Any]) -> None:
        """Add ``rows``, whose keys come after all that were written before.

        Raises:
            ValueError: wrong columns or types, a key that repeats, or rows out of order.
        """
        table = as_table(self._schema, rows)
        if not table.num_rows:
            return
        start, most = 0, self._layout.part_rows or table.num_rows
        while start < table.num_rows:
            if self._layout.part_rows is not None and self._held >= most:
                self.next_part()
            rest = table.slice(start, most - self._held if self._layout.part_rows is not None else most)
            self._append(rest)
            start += rest.num_rows

    def _append(self, table: pa.Table) -> None:
        """Add rows to the part that is written."""
        first, last = (tuple(table[name][place].as_py() for name in self._schema.key)
                       for place in (0, table.num_rows - 1))
        self._follow(first, last)
        self._opened().write_table(table.replace_schema_metadata(self._arrow.metadata), row_group_size=ROW_GROUP)
        self._held += table.num_rows
        self.rows += table.num_rows

    def next_part(self) -> None:
        """End the part that is written, if it has rows: what follows goes into another one."""
        if not self._held:
            return
        self._opened().add_key_value_metadata(stored_metadata(self._schema.description,
                                                              {"schema_version": SCHEMA_VERSION}))
        self._opened().close()
        self.parts.append(Part(self._path.name, self._held, self._path.stat().st_size, sha256_of(self._path)))
        self._file, self._held = None, 0

    def finish(self, provenance: Provenance) -> Path:
        """End the table, whose metadata count the rows; return the file or folder that is to take its name."""
        metadata = stored_metadata(self._schema.description, provenance.as_metadata(self.rows))
        if not self.parts:
            self._opened().add_key_value_metadata(metadata)
            self._opened().close()
            return self._path
        self.next_part()
        (self._folder / LIST).write_text(Listed(tuple(self.parts), metadata).as_json(), encoding="utf-8")
        return self._folder

    def _opened(self) -> pq.ParquetWriter:
        if self._file is None:
            self._path = self._folder / f"part-{len(self.parts):05d}.parquet"
            self._file = pq.ParquetWriter(self._path, self._arrow, **WRITTEN)
        return self._file

    def _follow(self, first: tuple[Any, ...], last: tuple[Any, ...]) -> None:
        if self._last and not (self._last < first or (not self._schema.unique and self._last == first)):
            raise ValueError(f"{self._schema.name}: rows after {self._last} begin with {first}, which is not later")
        self._last = last


@contextmanager
def table_writer(path: Path, schema: TableSchema, provenance: Provenance,
                 layout: Layout | None = None) -> Iterator[TableWriter]:
    """Yield a :class:`TableWriter` of ``schema``; the table appears only if the block succeeds.

    Row groups are cut as batches are: for the same bytes, cut batches without regard to workers.
    ``provenance`` is read when the block ends, so its counts may be filled in meanwhile.

    Args:
        path: of the table: a file, or a folder of parts where it is larger than one.
        schema: of the table.
        provenance: for its metadata.
        layout: how parts are cut; None leaves that to :meth:`TableWriter.next_part`.
    """
    with beside(path) as folder:
        writer = TableWriter(folder, schema, layout or Layout())
        yield writer
        take_place(writer.finish(provenance), path)
