"""``keycontrast inspect --sql``: each Parquet, CSV and JSON file of the artifacts is a DuckDB view to query.

    artifacts/data/sample/keywords       sample.keywords, or keywords where that is unambiguous
    artifacts/data/sample/metrics/graph.json     sample.metrics_graph
    artifacts/models/hcl/13/history.csv               models_hcl.history, or models_hcl_13.history if it has more seeds
    artifacts/runs/hcl-no-graph/13/scores.parquet     runs_hcl_no_graph.scores
    artifacts/predictions/hcl/13/predictions.parquet  runs_hcl.predictions

The files are opened here as Arrow data sets, and DuckDB may open none: if it could read a path, COPY could write there.
"""

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TextIO

import duckdb
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.dataset as ds
import pyarrow.json as pj
from rich.console import Console
from rich.text import Text

from keycontrast.cells import json_text, json_value, no_formula, print_rows, printable
from keycontrast.errors import InputError, nearest
from keycontrast.reading import is_unicode
from pipeline.datasets import in_force
from stages.common.paths import ARTIFACTS, COMPARISON, DATA
from stages.common.tables import SUFFIX, check_pages, dataset_of, is_table, read_metadata
from stages.run.log import logger

SHOWN = 40
_KINDS = (SUFFIX, ".csv", ".json", ".jsonl")    # of tables of one file; a folder of parts has no ending
_BATCH = 1024
_MODEL = "config.json"      # other files in a folder with this one belong to a saved model
_OTHER = ("report",)
# Folders of models, runs and probes, and the folders whose files are among the views of these.
_GROUPS = ("models", "runs", "probes")
_AMONG = {"predictions": "runs", "confusing_pairs": "models"}
_TABLES = ("items", "graph", "phrases", "vectors")     # folders of a data set that do not occur in the names of views
_TAKEN = ("main", "temp", "system", "pg_catalog", "information_schema")     # schemas of DuckDB
_log = logger("sql")


@dataclass(frozen=True)
class Catalog:
    """Files by schema and view: each data set, model and run has a schema; and the schema of each data set."""

    schemas: dict[str, dict[str, Path]]
    datasets: dict[str, str]

    def short_names(self, dataset: str | None = None) -> dict[str, str]:
        """Return the schema of each view that a query may name without its schema.

        That is the view of ``dataset``, or else of the only data set of the params, the only data set, or the only
        model or run with a view of that name.
        """
        if dataset is not None and dataset not in self.datasets:
            raise InputError(f"--dataset {dataset}: no artifacts of that data set; {nearest(dataset, self.datasets)}")
        wanted = {self.datasets[dataset]} if dataset is not None else set()
        in_params = {self.datasets[name] for name in in_force(list(self.datasets))}
        names = {}
        for view in {view: None for views in self.schemas.values() for view in views}:
            owners = {schema for schema, views in self.schemas.items() if view in views}
            choices = (owners & wanted, owners & in_params, owners & set(self.datasets.values()), owners)
            first = next(filter(None, choices))
            if len(first) == 1:
                names[view] = first.pop()
        return names


def catalog(root: Path = ARTIFACTS) -> Catalog:
    """Return the tables below ``root``, in sorted order; hidden and unfinished files are left out."""
    folders: dict[tuple[str, ...], dict[str, Path]] = {}
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        inner = path.relative_to(root).parts
        if (path.suffix in _KINDS and path.is_file() or is_table(path)) and not _is_left_out(path, inner):
            folder, rest = _home(inner)
            views = folders.setdefault(folder, {})
            views[_free(_name((*rest[:-1], path.stem)), views)] = path
    if not folders:
        raise InputError(f"{root}: no artifacts to query. Make artifacts with `keycontrast run`.")
    schemas: dict[str, dict[str, Path]] = {}
    datasets = {}
    seeds = Counter(folder[:-1] for folder in folders if len(folder) > 1 and folder[-1].isdigit())
    for folder, views in folders.items():
        only_seed = seeds[folder[:-1]] == 1 and folder[-1].isdigit()    # needs no number in the name
        name = _name(folder[:-1] if only_seed else folder) or _name([root.resolve().name]) or "files"
        schema = _free(name, [*schemas, *_TAKEN])
        schemas[schema] = views
        if len(folder) == 1 and folder[0] != COMPARISON.name and any(map(is_table, views.values())):
            datasets[folder[0]] = schema
    return Catalog(schemas, datasets)


def _home(inner: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]]:
    """Return the folder of a file's data set, or of the seed of its model or run, and its path in there."""
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


def _free(name: str, used: Collection[str]) -> str:
    """Return ``name`` with underscores until it is not taken; DuckDB ignores case."""
    lower = {other.lower() for other in used}
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


@dataclass(frozen=True)
class Answer:
    """Column names, distinct, and rows as they are read; DuckDB holds no reference to the data sets it scans."""

    columns: list[str]
    rows: Iterator[tuple[Any, ...]]
    scanned: list[ds.Dataset | pa.Table]


def run(sql: str, path: Path | None, dataset: str | None, form: Literal["table", "csv", "json"], rows: int | None,
        console: Console) -> None:
    """Print the answer to a query of all artifacts, or of the file or folder ``path``."""
    files = catalog() if path is None else catalog(path) if path.is_dir() and not is_table(path) else single_file(path)
    with answer(sql, files, dataset) as result:
        if form == "csv":
            write_csv(result, sys.stdout, rows)
        elif form == "json":
            write_json(result, sys.stdout, rows)
        else:
            print_answer(result, console, rows)


@contextmanager
def answer(sql: str, files: Catalog, dataset: str | None = None) -> Iterator[Answer]:
    """Yield DuckDB's answer to a query that reads ``files``; its errors become an ``InputError``."""
    if not is_unicode(sql):
        raise InputError(f"--sql: not valid in the encoding of this terminal: {sql}")
    with TemporaryDirectory(prefix="keycontrast-sql-") as spill, duckdb.connect(":memory:") as connection:
        connection.execute("SET enable_progress_bar = false")   # it would be part of the answer
        quoted = spill.replace("'", "''")
        try:
            scanned = _make_views(connection, files, dataset, sql)
            # No file (except in the folder for joins beyond memory), no Python variable, no other settings, no change.
            connection.execute(f"SET temp_directory = '{quoted}'; SET python_enable_replacements = false; "
                               "SET enable_external_access = false; SET lock_configuration = true")
            connection.execute("BEGIN TRANSACTION READ ONLY")
            result = connection.execute(sql)
            if result is None or not result.description:
                raise InputError("--sql: no statement with an answer.")
            columns: list[str] = []
            for name, *_ in result.description:
                columns.append(_free(name, columns))
            batches = iter(lambda: result.fetchmany(_BATCH), [])
            yield Answer(columns, (row for batch in batches for row in batch), scanned)
        except BrokenPipeError:
            raise
        except (duckdb.Error, pa.ArrowException, OSError, OverflowError) as error:
            if "Arrow" in str(error):   # of reading, not of the statement
                for view, path in (item for views in files.schemas.values() for item in views.items()):
                    if is_table(path) and _names(sql, view):
                        check_pages(path)
            more = "\n`show all tables` lists all views." if isinstance(error, duckdb.CatalogException) else ""
            raise InputError(f"--sql: {error}{more}") from error


def _make_views(connection: duckdb.DuckDBPyConnection, files: Catalog, dataset: str | None, sql: str) -> list[Any]:
    """Make a view of every file that can be read, and return what the views scan.

    A warning says why a table has no rows, if the query names it.
    """
    scanned, names = [], set()
    for schema, views in files.schemas.items():
        connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(f"SET schema = '\"{schema}\"'")
        for view, path in views.items():
            content = _arrow(path, _names(sql, view))
            if content is not None and content.schema.names:
                connection.from_arrow(content).create_view(view)
                scanned.append(content)
                names.add((schema, view))
                reason = read_metadata(path).get("reason") if is_table(path) else None
                if reason and _names(sql, view):
                    _log.warning("%s was left without rows: %s", path, reason)
    connection.execute("SET schema = 'main'")
    for view, schema in files.short_names(dataset).items():
        if (schema, view) in names:
            connection.execute(f'CREATE VIEW "{view}" AS FROM "{schema}"."{view}"')
    return scanned


def _names(sql: str, view: str) -> bool:
    return re.search(rf"\b{re.escape(view)}\b", sql, re.IGNORECASE) is not None


def _arrow(path: Path, asked: bool) -> ds.Dataset | pa.Table | None:
    """Return a file as Arrow, JSON as a table; None of a broken file, unless the query asks for it."""
    try:
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            return pa.Table.from_struct_array(pa.array(content if isinstance(content, list) else [content]))
        if is_table(path):
            return dataset_of(path)
        size = min(max(path.stat().st_size, 1), 1 << 30)    # names and types of columns are those of the first block
        if path.suffix == ".jsonl":     # whose data set loses a column that begins in a last line without line end
            return pj.read_json(path, read_options=pj.ReadOptions(block_size=size))
        return ds.dataset(path, format=ds.CsvFileFormat(read_options=pv.ReadOptions(block_size=size)))
    except (InputError, pa.ArrowException, OSError, OverflowError, json.JSONDecodeError, UnicodeDecodeError,
            TypeError, RecursionError) as error:
        if asked and isinstance(error, InputError):
            raise
        # One broken file should not keep all others from being queried.
        _log.warning("%s: left out, not a readable %s file (%s)", path, path.suffix[1:] or "Parquet", error)
        return None


def print_answer(answer: Answer, console: Console, limit: int | None = None) -> None:
    """Print the answer as a table of at most ``limit`` rows (40 if None), and say where it was cut."""
    limit = SHOWN if limit is None else limit
    rows = list(islice(answer.rows, limit))
    if answer.columns == ["explain_key", "explain_value"]:
        for _, query_plan in rows:
            console.print(Text(printable(query_plan, keep="\n")), soft_wrap=True)
        return
    cut = next(answer.rows, None) is not None
    count = f"{len(rows):,} row{'s' * (len(rows) != 1)}"
    print_rows(answer.columns, rows, console, f"First {count}" if cut else count)
    if cut:
        console.print(Text(f"There are more; --rows {2 * limit or SHOWN} shows more, --csv or --json all."))


def write_csv(answer: Answer, stream: TextIO, limit: int | None = None) -> None:
    """Write the answer as CSV: lists and structures as JSON, nulls as nothing, and no text as a formula."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(no_formula(printable(name)) for name in answer.columns)
    for row in _limited(answer.rows, limit):
        writer.writerow([json_text(json_value(value)) if isinstance(value, dict | list | tuple)
                         else no_formula(printable(value)) if isinstance(value, str) else value for value in row])


def write_json(answer: Answer, stream: TextIO, limit: int | None = None) -> None:
    """Write the answer as one JSON object per line; NaN and infinity, which JSON lacks, as null."""
    for row in _limited(answer.rows, limit):
        content = {name: json_value(value) for name, value in zip(answer.columns, row, strict=True)}
        stream.write(json_text(content, allow_nan=False) + "\n")


def _limited(rows: Iterator[tuple[Any, ...]], limit: int | None) -> Iterator[tuple[Any, ...]]:
    yield from islice(rows, limit)
    if limit is not None and next(rows, None) is not None:
        sys.stderr.write(f"keycontrast: cut after {limit:,} rows; leave out --rows for all\n")
