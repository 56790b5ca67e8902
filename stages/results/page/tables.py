"""The results tables: floors first, then runs, then means over seeds; the best run of each column marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from stages.metrics.registered import Family, Metric, metric
from stages.results.model import Block, System, Value
from stages.results.page.labels import number, percentage, value_text
from stages.results.published import NOTES, PublishedTable
from stages.results.track import TableLayout, TrackResults
from stages.tracks.common.schemas import STRATA

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """A formatted value with its interval or deviation, and the number of the note on it (0 for none)."""

    text: str
    best: bool = False
    more: str = ""
    note: int = 0


@dataclass(frozen=True)
class TableRow:
    """A floor, a run, several runs that differ in their seed alone, or a published row (``kind`` says which)."""

    name: str
    kind: str
    cells: list[Cell]
    note: str | int = ""


@dataclass(frozen=True)
class ResultTable:
    """A table of results as the template draws it."""

    title: str
    note: str
    groups: tuple[Family, ...]
    rows: list[TableRow]

    @property
    def columns(self) -> list[Metric]:
        """Columns of all groups, from left to right."""
        return [column for group in self.groups for column in group.columns]

    @property
    def bodies(self) -> list[tuple[str, list[TableRow]]]:
        """Rows by kind, in their order."""
        return [(kind, list(rows)) for kind, rows in groupby(self.rows, lambda row: row.kind)]


@dataclass(frozen=True)
class PrintedTable:
    """A table of the paper with our runs in it."""

    title: str
    headings: list[str]
    rows: list[TableRow]
    notes: list[str]

    @property
    def measured(self) -> bool:
        """Whether a run of ours stands in it."""
        return any(row.kind == "measured" for row in self.rows)


def result_tables(block: Block) -> list[ResultTable]:
    """Return the tables of a block, that with the leading metric first, those of its strata last.

    Only what was measured has a column.
    """
    listed = {column.key for layout in block.track.layouts for column in layout.columns}
    rest = tuple(metric(key) for key in block.measured if key not in listed)
    layouts = (*block.track.layouts, TableLayout("Further metrics", "", (Family("", rest),)))
    tables = [_result_table(layout, block) for found in layouts if (layout := _measured(found, block.measured))]
    tables.sort(key=lambda table: block.lead not in [column.key for column in table.columns])
    headlines = Family("", tuple(map(metric, block.track.by_stratum)))
    for name, part in block.strata.items():
        said = f"The {part.counts['examples']:,} items of which this holds: {STRATA[name].meaning}."
        layout = TableLayout(f"Stratum: {STRATA[name].title}", said, (headlines,))
        tables += [_result_table(found, part) for found in [_measured(layout, part.measured)] if found]
    return tables


def level(block: Block) -> str:
    """Return the level of the intervals of a block: ``95 %``."""
    return percentage(float(block.settings.get("level", 0.95))).replace(".0", "")


def described(setting: Any) -> str:
    """Return a setting of a metric in one line: ``{"name": "x", "layer": 6}`` gives ``x, layer 6``; checksums not."""
    if not isinstance(setting, Mapping):
        return "" if setting is None else str(setting)
    first = [str(setting[key]) for key in ("description", "name", "encoder", "source") if isinstance(
        setting.get(key), str)][:1]
    nested = [described(value) for value in setting.values() if isinstance(value, Mapping)] if not first else []
    rest = [f"{key.replace('_', ' ')} {value_text(value)}" for key, value in setting.items()
            if key not in ("description", "name", "encoder", "source", "sha256", "files")
            and not isinstance(value, Mapping) and value is not None]
    return ", ".join([*first, *nested, *rest])


def _measured(layout: TableLayout, present: Sequence[str]) -> TableLayout | None:
    """Return ``layout`` with the columns that were measured; None if there is none."""
    groups = tuple(Family(group.label, columns) for group in layout.groups
                   if (columns := tuple(one for one in group.columns if one.key in present)))
    return replace(layout, groups=groups) if groups else None


def _result_table(layout: TableLayout, block: Block) -> ResultTable:
    best = {column.key: _best(column, block) for column in layout.columns}
    rows = [TableRow(system.title, system.kind,
                     [value_cell(column, system.values.get(column.key),
                                 system.kind != "floor" and system.name == best[column.key])
                      for column in layout.columns], "mean ± sd over seeds" if system.kind == "seeds" else "")
            for system in (*block.floors, *block.runs, *block.groups)]
    return ResultTable(layout.title, layout.note, layout.groups, rows)


def _best(column: Metric, block: Block) -> str | None:
    """Return the system that is better than every other beyond chance, seeds taken together; None without such a one.

    A best value that the comparison calls chance, or that nobody compared, is not marked.
    """
    systems = [system for system in block.systems if column.key in system.values]
    for one in systems if len(systems) > 1 else []:
        differences = [block.difference(one.name, other.name, column.key) for other in systems if other is not one]
        if all(found is not None and found.verdict > 0 for found in differences):
            return one.name
    return None


def value_cell(column: Metric, value: Value | None, best: bool = False) -> Cell:
    """Return a value with its deviation over seeds, or else its interval, in small print."""
    if value is None:
        return Cell(MISSING)
    more = "" if value.interval is None else " to ".join(number(end, column.digits) for end in value.interval)
    more = more if value.sd is None else f"± {number(value.sd, column.digits)}"
    return Cell(number(value.mean, column.digits), best, more)


def printed_tables(blocks: Sequence[Block], track: TrackResults) -> list[PrintedTable]:
    """Return every table of the track's paper; systems on the same data set stand in it below their row."""
    return [_printed_table(table, [system for block in blocks if block.kind == table.kind for system in block.systems])
            for table in track.published]


def _printed_table(table: PublishedTable, systems: Sequence[System]) -> PrintedTable:
    notes = {flag: place for place, flag in enumerate(table.flags, 1)}
    rows = []
    for row in table.rows.values():
        cells = [Cell(row.cells[key].text, note=notes.get(row.cells[key].flag, 0)) for key in table.metrics]
        rows.append(TableRow(row.name, "published", cells, notes.get(row.flag, 0)))
        rows += [TableRow(system.title, "measured", [_beside(key, system, table.scale) for key in table.metrics])
                 for system in systems if row.name in [one.name for one in system.published]
                 and any(key in system.values for key in table.metrics)]
    return PrintedTable(f"Table {table.number}: {table.title}", table.headings, rows, [NOTES[flag] for flag in notes])


def _beside(key: str, system: System, scale: int) -> Cell:
    """Return a measured value in the unit of the paper."""
    value, column = system.values.get(key), metric(key)
    if value is None:
        return Cell(MISSING)
    return Cell(column.text(value.mean, scale), more="" if value.sd is None else f"± {column.text(value.sd, scale)}")
