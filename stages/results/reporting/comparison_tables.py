"""What the paper printed beside what was measured here, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.results.reporting.gather import DatasetMaterial, Material, RunMaterial
from stages.results.reporting.labels import number
from stages.results.reporting.metric_columns import column
from stages.results.reporting.published import HEADINGS, NOTES, PublishedTable, dataset_kind_of
from stages.results.reporting.results import MISSING
from stages.results.reporting.tracks import HCL, Track


@dataclass(frozen=True)
class PrintedCell:
    """A cell as printed or measured, the number of the note on it (0 without one), and its deviation over seeds."""

    text: str
    note: int = 0
    more: str = ""


@dataclass(frozen=True)
class PrintedRow:
    """A published row; or a run of ours, or several that differ in their seed, below the row it corresponds to."""

    name: str
    measured: bool
    cells: list[PrintedCell]
    note: int = 0


@dataclass(frozen=True)
class PrintedTable:
    """A table of the paper with our runs in it."""

    title: str
    headings: list[str]
    rows: list[PrintedRow]
    notes: list[str]

    @property
    def measured(self) -> bool:
        """Whether a run of ours stands in it."""
        return any(row.measured for row in self.rows)


def printed_tables(material: Material, track: Track = HCL) -> list[PrintedTable]:
    """Return every table of the track's paper; runs on the same data set stand in it below their row.

    Args:
        material: with the models and runs of that track alone.
        track: whose paper it is.
    """
    kinds = {dataset.name: _kind(dataset) for dataset in material.datasets}
    settings = {model.name: model.settings or model.overrides for model in material.models}
    rows: dict[tuple[str, str], list[RunMaterial]] = {}
    for run in material.runs:
        kind = kinds.get(run.dataset)
        for row in track.rows(run, settings[run.model], kind):
            rows.setdefault((str(kind), row.name), []).append(run)
    pooled = _pooled(material.comparison)
    return [_table(table, rows, pooled) for table in track.published]


def _kind(dataset: DatasetMaterial) -> str | None:
    return dataset_kind_of(dataset.name, str(dataset.settings.get("layout", "")),
                           str(dataset.settings.get("source", "")))


def _table(table: PublishedTable, runs: Mapping[tuple[str, str], list[RunMaterial]],
           pooled: Mapping[str, tuple[str, Mapping[str, Any]]]) -> PrintedTable:
    notes = {flag: place for place, flag in enumerate(table.flags, 1)}
    rows = []
    for row in table.rows.values():
        cells = [PrintedCell(row.cells[metric].text, notes.get(row.cells[metric].flag, 0)) for metric in table.metrics]
        rows.append(PrintedRow(row.name, False, cells, notes.get(row.flag, 0)))
        rows += _ours(runs.get((table.kind, row.name), []), table, pooled)
    return PrintedTable(f"Table {table.number}: {table.title}", [HEADINGS[metric] for metric in table.metrics], rows,
                        [NOTES[flag] for flag in notes])


def _ours(runs: Sequence[RunMaterial], table: PublishedTable,
          pooled: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[PrintedRow]:
    """Return a row per run, or one for all that differ in their seed alone."""
    rows: dict[str, list[PrintedCell]] = {}
    for run in runs:
        name, group = pooled.get(run.name, (run.name, {}))
        found = [_cell(metric, table.scale, group[metric]["mean"], group[metric]["sd"]) if metric in group
                 else _cell(metric, table.scale, None if group else run.metrics["run"].get(metric))
                 for metric in table.metrics]
        if any(cell.text != MISSING for cell in found):
            rows[name] = found
    return [PrintedRow(name, True, cells) for name, cells in rows.items()]


def _cell(metric: str, scale: int, value: float | None, deviation: float | None = None) -> PrintedCell:
    digits = 2 if scale == 100 else max(column(metric).digits, 4)
    text = MISSING if value is None else number(scale * float(value), digits)
    return PrintedCell(text, more="" if deviation is None else f"± {number(scale * float(deviation), digits)}")


def _pooled(comparison: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return by run the name and the values of all runs that differ from it in their seed alone."""
    return {run: (name, group) for found in comparison.values() for name, group in found.get("groups", {}).items()
            if len(group["runs"]) > 1 for run in group["runs"]}
