"""Any artifact, shown: what its columns mean, how much is in it, where it comes from, and its first rows."""

import csv
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.json import JSON
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stages.artifacts.schemas import SCHEMAS
from stages.artifacts.tables import METADATA_KEY
from stages.runtime.errors import InputError, nearest

# Columns that hold ids of texts, in whatever table they stand.
_TEXT_IDS = ("text_id", "source_id", "target_id", "negative_id", "reference_ids", "pair")
_CELL = 120
_LIST = 12
_SKIPPED = ".tmp", ".old"


def show(path: Path, console: Console, rows: int = 5, as_text: bool | None = None) -> None:
    """Print what ``path`` holds.

    Args:
        path: Parquet, JSON, JSONL or CSV file, or a folder of artifacts.
        console: where to print.
        rows: rows shown of a table.
        as_text: show texts in place of text ids, from ``texts.parquet`` beside the table; None does so
            if it is there.

    Raises:
        InputError: nothing is there, or it is none of these.
    """
    if not path.exists():
        beside = [item.name for item in path.parent.glob("[!.]*")] if path.parent.is_dir() else []
        raise InputError(f"{path}: not found; {nearest(path.name, beside)}")
    texts = _texts_file(path).exists() if as_text is None else as_text
    kinds: dict[str, Callable[[], None]] = {
        ".parquet": lambda: _show_table(path, console, rows, texts), ".json": lambda: _show_json(path, console),
        ".jsonl": lambda: _show_lines(path, console, rows), ".csv": lambda: _show_csv(path, console, rows)}
    if path.is_dir():
        _show_folder(path, console)
    elif path.suffix in kinds:
        kinds[path.suffix]()
    else:
        raise InputError(f"{path}: cannot show a file of kind {path.suffix or 'without ending'}; "
                         f"valid endings: {', '.join(sorted(kinds))}.")


def column_table(schema: pa.Schema, table: pa.Table) -> Table:
    """Return one row per column: name, type, nulls, meaning."""
    nulls = null_counts(table)
    shown = Table("column", "type", "nulls", "meaning", title="Columns", title_justify="left")
    for field in schema:
        meaning = (field.metadata or {}).get(b"description", b"").decode()
        shown.add_row(*map(Text, (field.name, str(field.type), f"{nulls[field.name]:,}", meaning)))
    return shown


def null_counts(table: pa.Table) -> dict[str, int]:
    """Return the number of nulls of every column, nulls inside lists included."""
    counts = {}
    for name in table.column_names:
        column = table[name]
        inner = pc.list_flatten(column).null_count if pa.types.is_list(column.type) else 0
        counts[name] = column.null_count + inner
    return counts


def texts_beside(path: Path) -> dict[int, str]:
    """Return the texts by id that the ids of table ``path`` refer to.

    Raises:
        InputError: there is no ``texts.parquet`` beside it.
    """
    texts = _texts_file(path)
    if not texts.exists():
        raise InputError(f"{texts}: not found, so text ids cannot be shown as texts. Show the ids with --ids, or make "
                         f"it with `keycontrast run`.")
    table = pq.read_table(texts, columns=["text_id", "text"])
    return dict(zip(table["text_id"].to_pylist(), table["text"].to_pylist(), strict=True))


def _texts_file(path: Path) -> Path:
    return path.with_name("texts.parquet")


def _show_table(path: Path, console: Console, rows: int, as_text: bool) -> None:
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a readable Parquet file ({error}). Remove it and run its stage "
                         f"again.") from error
    metadata = table.schema.metadata or {}
    described = metadata.get(b"description", b"").decode()
    known = SCHEMAS.get(path.stem)
    console.print(Text(f"{path}: {described}" if described else str(path), style="bold"))
    size = f"{table.num_rows:,} rows, {table.num_columns} columns, {path.stat().st_size:,} bytes"
    console.print(Text(size + (f"; key: {', '.join(known.key)}" if known else "")))
    console.print(column_table(table.schema, table))
    if METADATA_KEY in metadata:
        console.print(Text("Provenance", style="italic"))
        console.print(JSON(metadata[METADATA_KEY].decode()))
    if rows and table.num_rows:
        _show_rows(path, table.slice(0, rows), console, as_text)


def _show_rows(path: Path, head: pa.Table, console: Console, as_text: bool) -> None:
    ids = [name for name in head.column_names if name in _TEXT_IDS] if as_text and path.stem != "texts" else []
    texts = texts_beside(path) if ids else {}
    rows = [{name: _resolved(value, texts) if name in ids else value for name, value in row.items()}
            for row in head.to_pylist()]
    _print_rows(head.column_names, rows, console)


def _resolved(value: Any, texts: dict[int, str]) -> Any:
    if isinstance(value, list):
        return [texts.get(item, item) for item in value]
    return texts.get(value, value)


def _print_rows(columns: list[str], rows: list[dict[str, Any]], console: Console) -> None:
    """Print rows side by side, or below each other where the terminal is too narrow for the columns."""
    title = f"First {len(rows)} rows"
    if len(columns) * 12 <= console.width:
        shown = Table(*map(escape, columns), title=title, title_justify="left")
        for row in rows:
            shown.add_row(*(_cell(row.get(name)) for name in columns))
    else:
        shown = Table("row", "column", "value", title=title, title_justify="left")
        for number, row in enumerate(rows, 1):
            for name in columns:
                shown.add_row(str(number) if name == columns[0] else "", Text(name), _cell(row.get(name)),
                              end_section=name == columns[-1])
    console.print(shown)


def _cell(value: Any) -> Text:
    """Return a value as plain text: data may hold what looks like markup."""
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, float):
        return Text(f"{value:.6g}")
    if isinstance(value, list):
        more = f", ... ({len(value)})" if len(value) > _LIST else ""
        return Text("[" + ", ".join(str(_cell(item)) for item in value[:_LIST]) + more + "]")
    text = str(value)
    return Text(text if len(text) <= _CELL else text[:_CELL - 1] + "…")


def _show_json(path: Path, console: Console) -> None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid JSON ({error}).") from error
    console.print(JSON.from_data(content))


def _show_lines(path: Path, console: Console, rows: int) -> None:
    with path.open(encoding="utf-8") as handle:
        lines = list(islice(handle, rows))
    total = sum(1 for _ in path.open("rb"))
    console.print(Text(f"{path}: {total:,} lines", style="bold"))
    for number, line in enumerate(lines, 1):
        try:
            console.print(JSON.from_data(json.loads(line)))
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: line {number} is not valid JSON ({error}).") from error


def _show_csv(path: Path, console: Console, rows: int) -> None:
    with path.open(encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        found = list(reader)
    columns = list(reader.fieldnames or [])
    console.print(Text(f"{path}: {len(found):,} rows, {len(columns)} columns", style="bold"))
    _print_rows(columns, found[:rows], console)


def _show_folder(path: Path, console: Console) -> None:
    """Print a folder's files and, of a model, its card and its configuration."""
    shown = Table("file", "bytes", "rows", "what it is", title=Text(str(path)), title_justify="left")
    for file in sorted(path.rglob("*")):
        if file.is_file() and not (file.name.startswith(".") and file.name.endswith(_SKIPPED)):
            shown.add_row(Text(file.relative_to(path).as_posix()), f"{file.stat().st_size:,}", _rows(file),
                          Text(SCHEMAS[file.stem].description if file.stem in SCHEMAS else ""))
    console.print(shown)
    if (path / "config.json").exists():
        _show_json(path / "config.json", console)
    if (path / "README.md").exists():
        console.print(Text((path / "README.md").read_text(encoding="utf-8")))


def _rows(file: Path) -> str:
    if file.suffix != ".parquet":
        return ""
    return f"{pq.read_metadata(file).num_rows:,}"
