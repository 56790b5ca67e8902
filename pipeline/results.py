"""The results tables that end a run: every run of the params by track, and the floors on the same examples."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from stages.artifacts.paths import RunPaths
from stages.params import Params

# The report has all metrics; eighty columns, the width of a log, have room for these.
COLUMNS = (("bleu_1", "B-1"), ("bleu_2", "B-2"), ("bleu_3", "B-3"), ("bleu_4", "B-4"),
           ("extrema", "Extr"), ("average", "Avg"), ("greedy", "Greed"), ("source_bleu", "src-B"))
PGKPR_COLUMNS = (*((f"released_bleu_{order}", f"B-{order}") for order in range(1, 5)),
                 *((f"released_py_rouge_{kind}", f"R-{kind.upper()}") for kind in ("1", "2", "l")),
                 ("source_bleu", "src-B"))
CLLD_COLUMNS = (("accuracy", "Acc"), ("macro_f1", "mF1"), ("weighted_f1", "wF1"), ("nll", "NLL"), ("brier", "Brier"),
                ("ece", "ECE"))
_TITLES = {"hcl": "HCL. B-1..4: BLEU of one order, smoothing 7; src-B: BLEU against the source",
           "pgkpr": "PGKPR, released norm. B: corpus BLEU; R: py-rouge; src-B: against the source",
           "clld": "CLLD. mF1, wF1: F1 by class, by text; ECE: calibration error"}
_COLUMNS = {"hcl": COLUMNS, "pgkpr": PGKPR_COLUMNS, "clld": CLLD_COLUMNS}


def results_tables(params: Params, runs: Collection[str], root: Path = Path()) -> list[Table]:
    """Return a table per track of those ``runs`` that have metrics; none for a track without any.

    Floors stand once for all runs of a track on the same examples.
    """
    tracks = ((track, getattr(params.models, track), getattr(params.runs, track)) for track in _COLUMNS)
    tables = []
    for track, models, known in tracks:
        metrics = {name: json.loads(path.read_text(encoding="utf-8")) for name in known
                   if name in runs and (path := root / RunPaths(name).metrics).exists()}
        if metrics:
            datasets = {name: models[known[name].model].dataset for name in metrics}
            tables.append(_table(track, metrics, datasets))
    return tables


def _table(track: str, metrics: Mapping[str, dict[str, Any]], datasets: Mapping[str, str]) -> Table:
    columns = _COLUMNS[track]
    table = Table(title=_TITLES[track], title_justify="left", header_style="bold", box=None, padding=(0, 1, 0, 0),
                  pad_edge=False)
    table.add_column("run", no_wrap=True)
    for heading in ("items", *(heading for _, heading in columns)):
        table.add_column(heading, justify="right", no_wrap=True)
    floors_shown: set[str] = set()
    for name, found in metrics.items():
        items = str(found["counts"].get("examples", ""))
        floors = json.dumps([datasets[name], found["floors"]], sort_keys=True)
        if floors not in floors_shown:
            for floor, values in found["floors"].items():
                table.add_row(f"{datasets[name]}: floor {floor}", items, *_cells(values, columns), style="italic")
        floors_shown.add(floors)
        table.add_row(name, items, *_cells(found["run"], columns))
    return table


def _cells(values: Mapping[str, Any], columns: Collection[tuple[str, str]]) -> list[str]:
    return [f"{values[key]:.3f}" if isinstance(values.get(key), int | float) else "-" for key, _ in columns]
