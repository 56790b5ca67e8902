"""Rows of CSV, JSONL and Parquet files, each with its place, broken ones included."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from stages.params.data import Dataset
from stages.runtime.errors import InputError, nearest

_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as it was found.

    Attributes:
        file: name of the file inside the data set's folder.
        row: 1-based number; the header of a CSV file is not counted, empty lines are.
        content: values by column, or the line itself where it could not be parsed.
        problem: why the row could not be parsed, ``category: detail``; empty if it could.
    """

    file: str
    row: int
    content: Mapping[str, Any] | str
    problem: str = ""


def read_rows(dataset: Dataset) -> Iterator[RawRow]:
    """Yield the rows of all files of ``dataset``, file after file in the order of ``data_files``.

    Raises:
        InputError: a file is missing, empty, unreadable as a whole or lacks a column.
    """
    for name, path in data_files(dataset):
        yield from _READERS[path.suffix.lower()](name, path, needed_columns(dataset))


def data_files(dataset: Dataset) -> list[tuple[str, Path]]:
    """Return name and path of each file, in the order of ``dataset.files``, sorted within a pattern.

    Raises:
        InputError: the source or a file is missing, a pattern matches nothing, or a type is not known.
    """
    source = Path(dataset.source)
    if not source.exists():
        raise InputError(f"{source}: no such file or folder. Correct the data set's `source` in the params"
                         f"{_similar(source)}")
    if source.is_file():
        if dataset.files:
            raise InputError(f"{source} is a file, so `files` must be empty; or name its folder as `source`.")
        found = [(source.name, source)]
    else:
        found = _inside(source, dataset.files)
    for _, path in found:
        if path.suffix.lower() not in _READERS:
            raise InputError(f"{path}: files of type {path.suffix!r} cannot be read; {nearest(path.suffix, _READERS)}")
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty. Remove it from `files`, or fetch it again.")
    return found


def needed_columns(dataset: Dataset) -> dict[str, str]:
    """Return the column that holds each role: ``source``, ``target``, and ``negative`` or ``label`` if used."""
    roles = {"source": dataset.columns.source, "target": dataset.columns.target}
    extra = "negative" if dataset.layout == "triples" else "label"
    column = getattr(dataset.columns, extra)
    return roles | ({extra: column} if column is not None else {})


def _inside(folder: Path, patterns: list[str]) -> list[tuple[str, Path]]:
    found: dict[str, Path] = {}
    for pattern in patterns or [f"*{suffix}" for suffix in _READERS]:
        if Path(pattern).is_absolute():
            raise InputError(f"files: {pattern!r} must be a name or pattern inside {folder}.")
        literal = folder / pattern
        paths = [literal] if literal.is_file() else sorted(p for p in folder.glob(pattern) if p.is_file())
        if not paths and patterns:
            names = [p.name for p in folder.iterdir() if p.is_file()]
            raise InputError(f"{literal}: no such file; {nearest(pattern, names)}")
        found |= {path.relative_to(folder).as_posix(): path for path in paths}
    if not found:
        raise InputError(f"{folder}: holds no {', '.join(_READERS)} file.")
    return list(found.items())


def _similar(path: Path) -> str:
    if not path.parent.is_dir():
        return "."
    return f"; {nearest(path.name, [other.name for other in path.parent.iterdir()])}"


def _read_csv(name: str, path: Path, needed: Mapping[str, str]) -> Iterator[RawRow]:
    """Yield the records of a comma-separated file with a header, quoted as in RFC 4180."""
    _refuse_wide(path)
    # Undecodable bytes survive as lone surrogates, so that one bad row does not hide the others.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        records = _csv_records(path, handle)
        header = next(records, (0, [], ""))[1]
        _check_columns(path, header, needed)
        number = 0
        for number, record, problem in records:
            if problem:
                yield RawRow(name, number, _printable(",".join(record)), problem)
            elif len(record) != len(header):
                yield RawRow(name, number, _printable(",".join(record)),
                             f"broken line: {len(record)} fields instead of {len(header)}")
            elif not is_unicode("".join(record)):
                yield RawRow(name, number, _printable(",".join(record)), "encoding: not valid UTF-8")
            else:
                yield RawRow(name, number, dict(zip(header, record, strict=True)))
    if number == 0:
        raise InputError(f"{path}: the file has a header but no rows.")


def _csv_records(path: Path, handle: TextIO) -> Iterator[tuple[int, list[str], str]]:
    """Yield number (0 for the header), fields and problem of each record that is not an empty line.

    A broken record over several lines is an error of the file: an unclosed quotation mark may have
    swallowed any number of good rows.
    """
    lines: list[str] = []

    def remembered() -> Iterator[str]:
        for line in handle:
            lines.append(line)
            yield line

    reader, number, width, first = csv.reader(remembered(), strict=True), -1, 0, 1
    while True:
        lines.clear()
        record: list[str] | None = None
        problem = ""
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = f"broken line: {error}"
        number += 1
        width = width or len(record or [])
        if len(lines) > 1 and (problem or len(record or []) != width):
            raise InputError(f"{path}: lines {first} to {first + len(lines) - 1}: a quotation mark is not closed "
                             f"as it should be. Double the quotation marks inside fields.")
        first += len(lines)
        if problem or record:
            yield number, record if record is not None else ["".join(lines).rstrip("\r\n")], problem


def _read_jsonl(name: str, path: Path, needed: Mapping[str, str]) -> Iterator[RawRow]:
    """Yield the objects of a file with one JSON object per line."""
    _refuse_wide(path)
    seen: set[str] = set()
    objects = rows = 0
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            rows += 1
            row = _json_row(name, number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
            if isinstance(row.content, Mapping):
                objects += 1
                seen |= row.content.keys()
            yield row
    if not rows:
        raise InputError(f"{path}: the file has no rows.")
    if objects:
        # Objects may leave fields out; a column that none of them has is a wrong name.
        _check_columns(path, sorted(seen), needed)


def _json_row(name: str, number: int, line: bytes) -> RawRow:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        return RawRow(name, number, line.decode("utf-8", "backslashreplace").strip(),
                      f"encoding: not valid UTF-8 at byte {error.start + 1}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return RawRow(name, number, text, f"broken line: not valid JSON ({error})")
    if not isinstance(content, dict):
        return RawRow(name, number, text, "broken line: not a JSON object")
    return RawRow(name, number, content)


def _read_parquet(name: str, path: Path, needed: Mapping[str, str]) -> Iterator[RawRow]:
    """Yield the rows of a Parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names, needed)
            if file.metadata.num_rows == 0:
                raise InputError(f"{path}: the file has no rows.")
            done = 0
            for batch in file.iter_batches(batch_size=16_384):
                batch.validate(full=True)
                for number, content in enumerate(batch.to_pylist(), start=done + 1):
                    yield RawRow(name, number, content)
                done += batch.num_rows
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a readable Parquet file ({error}). Fetch it again.") from error


def _check_columns(path: Path, names: Iterable[str], needed: Mapping[str, str]) -> None:
    names = list(names)
    for role, column in needed.items():
        if column not in names:
            raise InputError(f"{path}: no column {column!r} (columns.{role} in the params); {nearest(column, names)}")
        if names.count(column) > 1:
            raise InputError(f"{path}: column {column!r} occurs {names.count(column)} times in the header.")


def _refuse_wide(path: Path) -> None:
    with path.open("rb") as handle:
        if handle.read(2) in _WIDE_MARKS:
            raise InputError(f"{path}: the file is UTF-16. Save it as UTF-8.")


def is_unicode(text: str) -> bool:
    """Say whether ``text`` can be written as UTF-8, that is, holds no lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _printable(text: str) -> str:
    """Return ``text`` with undecodable bytes spelt out."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


_READERS: dict[str, Callable[[str, Path, Mapping[str, str]], Iterator[RawRow]]] = {
    ".csv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}
