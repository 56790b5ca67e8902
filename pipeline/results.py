"""The results table that ends a run: every run of the params, and the floors on the same examples."""

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from stages.artifacts.paths import RunPaths
from stages.params import Params

# The report has all metrics; a terminal has room for these.
COLUMNS = (("bleu_1", "BLEU-1"), ("bleu_2", "BLEU-2"), ("bleu_3", "BLEU-3"), ("bleu_4", "BLEU-4"),
           ("extrema", "Extrema"), ("average", "Average"), ("greedy", "Greedy"),
           ("distinct_1", "Dist-1"), ("distinct_2", "Dist-2"), ("source_bleu", "src BLEU"))


def results_table(params: Params, root: Path = Path()) -> Table | None:
    """Return the table of all runs that have metrics; None if none has.

    Floors stand once for all runs on the same examples.
    """
    table = Table(title="Individual BLEU, smoothing 7; floors in italics", title_justify="left")
    for heading in ("data set", "run", "items"):
        table.add_column(heading, justify="right" if heading == "items" else "left")
    for _, heading in COLUMNS:
        table.add_column(heading, justify="right")
    floors_shown: set[str] = set()
    for name, run in params.runs.hcl.items():
        path = root / RunPaths(name).metrics
        if not path.exists():
            continue
        metrics = json.loads(path.read_text(encoding="utf-8"))
        dataset = params.models.hcl[run.model].dataset
        items = str(metrics["counts"].get("examples", ""))
        floors = json.dumps([dataset, metrics["floors"]], sort_keys=True)
        if floors not in floors_shown:
            for floor, values in metrics["floors"].items():
                table.add_row(dataset, floor, items, *_cells(values), style="italic")
        floors_shown.add(floors)
        table.add_row(dataset, name, items, *_cells(metrics["run"]))
    return table if table.row_count else None


def _cells(values: dict[str, Any]) -> list[str]:
    return [f"{values[key]:.3f}" if isinstance(values.get(key), int | float) else "-" for key, _ in COLUMNS]
