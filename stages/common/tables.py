"""Parquet tables that are written whole or not at all, with the same bytes for the same content.

Tables of models and runs are single files; those below ``artifacts/data`` are folders of parts
(``tokens/part-00000.parquet``, ...), which pandas, pyarrow, DuckDB and DVC read as one table.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from keycontrast.errors import InputError
from keycontrast.files import atomic_file, atomic_folder
from stages.common.schemas import SCHEMA_VERSION, TableSchema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

METADATA_KEY = b"keycontrast"
# In the last part of a folder alone: the number of parts.
_PARTS_KEY = b"keycontrast.parts"
# Mark and SHA-256 of the footer are written before it, where readers of Parquet do not look.
_MARK, _SHA256 = b"keycontrast.footer", hashlib.sha256().digest_size
SUFFIX = ".parquet"
# Rows of a part.
PART_ROWS = 8192
ROW_GROUP = 131_072
_AGAIN = "Remove {} and run its stage again."
# Pages carry checksums, so that a changed bit is detected on reading.
WRITTEN: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
Rows: TypeAlias = pd.DataFrame | pa.Table | Mapping[str, Any]


@dataclass
class Provenance:
    """Where a table comes from, for its metadata; never a time, a machine or a duration."""

    stage: str  # instance, such as textrank@sample
    params_hash: str  # of the params that the stage depends on
    models: dict[str, Any] = field(default_factory=dict)  # name: version, checksum and so on
    counts: dict[str, Any] = field(default_factory=dict)  # of the stage, besides rows
    fallbacks: list[str] = field(default_factory=list)  # a sentence each
    precision: dict[str, Any] = field(default_factory=dict)  # of matrix products, see `computed_in`
    reason: str = ""  # why the table was left without rows

    def as_metadata(self, rows: int) -> dict[str, Any]:
        """Return the plain dictionary stored in the table."""
        return {"schema_version": SCHEMA_VERSION, "stage": self.stage, "params_hash": self.params_hash,
                "rows": rows, "models": self.models, "counts": self.counts, "fallbacks": self.fallbacks,
                "python": platform.python_version(), "pyarrow": pa.__version__,
                **({"precision": self.precision} if self.precision else {}),
                **({"reason": self.reason} if self.reason else {})}

    def of_part(self) -> "Provenance":
        """Return the provenance of all parts but the last, which are written before counts are known."""
        return replace(self, counts={}, fallbacks=[])


def as_table(schema: TableSchema, rows: Rows) -> pa.Table:
    """Return ``rows`` as an Arrow table sorted by the key of ``schema``; a ValueError names wrong columns and keys."""
    columns = [name for name, _, _ in schema.fields]
    given = list(rows.column_names if isinstance(rows, pa.Table) else rows)
    if set(given) != set(columns):
        raise ValueError(f"{schema.name}: columns {given} instead of {columns}")
    if isinstance(rows, pd.DataFrame):
        table = pa.Table.from_pandas(rows[columns], schema=schema.arrow(), preserve_index=False)
    elif isinstance(rows, pa.Table):
        table = rows.select(columns).cast(schema.arrow())
    else:
        table = pa.table({name: rows[name] for name in columns}, schema=schema.arrow())
    table = table.replace_schema_metadata(None).sort_by([(name, "ascending") for name in schema.key])
    if schema.unique and table.group_by(list(schema.key)).aggregate([]).num_rows < table.num_rows:
        raise ValueError(f"{schema.name}: key {schema.key} is not unique")
    return table


def write_table(path: Path, schema: TableSchema, rows: Rows, provenance: Provenance) -> pa.Table:
    """Write ``rows`` and return the table, sorted: a file if ``path`` ends in ``.parquet``, else a folder of parts."""
    table = as_table(schema, rows)
    if path.suffix == SUFFIX:
        with atomic_file(path) as temporary:
            write_part(temporary, schema, [table], provenance)
        return table
    with atomic_folder(path) as folder:
        *starts, last = range(0, max(table.num_rows, 1), PART_ROWS)
        for number, start in enumerate(starts):
            write_part(folder / part_name(number), schema, [table.slice(start, PART_ROWS)], provenance.of_part())
        write_part(folder / part_name(len(starts)), schema, [table.slice(last)], provenance, len(starts) + 1)
    return table


def write_part(file: Path, schema: TableSchema, tables: Iterable[pa.Table], provenance: Provenance,
               parts: int | None = None) -> None:
    """Write a file of a table with a row group for each of ``tables``, which :func:`as_table` returns.

    ``provenance`` is read after all rows are written. ``parts``, for the last part of a folder, is their number.
    """
    rows, arrow = 0, schema.arrow()
    with pq.ParquetWriter(file, arrow, **WRITTEN) as writer:
        for table in tables:
            if table.num_rows:
                writer.write_table(table.replace_schema_metadata(arrow.metadata), row_group_size=ROW_GROUP)
                rows += table.num_rows
        writer.add_key_value_metadata({
            METADATA_KEY: json.dumps(provenance.as_metadata(rows), sort_keys=True, ensure_ascii=False).encode(),
            b"description": schema.description.encode(), **({_PARTS_KEY: str(parts).encode()} if parts else {})})
    with file.open("r+b") as stream:
        start = _footer_start(stream)
        stream.seek(start)
        footer = stream.read()
        stream.seek(start)
        stream.write(_MARK + hashlib.sha256(footer).digest() + footer)


def part_name(number: int) -> str:
    """Return the file name of a part of a table."""
    return f"part-{number:05d}{SUFFIX}"


def _footer_start(stream: BinaryIO) -> int:
    """Return where the footer of a Parquet file begins; its length is written before the last four bytes."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(size - 8, 0))
    return max(size - 8 - int.from_bytes(stream.read(4), "little"), 0)


def is_table(path: Path) -> bool:
    """Return whether ``path`` is a table: a Parquet file, or a folder of parts."""
    return path.suffix == SUFFIX and path.is_file() or any(path.glob(f"part-*{SUFFIX}"))


def parts_of(path: Path) -> list[Path]:
    """Return the files of a table, in order, none of which may be missing."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such artifact. Make it with `keycontrast run`, or one stage with "
                         f"`keycontrast run NAME`.")
    if path.is_file():
        return [path]
    parts = sorted(path.glob(f"*{SUFFIX}"))
    for number, part in enumerate(parts or [path]):
        if part.name != part_name(number):
            raise InputError(f"{path / part_name(number)}: this part of the table is missing. {_AGAIN.format(path)}")
    count = table_metadata(parts[-1]).get(_PARTS_KEY, b"more").decode()
    if count != str(len(parts)):
        raise InputError(f"{path}: has {len(parts)} parts of {count}: the last ones are missing. {_AGAIN.format(path)}")
    return parts


def footers(path: Path) -> dict[Path, pq.FileMetaData]:
    """Return the footer of each file of a table, in order; an InputError names a missing or damaged file."""
    by_part: dict[Path, pq.FileMetaData] = {}
    for part in parts_of(path):
        with readable(part):
            by_part[part] = _footer(part)
            if not by_part[part].schema.equals(next(iter(by_part.values())).schema):
                raise ValueError(f"its columns are not those of {part_name(0)}")
    return by_part


def _footer(file: Path) -> pq.FileMetaData:
    with file.open("rb") as stream:
        stream.seek(max(_footer_start(stream) - len(_MARK) - _SHA256, 0))
        if stream.read(len(_MARK)) == _MARK and stream.read(_SHA256) != hashlib.sha256(stream.read()).digest():
            raise ValueError("its footer is not the one that was written")
        stream.seek(0)
        return pq.read_metadata(stream)


def read_batches(path: Path, schema: TableSchema, columns: list[str] | None = None,
                 rows: int = 8192) -> Iterator[pa.Table]:
    """Yield a table in batches of at most ``rows`` rows, in its order; errors as in :func:`read_table`."""
    check_columns(path, schema)
    for part in parts_of(path):
        # With a buffer, everything read from a file would stay in memory until its end.
        with readable(part), pq.ParquetFile(part, page_checksum_verification=True, pre_buffer=False) as file:
            missing = file.metadata.num_rows
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                missing -= batch.num_rows
                yield pa.Table.from_batches([batch])
            if missing:  # page headers have no checksum, and a damaged one may hide its page
                raise ValueError(f"{missing:,} rows are missing")


def check_columns(path: Path, schema: TableSchema, columns: list[str] | None = None) -> None:
    """Check the types of ``columns``, by default all of ``schema``, and that the table was not left without rows."""
    arrow = schema_of(path)
    for name, kind, _ in schema.fields:
        if columns is not None and name not in columns:
            continue
        if name not in arrow.names:
            raise InputError(f"{path}: column {name!r} is missing; it was written by another version. "
                             f"Run its stage again with `keycontrast run`.")
        if _without_large(arrow.field(name).type) != kind:
            raise InputError(f"{path}: column {name!r} is of type {arrow.field(name).type}, not {kind}: written by "
                             f"another version, or damaged since. {_AGAIN.format(path)}")
    metadata = read_metadata(path)
    if "reason" in metadata:
        raise InputError(f"{path}: was left without rows: {metadata['reason']}. Change that, and `keycontrast run` "
                         f"fills it.")


def schema_of(path: Path) -> pa.Schema:
    """Return the Arrow schema of a table; errors as in :func:`footers`."""
    first = next(iter(footers(path)))
    with readable(first):
        return pq.read_schema(first)


def column_names(path: Path) -> list[str]:
    """Return the names of a table's columns; errors as in :func:`footers`."""
    return list(schema_of(path).names)


def row_count(path: Path) -> int:
    """Return the number of rows of a table; errors as in :func:`footers`."""
    return sum(footer.num_rows for footer in footers(path).values())


def _without_large(kind: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets for one with 64-bit offsets, which pandas and others write."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_without_large(kind.value_type))
    return pa.string() if pa.types.is_large_string(kind) else kind


def read_table(path: Path, schema: TableSchema | None = None, columns: list[str] | None = None,
               filters: pc.Expression | None = None) -> pa.Table:
    """Read a table, or its rows that pass ``filters``, after :func:`check_columns` if there is a ``schema``."""
    if schema is not None:
        check_columns(path, schema, columns)
    with readable(path):
        return dataset_of(path).to_table(columns=columns, filter=filters)


def dataset_of(path: Path) -> ds.Dataset:
    """Return a table as a dataset that Arrow and DuckDB scan, with checksums; errors as in :func:`footers`."""
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.dataset([str(part) for part in footers(path)], schema_of(path),
                      format=ds.ParquetFileFormat(default_fragment_scan_options=options))


def check_pages(path: Path) -> None:
    """Read all of a table, so that the error names the file that is damaged."""
    for part in parts_of(path):
        with readable(part), pq.ParquetFile(part, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass


def read_frame(path: Path, schema: TableSchema | None = None, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a table as a data frame, whose lists are NumPy arrays."""
    return read_table(path, schema, columns).to_pandas()


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the provenance of a table as stored, with the rows of all parts; empty for a foreign Parquet file."""
    metadata: dict[str, Any] = json.loads(table_metadata(path).get(METADATA_KEY, b"{}"))
    return {**metadata, "rows": row_count(path)} if "rows" in metadata else metadata


def table_metadata(path: Path) -> Mapping[bytes, bytes]:
    """Return the metadata in the footer of a table's last part: description and provenance."""
    last = parts_of(path)[-1]
    with readable(last):
        return _footer(last).metadata or {}


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the errors of pyarrow on damaged bytes into one :class:`InputError` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the operating system, such as a missing permission
        if path.is_dir():
            check_pages(path)
        raise InputError(f"{path}: not a readable Parquet file, or damaged since it was written "
                         f"({' '.join(str(error).split())[:200]}). {_AGAIN.format('it')}") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` as indented JSON with sorted keys, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n",
                             encoding="utf-8")


class TableWriter:
    """Writes a table batch by batch, or from finished parts; see :func:`table_writer`."""

    def __init__(self, folder: Path, schema: TableSchema, provenance: Provenance) -> None:
        self.rows = 0  # written so far
        self._folder, self._schema, self._provenance = folder, schema, provenance
        self._parts = 0
        # Content of the last part, whose metadata are known at the end: rows, or a file.
        self._waiting = schema.arrow().empty_table()
        self._file: Path | None = None
        self._last_key: tuple[Any, ...] = ()

    def write(self, rows: Rows) -> None:
        """Add ``rows``, whose keys come after those of all earlier rows; errors as in :func:`as_table`."""
        table = as_table(self._schema, rows)
        if not table.num_rows:
            return
        self._check_order(table)
        self.rows += table.num_rows
        self._waiting = pa.concat_tables([self._waiting, table])
        while self._waiting.num_rows > PART_ROWS:
            part = self._waiting.slice(0, PART_ROWS)
            write_part(self._next_file(), self._schema, [part], self._provenance.of_part())
            self._waiting = self._waiting.slice(PART_ROWS)

    def add_part(self, file: Path) -> None:
        """Add a copy of a file that :func:`write_part` has written for this table."""
        if self._file is not None:
            shutil.copyfile(self._file, self._next_file())
        self._file = file
        self.rows += row_count(file)

    def finish(self) -> None:
        """Write the last part, whose metadata have the counts of rows and parts."""
        part = self._next_file()
        tables = [self._waiting] if self._file is None else read_batches(self._file, self._schema)
        write_part(part, self._schema, tables, self._provenance, self._parts)

    def _next_file(self) -> Path:
        self._parts += 1
        return self._folder / part_name(self._parts - 1)

    def _check_order(self, table: pa.Table) -> None:
        first, last = (tuple(table[name][place].as_py() for name in self._schema.key)
                       for place in (0, table.num_rows - 1))
        if self._last_key and not (self._last_key < first or (not self._schema.unique and self._last_key == first)):
            raise ValueError(f"{self._schema.name}: rows after {self._last_key} begin with {first}, which is not later")
        self._last_key = last


@contextmanager
def table_writer(path: Path, schema: TableSchema, provenance: Provenance) -> Iterator[TableWriter]:
    """Yield a :class:`TableWriter`; ``path`` appears if the block succeeds, with ``provenance`` as it is then."""
    with atomic_folder(path) as folder:
        writer = TableWriter(folder, schema, provenance)
        yield writer
        writer.finish()


def rounded(content: Any) -> Any:
    """Return ``content`` with every float in it rounded to six decimals."""
    if isinstance(content, Mapping):
        return {name: rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [rounded(value) for value in content]
    return round(content, 6) if isinstance(content, float) else content


def open_database(folder: Path, memory_gib: float, threads: int = 1) -> "DuckDBPyConnection":
    """Return an empty DuckDB database of at most ``memory_gib`` GiB, which spills to ``folder``."""
    import duckdb  # few stages need it

    database = duckdb.connect(config={"memory_limit": f"{max(1, round(memory_gib * 1024))}MiB", "threads": threads,
                                      "temp_directory": str(folder)})
    # DuckDB draws its bar on standard output; in a notebook without widgets it rejects even this setting.
    if database.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
        database.execute("SET enable_progress_bar = false")
    return database
