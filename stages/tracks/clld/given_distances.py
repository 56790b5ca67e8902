"""Label distances from a file: a matrix with the names of the classes at its head and in its first column."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from keycontrast.errors import InputError

Matrix = Sequence[Sequence[float]]


def given_distances(path: Path, classes: Sequence[str], place: str) -> Matrix:
    """Return the label distances in a file, rows and columns in the order of ``classes``.

    The distance of two classes is 1 where they are to be pushed apart as any two are, and larger where harder; that of
    a class from itself weighs its own texts, and is 1 as a rule. It need not be symmetric: the row is the class of the
    text that is compared, the column that of the other.

    Args:
        path: a table as CSV (commas, UTF-8) or Parquet; first the names of the classes, then a column for each class,
            rows and columns in any order.
        classes: of the data set.
        place: of the file in the params, for errors.

    Raises:
        InputError: there is no such file, it is no such table, a class is missing, unknown or there twice, or a
            distance is no number of 1 or more.
    """
    where = f"{place}: {path}"
    names, rows = _read(path, where)
    for what, found in (("column", names), ("row", [str(row[0]).strip() for row in rows])):
        _check_names(found, classes, what, where)
    places = {name: number for number, name in enumerate(names, 1)}
    by_class = {str(row[0]).strip(): row for row in rows}
    return [[_number(by_class[one][places[other]], f"{where}: row {one!r}, column {other!r}") for other in classes]
            for one in classes]


def _read(path: Path, where: str) -> tuple[list[str], list[list[Any]]]:
    """Return the names above the columns of distances, and the rows, each with its name first."""
    if not path.is_file():
        raise InputError(f"{where}: no such file. Put a table of the classes by the classes there, or name another.")
    try:
        if path.suffix.lower() == ".parquet":
            table = pq.read_table(path, page_checksum_verification=True)
            return table.column_names[1:], [list(row.values()) for row in table.to_pylist()]
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [(reader.line_num, row) for reader in [csv.reader(file)] for row in reader if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException) as error:
        raise InputError(f"{where}: cannot be read as {'Parquet' if path.suffix.lower() == '.parquet' else 'CSV'} "
                         f"({error}). Give a table (.csv in UTF-8, or .parquet) of the classes by the "
                         f"classes.") from error
    head = lines[0][1] if lines else []
    for number, row in lines[1:]:
        if len(row) != len(head):
            raise InputError(f"{where}: line {number} has {len(row)} cells and the first line {len(head)}. Give each "
                             f"class a row of its name and a distance for every class, with commas between.")
    return [name.strip() for name in head[1:]], [row for _, row in lines[1:]]


def _check_names(found: Sequence[str], classes: Sequence[str], what: str, where: str) -> None:
    twice = [name for number, name in enumerate(found) if name in found[:number]]
    unknown = [name for name in found if name not in classes]
    missing = [name for name in classes if name not in found]
    if twice:
        raise InputError(f"{where}: {what} {twice[0]!r} is there twice; take one of them out.")
    if missing or unknown:
        first = f"class {missing[0]!r} has no {what}" if missing else f"{what} {unknown[0]!r} is no class"
        raise InputError(f"{where}: {first}; the data set has {len(classes)} classes, {len(missing)} of them without a "
                         f"{what} there, and {len(unknown)} {what}s have other names"
                         f"{f', such as {unknown[0]!r}' if unknown and missing else ''}. Give every class one row and "
                         f"one column of its name, and nothing else.")


def _number(value: Any, where: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if not 1 <= found < float("inf"):
        raise InputError(f"{where}: {value!r} is no distance; a distance is a finite number of 1 or more (1: apart as "
                         f"any two classes are; add 1 to a matrix that begins at 0).")
    return found
