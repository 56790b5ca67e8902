"""Parquet tables that are written whole or not at all, the same bytes for the same content."""

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from stages.common.parts import listed, parts_of
from stages.common.schemas import SCHEMA_VERSION, TableSchema

METADATA_KEY = b"keycontrast"
_DIGEST_KEY = b"keycontrast.sha256"
ROW_GROUP = 131_072
# How every table is written; pages with checksums, so that a bit that has turned over is told when they are read.
WRITTEN: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}


@dataclass
class Provenance:
    """What a table's metadata says of its making; never a time, a machine or a duration.

    Attributes:
        stage: stage instance, such as ``textrank@sample``.
        params_hash: hash of the params that the stage depends on.
        models: name of each model used and its description (version, checksum).
        counts: whatever the stage counted besides rows.
        fallbacks: sentences, one per fall-back taken.
        precision: of matrix products, see :func:`stages.common.precision.computed_in`; empty where there are none.
        reason: why a table was left without rows; empty for all others.
    """

    stage: str
    params_hash: str
    models: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    fallbacks: list[str] = field(default_factory=list)
    precision: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def as_metadata(self, rows: int) -> dict[str, Any]:
        """Return the plain dictionary stored in the table."""
        return {"schema_version": SCHEMA_VERSION, "stage": self.stage, "params_hash": self.params_hash,
                "rows": rows, "models": self.models, "counts": self.counts, "fallbacks": self.fallbacks,
                "python": platform.python_version(), "pyarrow": version("pyarrow"),
                **({"precision": self.precision} if self.precision else {}),
                **({"reason": self.reason} if self.reason else {})}


def as_table(schema: TableSchema, rows: pd.DataFrame | pa.Table | Mapping[str, Any]) -> pa.Table:
    """Return ``rows`` as an Arrow table of ``schema``, sorted by its key and checked.

    Raises:
        ValueError: missing or surplus columns, wrong types, or a key that is not unique.
    """
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
    _check_unique(table, schema)
    return table


def _check_unique(table: pa.Table, schema: TableSchema) -> None:
    if not schema.unique or table.num_rows < 2:
        return
    keys = [table[name].combine_chunks() for name in schema.key]
    same = None
    for key in keys:
        equal = pc.equal(key[1:], key[:-1])
        same = equal if same is None else pc.and_(same, equal)
    if pc.any(same).as_py():
        raise ValueError(f"{schema.name}: key {schema.key} is not unique")


def write_table(path: Path, schema: TableSchema, rows: pd.DataFrame | pa.Table | Mapping[str, Any],
                provenance: Provenance) -> pa.Table:
    """Write ``rows`` as a table of ``schema`` to ``path``: sorted, checked, zstd, whole or not at all.

    Returns:
        The table as written.
    """
    table = as_table(schema, rows)
    table = table.replace_schema_metadata(stored_metadata(schema.description, provenance.as_metadata(table.num_rows)))
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary, row_group_size=ROW_GROUP, **WRITTEN)
    return table


def stored_metadata(description: str, metadata: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return what a table's file keeps of its making, with a digest, since pages alone have checksums."""
    found = {METADATA_KEY: json.dumps(metadata, sort_keys=True, ensure_ascii=False).encode(),
             b"description": description.encode()}
    return {**found, _DIGEST_KEY: _digest(found)}


def _digest(stored: Mapping[bytes, bytes]) -> bytes:
    parts = b"\0".join(stored.get(key, b"") for key in (METADATA_KEY, b"description"))
    return hashlib.sha256(parts).hexdigest().encode()


def read_batches(path: Path, schema: TableSchema, columns: list[str] | None = None,
                 rows: int = 8192) -> Iterator[pa.Table]:
    """Yield a table in pieces of at most ``rows`` rows, in its order; errors as in :func:`read_table`.

    Raises:
        InputError: the file is missing, is not Parquet, or lacks columns.
    """
    check_columns(path, schema)
    with readable(path):
        for part in parts_of(path):
            yield from part.batches(columns, rows)


def check_columns(path: Path, schema: TableSchema, columns: list[str] | None = None) -> None:
    """Check that ``path`` is a table with the columns of ``schema`` (or these of them), from its metadata alone.

    Raises:
        InputError: the file is missing, is not Parquet, lacks columns, has columns of other types, or was left without
            rows for a reason that its metadata give.
    """
    require_table(path)
    with readable(path):
        parts = parts_of(path)
        with parts[0].opened() as file:  # of one writer, who gives all parts the same columns
            found = file.schema_arrow
    for name, kind, _ in schema.fields:
        if columns is not None and name not in columns:
            continue
        if name not in found.names:
            raise InputError(f"{path}: column {name!r} is missing; it was written by another version. "
                             f"Run its stage again with `keycontrast run`.")
        if _without_large(found.field(name).type) != kind:
            raise InputError(f"{path}: column {name!r} is of type {found.field(name).type}, not {kind}: written by "
                             f"another version, or damaged since. Remove it and run its stage again.")
    rows = sum(part.rows for part in parts)
    metadata = read_metadata(path)
    if "reason" in metadata:
        raise InputError(f"{path}: was left without rows: {metadata['reason']}. Change that, and `keycontrast run` "
                         f"fills it.")
    if metadata.get("rows", rows) != rows:
        raise InputError(f"{path}: has {rows:,} rows, and its metadata count others: damaged since it was "
                         f"written. Remove it and run its stage again.")


def require_table(path: Path) -> None:
    """Check that a table is there, whatever it is made of.

    Raises:
        InputError: nothing has that name.
    """
    if not Path(path).exists():
        raise InputError(f"{path}: no such artifact. Make it with `keycontrast run`, or one stage with "
                         f"`keycontrast stage NAME`.")


def column_names(path: Path) -> list[str]:
    """Return the names of a table's columns.

    Raises:
        InputError: it is missing or damaged.
    """
    require_table(path)
    with readable(path), parts_of(path)[0].opened() as file:
        return list(file.schema_arrow.names)


def row_count(path: Path) -> int:
    """Return the rows of a table, from footers or from its list of parts.

    Raises:
        InputError: it is damaged.
    """
    with readable(path):
        return sum(part.rows for part in parts_of(path))


def _without_large(kind: pa.DataType) -> pa.DataType:
    """Return a type with 32-bit offsets for one with 64, as pandas and others write the same texts and lists."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_without_large(kind.value_type))
    return pa.string() if pa.types.is_large_string(kind) else kind


def read_table(path: Path, schema: TableSchema | None = None, columns: list[str] | None = None,
               filters: pc.Expression | None = None) -> pa.Table:
    """Read a table, or the rows of it that ``filters`` take; with ``schema``, check the columns that are read.

    Raises:
        InputError: the file is missing, is not Parquet, lacks columns, or has columns of other types.
    """
    path = Path(path)
    require_table(path)
    with readable(path):
        table = pa.concat_tables([pq.read_table(part.place, columns=columns, filters=filters,
                                                page_checksum_verification=True) for part in parts_of(path)])
    if schema is not None:
        check_columns(path, schema, columns)
    return table


def dataset_of(path: Path) -> ds.Dataset:
    """Return a table as what Arrow and DuckDB scan, column by column and batch by batch.

    Raises:
        InputError: the list of its parts is damaged, or where they lie cannot be read.
        pyarrow.ArrowInvalid: a file is no Parquet.
    """
    return ds.dataset([part.place for part in parts_of(path)], format="parquet")


def read_frame(path: Path, schema: TableSchema | None = None, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a table as a data frame (lists become NumPy arrays)."""
    return read_table(path, schema, columns).to_pandas()


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata that :func:`write_table` stored; empty for a foreign Parquet file.

    Raises:
        InputError: the file is damaged.
    """
    with readable(path):
        stored = table_metadata(path)
        if stored.get(_DIGEST_KEY, _digest(stored)) != _digest(stored):
            raise ValueError("its metadata are not those that were written")
        found: dict[str, Any] = json.loads(stored.get(METADATA_KEY, b"{}"))
    return found


def table_metadata(path: Path) -> Mapping[bytes, bytes]:
    """Return what the footer of a single file keeps, or the list of a table's parts: description and making."""
    found = listed(path)
    return (pq.read_metadata(path).metadata or {}) if found is None else found.metadata


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what is wrong with a Parquet file's bytes, which pyarrow says in many ways, into one error that names it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system: no permission, say
        raise InputError(f"{path}: not a readable Parquet file, or damaged since it was written "
                         f"({' '.join(str(error).split())[:200]}). Remove it and run its stage again.") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` as indented JSON with sorted keys, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n",
                             encoding="utf-8")
