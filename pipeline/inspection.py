"""Any artifact, shown: what its columns mean, how much is in it, where it comes from, and its first rows."""

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.json import JSON
from rich.table import Table
from rich.text import Text

from keycontrast.cells import print_rows, printable
from keycontrast.errors import InputError, nearest
from pipeline.records import machine_lock
from pipeline.schemas import SCHEMAS
from stages.common import tables

# Columns that hold ids of texts, in whatever table they stand.
_TEXT_IDS = ("text_id", "source_id", "target_id", "negative_id", "reference_ids", "pair")
_BATCH = 8192
_SKIPPED = ".tmp", ".old"


def show(path: Path, console: Console, rows: int = 5, as_text: bool | None = None) -> None:
    """Print what ``path`` holds, with texts in place of text ids; by default where table ``texts`` is beside it.

    Raises:
        InputError: nothing is there, or no file or folder of artifacts.
    """
    if not path.exists():
        for stage, entry in machine_lock().items():
            if any(Path(out["path"]) in (path, *path.parents) for out in entry.get("outs", ())):
                raise InputError(f"{path}: not found. Stage {stage} makes it: `keycontrast stage {stage}`, or `dvc "
                                 f"checkout {path}` brings it back.")
        raise InputError(f"{path}: not found; {nearest(path.name, (item.name for item in path.parent.glob('[!.]*')))}")
    texts = _texts_file(path).exists() if as_text is None else as_text
    if path.suffix == tables.SUFFIX or tables.is_table(path):
        _show_table(path, console, rows, texts)
    elif path.is_dir():
        _show_folder(path, console)
    elif path.suffix == ".json":
        _show_json(path, console)
    elif path.suffix == ".jsonl":
        _show_lines(path, console, rows)
    elif path.suffix == ".csv":
        _show_csv(path, console, rows)
    else:
        raise InputError(f"{path}: cannot show a file of kind {path.suffix or 'without ending'}; valid endings: "
                         f".csv, .json, .jsonl, {tables.SUFFIX}.")


def _texts_beside(path: Path, text_ids: Iterable[Any]) -> dict[int, str]:
    """Return the texts of ``text_ids``, which may be None, to which the ids of table ``path`` refer.

    Raises:
        InputError: there is no table ``texts`` beside it.
    """
    texts = _texts_file(path)
    if not texts.exists():
        raise InputError(f"{texts}: not found, so text ids cannot be shown as texts. Show the ids with --ids, or make "
                         f"it with `keycontrast run`.")
    wanted = pc.field("text_id").isin(pa.array({item for item in text_ids if isinstance(item, int)}, pa.int64()))
    table = tables.read_table(texts, columns=["text_id", "text"], filters=wanted)
    return dict(zip(table["text_id"].to_pylist(), table["text"].to_pylist(), strict=True))


def _texts_file(path: Path) -> Path:
    """Return the texts of the data set, in whose folder, or in one of its folders, a table lies."""
    return next((found for folder in list(path.parents)[:2] if (found := folder / "items" / "texts").exists()),
                path.with_name("texts"))


def _show_table(path: Path, console: Console, rows: int, as_text: bool) -> None:
    with tables.readable(path):
        parts, metadata, fields = tables.footers(path), tables.table_metadata(path), tables.schema_of(path)
        count = tables.row_count(path)
        described = _description(path)
        # Tracks have tables of the same file name and other columns.
        known = next((schema for schema in SCHEMAS.values() if schema.description == described),
                     SCHEMAS.get(path.stem))
        console.print(Text(f"{path}: {described}" if described else str(path), style="bold"))
        size = f"{count:,} rows, {len(fields)} columns, {sum(part.stat().st_size for part in parts):,} bytes"
        if len(parts) > 1:
            size += f" in {len(parts)} parts"
        console.print(Text(size + (f"; key: {', '.join(known.key)}" if known else "")))
        shown = Table("column", "type", "meaning", title="Columns", title_justify="left")
        for field in fields:
            meaning = (field.metadata or {}).get(b"description", b"").decode()
            shown.add_row(*(Text(printable(text)) for text in (field.name, str(field.type), meaning)))
        console.print(shown)
        if tables.METADATA_KEY in metadata:
            console.print(Text("Provenance", style="italic"))
            console.print(JSON(metadata[tables.METADATA_KEY].decode()))
            if reason := json.loads(metadata[tables.METADATA_KEY]).get("reason"):
                console.print(Text(printable(f"Left without rows: {reason}.")))
        if rows and count:
            _show_rows(path, tables.dataset_of(path).head(rows, batch_size=min(rows, _BATCH)), console, as_text)


def _description(path: Path) -> str:
    """Return what a table says that it is."""
    return printable(tables.table_metadata(path).get(b"description", b"").decode())


def _show_rows(path: Path, head: pa.Table, console: Console, as_text: bool) -> None:
    columns = {name: head[name].to_pylist() for name in head.column_names}
    if as_text and path.stem != "texts" and (ids := [name for name in columns if name in _TEXT_IDS]):
        texts = _texts_beside(path, [item for name in ids for value in columns[name]
                                     for item in (value if isinstance(value, list) else [value])])
        for name in ids:
            columns[name] = [[texts.get(item, item) for item in value] if isinstance(value, list)
                             else texts.get(value, value) for value in columns[name]]
    print_rows(list(columns), list(zip(*columns.values(), strict=True)), console, f"First {head.num_rows:,} rows")


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
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    console.print(Text(f"{path}: {len(frame):,} rows, {frame.shape[1]} columns", style="bold"))
    head = frame.head(rows).to_numpy().tolist()
    print_rows(list(frame), head, console, f"First {len(head):,} rows")


def _show_folder(path: Path, console: Console) -> None:
    """Print a folder's files and, of a model, its card and its configuration."""
    shown = Table("file", "bytes", "rows", "what it is", title=Text(str(path)), title_justify="left")
    for file in sorted(path.rglob("*")):
        if file.is_file() and not (file.name.startswith(".") and file.name.endswith(_SKIPPED)):
            table = file.suffix == tables.SUFFIX
            shown.add_row(Text(file.relative_to(path).as_posix()), f"{file.stat().st_size:,}",
                          f"{tables.row_count(file):,}" if table else "", Text(_description(file) if table else ""))
    console.print(shown)
    if (path / "config.json").exists():
        _show_json(path / "config.json", console)
    if (path / "README.md").exists():
        console.print(Text(printable((path / "README.md").read_text(encoding="utf-8"), keep="\n")))
