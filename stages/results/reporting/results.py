"""The results tables: floors first, then runs, then means over seeds; the best run of each column marked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from stages.results.reporting.gather import RunMaterial
from stages.results.reporting.labels import number, percentage, value_text
from stages.results.reporting.metric_columns import Column, ColumnGroup, TableLayout, column
from stages.results.reporting.tracks import HCL, Track

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """A formatted value.

    Attributes:
        text: for people.
        best: it is the best run of its column.
        value: for sorting; None where there is none.
        more: interval or standard deviation, in small print; may be empty.
    """

    text: str
    best: bool = False
    value: float | None = None
    more: str = ""


@dataclass(frozen=True)
class Row:
    """One system: a floor, a run, or several runs that differ in their seed alone."""

    name: str
    kind: str
    cells: list[Cell]
    note: str = ""


@dataclass(frozen=True)
class ResultTable:
    """A table as the template draws it."""

    title: str
    note: str
    groups: tuple[ColumnGroup, ...]
    rows: list[Row]

    @property
    def columns(self) -> list[Column]:
        """Columns of all groups, from left to right."""
        return [column for group in self.groups for column in group.columns]

    @property
    def bodies(self) -> list[tuple[str, list[Row]]]:
        """Rows by kind, in their order: each kind is sorted for itself."""
        return [(kind, list(rows)) for kind, rows in groupby(self.rows, lambda row: row.kind)]


@dataclass(frozen=True)
class ResultBlock:
    """Runs that were evaluated on the same examples.

    Attributes:
        counts, settings: of the first run's evaluation.
        runs: names.
        lead: the metric that leads.
        systems: values of floors and runs by name.
        label, groups: name and systems of the comparison of these runs; no groups if there was none.
    """

    dataset: str
    split: str
    counts: dict[str, int]
    settings: dict[str, Any]
    runs: list[str]
    tables: list[ResultTable]
    lead: str = "bleu_1"
    systems: dict[str, Mapping[str, float]] = field(default_factory=dict)
    label: str = ""
    groups: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def systems_in_order(self) -> list[str]:
        """Names of all compared systems: runs, and groups of them, as the params have them; then floors."""
        return in_order(self.groups, self.runs)

    @property
    def pooled_systems(self) -> dict[str, list[str]]:
        """Runs of each system but floors by its name; runs that differ in their seed are in one alone, the group."""
        pooled = {run for group in self.groups.values() if len(group["runs"]) > 1 for run in group["runs"]}
        found = {name: [run for run in self.groups[name]["runs"] if run in self.runs]
                 for name in self.systems_in_order if name not in pooled}
        return {name: runs for name, runs in found.items() if runs} or {run: [run] for run in self.runs}

    @property
    def has_intervals(self) -> bool:
        """Whether any value has small print below it."""
        return any(cell.more for table in self.tables for row in table.rows for cell in row.cells)

    @property
    def level(self) -> str:
        """Level of the intervals: ``95 %``."""
        return percentage(float(self.settings.get("level", 0.95))).replace(".0", "")

    @property
    def vectors(self) -> str:
        """Which word vectors the embedding metrics used; empty if they do not say."""
        found = self.settings.get("emb")
        return described(found)

    @property
    def bertscore(self) -> str:
        """Which encoder and layer BERTScore used; empty if it was left out."""
        return described(self.settings.get("bertscore"))


def described(setting: Any) -> str:
    """Return a setting of a metric in one line: ``{"name": "x", "layer": 6}`` gives ``x, layer 6``; checksums not."""
    if not isinstance(setting, Mapping):
        return "" if setting is None else str(setting)
    first = [str(setting[key]) for key in ("description", "name", "encoder", "source") if isinstance(
        setting.get(key), str)][:1]
    nested = [described(value) for value in setting.values() if isinstance(value, Mapping)] if not first else []
    rest = [f"{key.replace('_', ' ')} {value_text(value)}" for key, value in setting.items()
            if key not in ("description", "name", "encoder", "source", "sha256") and not isinstance(value, Mapping)
            and value is not None]
    return ", ".join([*first, *nested, *rest])


def result_blocks(runs: Sequence[RunMaterial], comparison: Mapping[str, Any] | None = None,
                  track: Track = HCL) -> list[ResultBlock]:
    """Return the results, runs on the same examples (hence with the same floors) together.

    Args:
        runs: rows of the tables, all of one track.
        comparison: what the comparison reported; means and deviations over seeds are taken from it.
        track: whose tables are made.
    """
    def examples(run: RunMaterial) -> tuple[str, str, str]:
        metrics = run.metrics
        return (run.dataset, str(metrics["settings"].get("split", "")),
                json.dumps([metrics["floors"], metrics["counts"].get("examples")], sort_keys=True))

    # Runs keep their order within a block, blocks that of their first run.
    order: dict[tuple[str, str, str], int] = {}
    for run in runs:
        order.setdefault(examples(run), len(order))
    placed = sorted(runs, key=lambda run: order[examples(run)])
    return [_block(key[0], key[1], list(members), comparison or {}, track)
            for key, members in groupby(placed, examples)]


def _block(dataset: str, split: str, runs: list[RunMaterial], comparison: Mapping[str, Any],
           track: Track) -> ResultBlock:
    first = runs[0].metrics
    present = list(dict.fromkeys(key for values in (*(run.metrics["run"] for run in runs), *first["floors"].values())
                                 for key, value in values.items() if isinstance(value, (int, float))))
    listed = {column.key for layout in track.layouts for group in layout.groups for column in group.columns}
    rest = [key for key in present if key not in listed]
    layouts = (*track.layouts, TableLayout("Further metrics", "", (ColumnGroup("", tuple(map(column, rest))),)))
    label, groups = compared(comparison, dataset, split, [run.name for run in runs])
    tables = [_table(layout, runs, groups)
              for found in layouts if (layout := _measured(found, present))]
    lead = next(iter(first["settings"].get("leading", [])), track.lead)
    tables.sort(key=lambda table: lead not in [column.key for column in table.columns])
    systems = {**first["floors"], **{run.name: run.metrics["run"] for run in runs}}
    return ResultBlock(dataset, split, first["counts"], first["settings"], [run.name for run in runs], tables, lead,
                       systems, label, groups)


def _measured(layout: TableLayout, present: Sequence[str]) -> TableLayout | None:
    """Return ``layout`` with the columns that were measured; None if there is none."""
    groups = tuple(ColumnGroup(group.label, columns) for group in layout.groups
                   if (columns := tuple(one for one in group.columns if one.key in present)))
    return replace(layout, groups=groups) if groups else None


def _table(layout: TableLayout, runs: list[RunMaterial], groups: Mapping[str, Mapping[str, Any]]) -> ResultTable:
    columns = [column for group in layout.groups for column in group.columns]
    best = {column.key: _best(column, [run.metrics["run"] for run in runs]) for column in columns}
    floors = runs[0].metrics.get("intervals", {}).get("floors", {})
    rows = [Row(name, "floor", [_cell(column, values, None, floors.get(name, {})) for column in columns])
            for name, values in runs[0].metrics["floors"].items()]
    rows += [Row(run.name, "run", [_cell(column, run.metrics["run"], best[column.key],
                                         run.metrics.get("intervals", {}).get("run", {})) for column in columns])
             for run in runs]
    rows += [Row(name, "seeds", [_mean_cell(column, group) for column in columns], "mean ± sd over seeds")
             for name in in_order(groups, [run.name for run in runs]) if len((group := groups[name])["runs"]) > 1]
    return ResultTable(layout.title, layout.note, layout.groups, rows)


def in_order(groups: Mapping[str, Mapping[str, Any]], runs: Sequence[str]) -> list[str]:
    """Return the names of compared systems by the place of their first run among ``runs``; floors come last."""
    places = {run: place for place, run in enumerate(runs)}
    return sorted(groups, key=lambda name: (min((places.get(run, len(runs)) for run in groups[name]["runs"]),
                                                default=len(runs)), -len(groups[name]["runs"]), name))


def compared(comparison: Mapping[str, Any], dataset: str, split: str,
             runs: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the name under which ``runs`` were compared, and their systems; no systems if they were not.

    Runs of one data set and split on different items were compared apart, under names that begin alike.
    """
    label = f"{dataset}/{split}"
    for name, found in comparison.items():
        known = {run for group in found.get("groups", {}).values() for run in group.get("runs", [])}
        if (name == label or name.startswith(f"{label} (")) and known & set(runs):
            return name, dict(found["groups"])
    return label, {}


def _best(column: Column, runs: list[dict[str, float]]) -> float | None:
    """The best value of a column; None where nothing is better, or there is nothing to be better than."""
    values = [values[column.key] for values in runs if values.get(column.key) is not None]
    if len(values) < 2 or not column.direction or len(set(values)) == 1:
        return None
    return max(values) if column.direction > 0 else min(values)


def _cell(column: Column, values: Mapping[str, float], best: float | None,
          intervals: Mapping[str, Sequence[float]]) -> Cell:
    value, interval = values.get(column.key), intervals.get(column.key)
    if value is None or value != value:
        return Cell(MISSING)
    more = f"{number(float(interval[0]), column.digits)} to {number(float(interval[1]), column.digits)}" \
        if interval else ""
    return Cell(number(float(value), column.digits), best is not None and value == best, float(value), more)


def _mean_cell(column: Column, group: Mapping[str, Any]) -> Cell:
    found = group.get(column.key)
    if not found or found["mean"] is None:
        return Cell(MISSING)
    more = "" if found["sd"] is None else f"± {number(float(found['sd']), column.digits)}"
    return Cell(number(float(found["mean"]), column.digits), False, float(found["mean"]), more)
