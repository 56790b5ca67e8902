"""Parquet files, batch by batch."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages.ingest.layouts.layout import BoundLayout, check_columns
from stages.ingest.reading.rows import RawRow, RowMaker
from stages.ingest.reading.text import seekable
from stages.run.errors import InputError

_BATCH = 16_384
# In words, by the kind of values of a column.
_WANTED = {"text": "text", "name": "text or whole numbers", "truth": "text or whole numbers",
           "text or texts": "text or lists of texts", "texts": "lists of texts", "numbers": "lists of numbers"}


def read_parquet(path: Path, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of a Parquet file; one inside an archive is unpacked to a temporary file first.

    Raises:
        InputError: the file cannot be read, has no rows, or a column is missing or of a type that cannot be used.
    """
    with seekable(path) as handle:
        try:
            with pq.ParquetFile(handle, page_checksum_verification=True) as file:
                schema = file.schema_arrow
                check_columns(path, schema.names, maker.layout)
                _check_types(path, schema, maker.layout)
                if file.metadata.num_rows == 0:
                    raise InputError(f"{path}: the file has no rows.")
                done = 0
                for batch in file.iter_batches(batch_size=_BATCH):
                    batch.validate(full=True)
                    yield from _rows(batch, done, maker)
                    done += batch.num_rows
        except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:   # the last of a damaged name of a column
            raise InputError(f"{path}: not a readable Parquet file ({error}). Fetch it again.") from error


def _rows(batch: pa.RecordBatch, done: int, maker: RowMaker) -> Iterator[RawRow]:
    """Yield the rows of ``batch``, before which ``done`` rows stand."""
    names = tuple(batch.schema.names)
    places = [(role, names.index(column)) for role, column in maker.layout.columns.items()]
    columns = [column.to_pylist() for column in batch.columns]
    for number, values in enumerate(zip(*columns, strict=True), start=done + 1):
        yield maker.row(number, {role: values[place] for role, place in places}, names, values)


def _check_types(path: Path, schema: pa.Schema, layout: BoundLayout) -> None:
    """Make sure that texts are text, and labels and groups single values."""
    for role, column in layout.columns.items():
        found, values = schema.field(column).type, layout.values(role)
        if not _fits(found.value_type if pa.types.is_dictionary(found) else found, values):
            raise InputError(f"{path}: column {column!r} ({role}) is of type {found}, but must be {_WANTED[values]}. "
                             f"Name another column, or write this one anew as {_WANTED[values]}.")


def _fits(kind: pa.DataType, values: str) -> bool:
    """Say whether a column of type ``kind`` may hold ``values``."""
    if pa.types.is_null(kind):  # nothing but gaps; its rows say what is missing
        return True
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = kind.value_type
        if values == "numbers":
            return pa.types.is_floating(inner) or pa.types.is_integer(inner) or pa.types.is_null(inner)
        return values in ("texts", "text or texts") and (_is_text(inner) or pa.types.is_null(inner))
    if values in ("name", "truth") and (pa.types.is_integer(kind) or pa.types.is_floating(kind)
                                        or pa.types.is_boolean(kind)):
        return True
    return values in ("text", "name", "truth", "text or texts") and _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
