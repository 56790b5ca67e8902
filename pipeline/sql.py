"""SQL over the artifacts: each Parquet, CSV and JSON file is a view, and nothing can be changed.

    artifacts/data/sample/keywords       sample.keywords, or keywords where that is unambiguous
    artifacts/data/sample/metrics/graph.json     sample.metrics_graph
    artifacts/models/hcl/13/history.csv               models_hcl.history, or models_hcl_13.history if it has more seeds
    artifacts/runs/hcl-no-graph/13/scores.parquet     runs_hcl_no_graph.scores
    artifacts/predictions/hcl/13/predictions.parquet  runs_hcl.predictions

DuckDB reads the files as Arrow datasets that we open, column by column and batch by batch, and is then shut off
from every file: refusing statements by their kind would not do, because a SELECT may hold a COPY.
"""

import csv
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TextIO

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.text import Text

from keycontrast.cells import no_formula, print_rows, printable
from keycontrast.errors import InputError, nearest
from keycontrast.reading import is_unicode
from pipeline.datasets import in_force
from stages.common.paths import ARTIFACTS, DATA
from stages.common.tables import SUFFIX, check_pages, dataset_of, is_table, read_metadata
from stages.run.log import logger

SHOWN = 40
# Endings of tables of one file; a folder of parts has none.
_KINDS = (SUFFIX, ".csv", ".json", ".jsonl")
_BATCH = 1024
_MADE_BY = "Make artifacts with `keycontrast run`."
# A folder with this file is a saved model: what else it holds is no table.
_MODEL = "config.json"
_OTHER = ("report",)
# Folders of models, runs and probes, and those whose files stand among the views of these.
_GROUPS = ("models", "runs", "probes")
_AMONG = {"predictions": "runs", "confusing_pairs": "models"}
# Folders of a data set that hold tables; their views are called by the table alone.
_TABLES = ("items", "graph", "vectors")
# Schemas that DuckDB has already.
_TAKEN = ("main", "temp", "system", "pg_catalog", "information_schema")
_log = logger("sql")


@dataclass(frozen=True)
class Catalog:
    """Files by schema and view."""

    schemas: dict[str, dict[str, Path]]     # of each data set, model and run, its views and their files
    datasets: dict[str, str]    # the schema of each data set

    def short_names(self, dataset: str | None = None) -> dict[str, str]:
        """Return the views that need no schema, and the schema of each.

        A view of ``dataset``, or of the only data set in force that has one of that name, or else of the only one;
        if none has, of the only model or run that has one.
        """
        if dataset is not None and dataset not in self.datasets:
            raise InputError(f"--dataset {dataset}: no artifacts of that data set; {nearest(dataset, self.datasets)}")
        wanted = {self.datasets[dataset]} if dataset is not None else set()
        in_params = {self.datasets[name] for name in in_force(list(self.datasets))}
        found = {}
        for view in {view: None for views in self.schemas.values() for view in views}:
            owners = [schema for schema, views in self.schemas.items() if view in views]
            for preferred in (wanted, in_params, set(self.datasets.values()), set(owners)):
                if candidates := [schema for schema in owners if schema in preferred]:
                    if len(candidates) == 1:
                        found[view] = candidates[0]
                    break
        return found


def catalog(root: Path = ARTIFACTS) -> Catalog:
    """Return what lies below ``root``, in sorted order; hidden and unfinished files are left out."""
    folders: dict[tuple[str, ...], dict[str, Path]] = {}
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        inner = path.relative_to(root).parts
        if (path.suffix in _KINDS and path.is_file() or is_table(path)) and not _is_left_out(path, inner):
            folder, rest = _home(inner)
            views = folders.setdefault(folder, {})
            views[_free(_name((*rest[:-1], path.stem)), views)] = path
    if not folders:
        raise InputError(f"{root}: no artifacts to query. {_MADE_BY}")
    schemas: dict[str, dict[str, Path]] = {}
    datasets = {}
    seeds = Counter(folder[:-1] for folder in folders if len(folder) > 1 and folder[-1].isdigit())
    for folder, views in folders.items():
        # Models and runs of one seed are called without it.
        lone = seeds[folder[:-1]] == 1 and folder[-1].isdigit()
        schema = _free(_name(folder[:-1] if lone else folder) or root.name, [*schemas, *_TAKEN])
        schemas[schema] = views
        if len(folder) == 1 and any(map(is_table, views.values())):
            datasets[folder[0]] = schema
    return Catalog(schemas, datasets)


def _home(inner: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]]:
    """Return whose a file is, a data set or the seed of a model or run, say, and its place in there."""
    if inner[0] == DATA.name and len(inner) > 2:
        return tuple(inner[1:2]), [part for part in inner[2:] if part not in _TABLES]
    names = (_AMONG.get(inner[0], inner[0]), *inner[1:])
    depth = min(2 if names[0] in _GROUPS else 1, len(names) - 1)
    depth += len(names) > depth + 1 and names[depth].isdigit()     # a folder per seed
    return names[:depth], names[depth:]


def _is_left_out(path: Path, inner: Sequence[str]) -> bool:
    return (inner[0] in _OTHER or any(part.startswith(".") for part in inner)
            or (path.parent / _MODEL).exists() or is_table(path.parent))


def _name(parts: Sequence[str]) -> str:
    """Return a name for SQL, where a hyphen would be a minus."""
    return re.sub(r"\W+", "_", "_".join(parts))


def _free(name: str, taken: Collection[str]) -> str:
    """Return ``name``, with an underscore for each time that it is taken; DuckDB does not tell case."""
    lower = {other.lower() for other in taken}
    while name.lower() in lower:
        name += "_"
    return name


def single_file(path: Path) -> Catalog:
    """Return a catalog of one file, the view ``artifact``."""
    if not path.is_file() and not is_table(path):
        beside = [item.name for item in path.parent.glob("[!.]*")] if path.parent.is_dir() else []
        raise InputError(f"{path}: no such file; {nearest(path.name, beside)}")
    if path.suffix not in _KINDS and not is_table(path):
        raise InputError(f"{path}: cannot query a file of kind {path.suffix or 'without ending'}; "
                         f"valid endings: {', '.join(sorted(_KINDS))}.")
    return Catalog({"file": {"artifact": path}}, {"file": "file"})


def quoted(name: str) -> str:
    """Return ``name`` as an SQL identifier, in quotes only if it needs them."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return ``text`` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Answer:
    """Column names, without repeats, rows as they are read, and what is scanned, of which DuckDB keeps no hold."""

    columns: list[str]
    rows: Iterator[tuple[Any, ...]]
    scanned: list[ds.Dataset | pa.Table]


def run(sql: str, path: Path | None, dataset: str | None, form: Literal["table", "csv", "json"], rows: int | None,
        console: Console) -> None:
    """Answer a query of all artifacts, or of the file or folder ``path``, on standard output."""
    files = catalog() if path is None else catalog(path) if path.is_dir() and not is_table(path) else single_file(path)
    with answer(sql, files, dataset) as found:
        if form == "csv":
            write_csv(found, sys.stdout, rows)
        elif form == "json":
            write_json(found, sys.stdout, rows)
        else:
            print_answer(found, console, rows)


@contextmanager
def answer(sql: str, files: Catalog, dataset: str | None = None) -> Iterator[Answer]:
    """Yield the answer to one query that reads ``files``; the views of ``dataset`` need no schema."""
    with TemporaryDirectory(prefix="keycontrast-sql-") as spill, duckdb.connect(":memory:") as connection:
        connection.execute("SET enable_progress_bar = false")   # it would stand in the answer
        try:
            _check_statement(sql)
            scanned = _make_views(connection, files, dataset, sql)
            # Shut off from files (but the folder for joins beyond memory), our variables and new settings.
            connection.execute(f"SET temp_directory = {literal(spill)}; SET python_enable_replacements = false; "
                               "SET enable_external_access = false; SET lock_configuration = true")
            result = connection.execute(sql)
            names = [column[0] for column in result.description or []]
            columns = [f"{name}_{before}" if (before := names[:place].count(name)) else name
                       for place, name in enumerate(names)]
            batches = iter(lambda: result.fetchmany(_BATCH), [])
            yield Answer(columns, (row for batch in batches for row in batch), scanned)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if "Arrow" in str(error):   # of reading, not of the statement
                for view, path in (item for views in files.schemas.values() for item in views.items()):
                    if is_table(path) and _names(sql, view):
                        check_pages(path)
            more = ("\n`show all tables` lists all views." if isinstance(error, duckdb.CatalogException) else
                    "\nArtifacts are views; no file can be used by its path."
                    if isinstance(error, duckdb.PermissionException) else "")
            raise InputError(f"--sql: {error}{more}") from error


def _check_statement(sql: str) -> None:
    if not is_unicode(sql) or "\0" in sql:
        raise InputError(f"--sql: not valid in the encoding of this terminal: {sql}")
    kinds = [statement.type.name for statement in duckdb.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] not in ("SELECT", "EXPLAIN"):
        found = " and ".join(kinds) or "none"
        raise InputError(f"--sql takes one statement that reads (SELECT, WITH, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN), "
                         f"found {found}. Artifacts are changed by stages only.")


def _make_views(connection: duckdb.DuckDBPyConnection, files: Catalog, dataset: str | None, sql: str) -> list[Any]:
    """Make a view of every file that can be read, and return what the views scan.

    Of a table that was left without rows, and whose name stands in the query, it is said why.
    """
    scanned, made = [], set()
    for schema, views in files.schemas.items():
        connection.execute(f"CREATE SCHEMA {quoted(schema)}; SET schema = {literal(quoted(schema))}")
        for view, path in views.items():
            content = _arrow(path, _names(sql, view))
            if content is not None and content.schema.names:
                connection.from_arrow(content).create_view(view)
                scanned.append(content)
                made.add((schema, view))
                reason = read_metadata(path).get("reason") if is_table(path) else None
                if reason and _names(sql, view):
                    _log.warning("%s was left without rows: %s", path, reason)
    connection.execute("SET schema = 'main'")
    for view, schema in files.short_names(dataset).items():
        if (schema, view) in made:
            connection.execute(f"CREATE VIEW {quoted(view)} AS FROM {quoted(schema)}.{quoted(view)}")
    return scanned


def _names(sql: str, view: str) -> bool:
    return re.search(rf"\b{re.escape(view)}\b", sql, re.IGNORECASE) is not None


def _arrow(path: Path, asked: bool) -> ds.Dataset | pa.Table | None:
    """Return a file as something that Arrow scans (JSON, which is small here, as a table); None if it is broken."""
    try:
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            return pa.Table.from_pylist(content if isinstance(content, list) else [content])
        if is_table(path):
            return dataset_of(path)
        return ds.dataset(path, format="json" if path.suffix == ".jsonl" else path.suffix[1:])
    except (InputError, pa.ArrowInvalid, pa.ArrowTypeError, json.JSONDecodeError, UnicodeDecodeError,
            AttributeError) as error:
        if asked and isinstance(error, InputError):
            raise
        # One broken file should not keep all others from being queried.
        _log.warning("%s: left out, not a readable %s file (%s)", path, path.suffix[1:] or "Parquet", error)
        return None


def print_answer(found: Answer, console: Console, limit: int | None = None) -> None:
    """Print the answer as a table of at most ``limit`` rows (40 if None), and say where it was cut."""
    limit = SHOWN if limit is None else limit
    rows = list(islice(found.rows, limit))
    if found.columns == ["explain_key", "explain_value"]:
        for _, plan in rows:
            console.print(Text(printable(plan, keep="\n")), soft_wrap=True)
        return
    cut = next(found.rows, None) is not None
    count = f"{len(rows):,} row{'s' * (len(rows) != 1)}"
    print_rows(found.columns, rows, console, f"First {count}" if cut else count)
    if cut:
        console.print(Text(f"There are more; --rows {2 * limit or SHOWN} shows more, --csv or --json all."))


def write_csv(found: Answer, stream: TextIO, limit: int | None = None) -> None:
    """Write the answer as CSV, lists and structures as JSON, nulls as nothing, and no text as a formula."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(no_formula, found.columns))
    for row in _limited(found.rows, limit):
        writer.writerow([json.dumps(plain(value), ensure_ascii=False) if isinstance(value, dict | list | tuple)
                         else no_formula(value) if isinstance(value, str) else value for value in row])


def write_json(found: Answer, stream: TextIO, limit: int | None = None) -> None:
    """Write the answer as one JSON object per line; what JSON has no form for (NaN) as null."""
    for row in _limited(found.rows, limit):
        content = {name: plain(value) for name, value in zip(found.columns, row, strict=True)}
        stream.write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")


def _limited(rows: Iterator[tuple[Any, ...]], limit: int | None) -> Iterator[tuple[Any, ...]]:
    for place, row in enumerate(rows):
        if limit is not None and place == limit:
            sys.stderr.write(f"keycontrast: cut after {limit:,} rows; leave out --rows for all\n")
            return
        yield row


def plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
