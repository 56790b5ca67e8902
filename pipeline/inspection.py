"""Shows any artifact: first its rows, and on request the meaning of its columns and its provenance."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.table import Table
from rich.text import Text

from keycontrast.cells import json_text, print_rows, printable
from keycontrast.errors import InputError, nearest
from keycontrast.reading import TableForm, Words, read_table
from pipeline.records import machine_lock
from pipeline.schemas import SCHEMAS
from stages.common import tables

_BATCH = 8192
_SKIPPED = ".tmp", ".old"


def show(path: Path, console: Console, rows: int = 10, schema: bool = False) -> None:
    """Print the first rows of a file of artifacts, or the files of a folder."""
    if not path.exists():
        for stage, entry in machine_lock().items():
            if any(Path(out["path"]) in (path, *path.parents) for out in entry.get("outs", ())):
                raise InputError(f"{path}: not found. Stage {stage} makes it: `keycontrast run {stage}`, or `dvc "
                                 f"checkout {path}` brings it back.")
        path = next(part for part in (*reversed(path.parents), path) if not part.exists())
        raise InputError(f"{path}: not found; {nearest(path.name, (item.name for item in path.parent.glob('[!.]*')))}")
    if path.suffix == tables.SUFFIX or tables.is_table(path):
        with tables.readable(path):
            _show_table(path, console, rows, schema)
    elif path.is_dir():
        _show_folder(path, console)
    elif path.suffix == ".json":
        _show_json(path, console)
    elif path.suffix.lower() in (".csv", ".tsv", ".jsonl"):
        _show_lines(path, console, rows)
    else:
        raise InputError(f"{path}: cannot show a file of kind {path.suffix or 'without ending'}; valid endings: "
                         f".csv, .json, .jsonl, {tables.SUFFIX}, .tsv.")


def _show_table(path: Path, console: Console, rows: int, schema: bool) -> None:
    parts, fields, count = tables.footers(path), tables.schema_of(path), tables.row_count(path)
    if rows and count:
        head = tables.dataset_of(path).head(rows, batch_size=min(rows, _BATCH))
        columns = {name: head[name].to_pylist() for name in head.column_names}
        print_rows(list(columns), list(zip(*columns.values(), strict=True)), console, f"First {head.num_rows:,} rows")
    described = _description(path)
    # Tracks have tables of the same file name and other columns.
    known = next((table for table in SCHEMAS.values() if table.description == described), SCHEMAS.get(path.stem))
    size = f"{count:,} rows, {len(fields)} columns, {sum(part.stat().st_size for part in parts):,} bytes"
    if len(parts) > 1:
        size += f" in {len(parts)} parts"
    key = f"; key: {', '.join(known.key)}" if known else ""
    console.print(Text(printable(f"{path}: {size}{key}")), soft_wrap=True)
    if described:
        console.print(Text(described))
    provenance = json.loads(tables.table_metadata(path).get(tables.METADATA_KEY, b"{}"))
    if reason := provenance.get("reason"):
        console.print(Text(printable(f"It has no rows: {reason}.")))
    if not schema:
        return
    shown = Table("column", "type", "meaning", title="Columns", title_justify="left")
    for field in fields:
        meaning = (field.metadata or {}).get(b"description", b"").decode()
        shown.add_row(*(Text(printable(text)) for text in (field.name, str(field.type), meaning)))
    console.print(shown)
    if provenance:
        console.print(Text("Provenance", style="italic"))
        _print_json(provenance, console)


def _description(path: Path) -> str:
    return printable(tables.table_metadata(path).get(b"description", b"").decode())


def _show_json(path: Path, console: Console) -> None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}).") from error
    _print_json(content, console)


def _print_json(content: Any, console: Console) -> None:
    console.print(JSONHighlighter()(json_text(content, indent=2)), soft_wrap=True)


def _show_lines(path: Path, console: Console, rows: int) -> None:
    head, names, count = list[Mapping[str, Any]](), dict[str, None](), 0
    form = TableForm(path.suffix.lower(), words=Words(*(f"`keycontrast keywords {option}`" for option in Words())))
    for record in read_table(path, form, lambda *_: None):
        if record.values is None:
            raise InputError(f"{path}, row {record.number}: {record.problem}")
        count += 1
        names |= dict.fromkeys(record.values)
        if len(head) < rows:
            head.append(record.values)
    print_rows(list(names), [[row.get(name) for name in names] for row in head], console,
               f"First {len(head):,} of {count:,} rows")


def _show_folder(path: Path, console: Console) -> None:
    """Print a folder's files and, of a model, its card and its configuration."""
    shown = Table("file", "bytes", "rows", "what it is", title=Text(printable(str(path))), title_justify="left")
    for file in sorted(path.rglob("*")):
        if file.is_file() and not (file.name.startswith(".") and file.name.endswith(_SKIPPED)):
            count = about = ""
            if file.suffix == tables.SUFFIX:
                try:
                    count, about = f"{tables.row_count(file):,}", _description(file)
                except InputError as error:   # of one file; the others are shown
                    about = printable(str(error))
            shown.add_row(Text(printable(file.relative_to(path).as_posix())), f"{file.stat().st_size:,}", count,
                          Text(about))
    console.print(shown)
    if (path / "config.json").exists():
        _show_json(path / "config.json", console)
    if (path / "README.md").exists():
        console.print(Text(printable((path / "README.md").read_text("utf-8", "replace"), keep="\n")))
