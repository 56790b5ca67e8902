"""The results tables that end a run: every run of the params by track, and the floors on the same examples."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from stages.metrics.registered import Metric
from stages.params import Params
from stages.results.artifacts import known_metrics
from stages.results.track import FEW
from stages.results.tracks import TRACKS

# Of a column; the report has all metrics, and eighty columns, the width of a log, have room for a few.
_CHARACTERS = 6
_DIGITS = 3


def results_tables(params: Params, runs: Collection[str], root: Path = Path(), width: int = 80) -> list[Table]:
    """Return a table per track of those ``runs`` that have metrics; none for a track without any.

    Floors stand once for all runs of a track on the same examples. Where there is more width than 80 there are more
    metrics.
    """
    tables = []
    for track in TRACKS.values():
        known = track.runs(params)
        metrics = dict(known_metrics([name for name in known if name in runs], root))
        if metrics:
            datasets = {name: track.models(params)[known[name].model].dataset for name in metrics}
            columns = track.headlines[:FEW + max(0, width - 80) // _CHARACTERS]
            tables.append(_table(track.headline, columns, metrics, datasets))
    return tables


def _table(title: str, columns: Sequence[Metric], metrics: Mapping[str, dict[str, Any]],
           datasets: Mapping[str, str]) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 1, 0, 0),
                  pad_edge=False)
    table.add_column("run", no_wrap=True)
    for heading in ("items", *(column.short for column in columns)):
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


def _cells(values: Mapping[str, Any], columns: Sequence[Metric]) -> list[str]:
    return [f"{value:.{min(one.digits, _DIGITS)}f}" if isinstance(value := values.get(one.key), int | float) else "-"
            for one in columns]
