"""The results table that ends a run: every run of the params, and the floors on the same examples."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rich.table import Table

from stages.artifacts.paths import RunPaths
from stages.params import Params

# The report has all metrics; eighty columns, the width of a log, have room for these.
COLUMNS = (("bleu_1", "B-1"), ("bleu_2", "B-2"), ("bleu_3", "B-3"), ("bleu_4", "B-4"),
           ("extrema", "Extr"), ("average", "Avg"), ("greedy", "Greed"), ("source_bleu", "src-B"))


def results_table(params: Params, runs: Collection[str], root: Path = Path()) -> Table | None:
    """Return the table of those ``runs`` that have metrics; None if none has.

    Floors stand once for all runs on the same examples.
    """
    table = Table(title="B-1..4: BLEU of one order, smoothing 7; src-B: BLEU against the source", title_justify="left",
                  header_style="bold", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("run", no_wrap=True)
    for heading in ("items", *(heading for _, heading in COLUMNS)):
        table.add_column(heading, justify="right", no_wrap=True)
    floors_shown: set[str] = set()
    for name, run in params.runs.hcl.items():
        path = root / RunPaths(name).metrics
        if name not in runs or not path.exists():
            continue
        metrics = json.loads(path.read_text(encoding="utf-8"))
        dataset = params.models.hcl[run.model].dataset
        items = str(metrics["counts"].get("examples", ""))
        floors = json.dumps([dataset, metrics["floors"]], sort_keys=True)
        if floors not in floors_shown:
            for floor, values in metrics["floors"].items():
                table.add_row(f"{dataset}: floor {floor}", items, *_cells(values), style="italic")
        floors_shown.add(floors)
        table.add_row(name, items, *_cells(metrics["run"]))
    return table if table.row_count else None


def _cells(values: dict[str, Any]) -> list[str]:
    return [f"{values[key]:.3f}" if isinstance(values.get(key), int | float) else "-" for key, _ in COLUMNS]
