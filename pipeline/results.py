"""The results tables that end a run: every run of the params by track, and the baselines on the same examples."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from pipeline.dag import Dag
from stages.common.paths import REPORT, REPORT_PAGE, DatasetPaths
from stages.metrics.registered import Metric
from stages.params import Params
from stages.results.comparison import pooled_name
from stages.results.gather import seeded_runs
from stages.results.model import values_of
from stages.results.track import FEW, SCRATCH
from stages.results.tracks import TRACKS

# Characters and digits of a column. A terminal of 80 characters has room for a few metrics; the report has all.
_CHARACTERS, _DIGITS = 6, 3
_FEW_ITEMS = 50


def show_results(dag: Dag, params: Params, console: Console) -> None:
    """Show only what this command has looked at: other metrics and pages may be of other params."""
    for name in params.datasets:
        for warning in data_warnings(name, dag):
            console.print(f"{name}: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if runs := {name.partition("@")[2] for name in dag if name.startswith("evaluate_")}:
        for table in results_tables(params, runs, width=console.width):
            console.print(table)
    if any(Path(out) in (REPORT, REPORT_PAGE) for node in dag.values() for out in node.outs):
        console.print(f"Report: {REPORT_PAGE}", highlight=False, soft_wrap=True)


def data_warnings(name: str, dag: Collection[str]) -> list[str]:
    """Return warnings about a data set, from the metrics of its stages in ``dag``."""
    counts = {stage: json.loads(path.read_text("utf-8")) for stage in ("ingest", "annotate") if f"{stage}@{name}" in dag
              and (path := DatasetPaths(name).metrics(stage)).exists()}
    notes = []
    if classes := counts.get("ingest", {}).get("classes"):
        unseen = [label for label, count in classes["test"].items() if count and not classes["train"][label]]
        notes += [f"no text of class {', '.join(map(repr, unseen))} is in training, and the test split has some; no "
                  f"model can name it"] if unseen else []
    examples = counts.get("ingest", {}).get("examples", {})
    tested = examples.get("test", _FEW_ITEMS)
    if tested < _FEW_ITEMS and sum(examples.values()) > examples.get("train", 0):
        notes.append(f"the test split has {tested} items; fewer than {_FEW_ITEMS} tell nothing about differences. "
                     f"Raise ingest.test, or name a published split")
    rows = counts.get("ingest", {}).get("rows", {})
    unused = rows.get("in_no_item_by_reason", {}).get("unused", 0)
    if 2 * unused > rows.get("read", 0):
        notes.append(f"{unused} of {rows['read']} rows are in no item: ingest.neg_source does not use them")
    texts = counts.get("annotate", {})
    if texts.get("other_language"):
        notes.append(f"{texts['other_language']} of {texts['texts']} texts are not in the data set's language; their "
                     f"phrases are unreliable")
    return notes


def results_tables(params: Params, runs: Collection[str], root: Path = Path(), width: int = 80) -> list[Table]:
    """Return a table per track of those ``runs`` that have metrics; none for a track without any.

    A run with several seeds is one row of means. Baselines are listed once for all runs of a track on the same
    examples. A ``width`` above 80 characters shows more metrics.
    """
    tables, read = [], cast(Any, params)
    for track in TRACKS.values():
        by_track: dict[str, list[dict[str, Any]]] = {}
        for paths in seeded_runs(params, track).values():
            if paths.name in runs and (file := root / paths.metrics).exists():
                by_track.setdefault(paths.name, []).append(json.loads(file.read_text(encoding="utf-8")))
        if not by_track:
            continue
        columns = track.headlines[:FEW + max(0, width - 80) // _CHARACTERS]
        table = Table(title=track.headline, title_justify="left", caption_justify="left", header_style="bold",
                      box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("run", no_wrap=True)
        for heading in ("items", *(column.short for column in columns)):
            table.add_column(heading, justify="right", no_wrap=True)
        baselines_shown, captions = set[str](), []
        for run, seeds in by_track.items():
            model = track.runs(params)[run].model
            dataset, items = track.models(params)[model].dataset, str(seeds[0]["counts"].get("examples", ""))
            baselines = json.dumps([dataset, seeds[0]["baselines"]], sort_keys=True)
            for baseline, values in seeds[0]["baselines"].items() if baselines not in baselines_shown else ():
                table.add_row(f"{dataset}: baseline {baseline}", items, *_cells(values, columns), style="italic")
            baselines_shown.add(baselines)
            means = {key: value.mean for key, value in values_of([metrics["run"] for metrics in seeds], {}).items()}
            table.add_row(pooled_name(run, len(seeds)), items, *_cells(means, columns))
            row = track.row(track.settings(read, model), track.decoding(read, run))
            captions += [f"{run}: {track.names.label(row)}"] if SCRATCH in row.switches else []
        table.caption = "\n".join(captions) or None
        tables.append(table)
    return tables


def _cells(values: Mapping[str, Any], columns: Sequence[Metric]) -> list[str]:
    return [f"{value:.{min(column.digits, _DIGITS)}f}" if isinstance(value, int | float) else "-"
            for column in columns for value in [values.get(column.key)]]
