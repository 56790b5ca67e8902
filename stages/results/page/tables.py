"""The results tables: floors, runs and means over seeds, with the published values below ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from stages.metrics.registered import Family, Metric, metric
from stages.results.model import Block, System, Value
from stages.results.page.labels import number, percentage, value_text
from stages.results.published import NOTES, PublishedCell
from stages.results.track import TableLayout
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
    """A floor, a run, a run under several seeds, or the published row below one (``kind`` says which)."""

    name: str
    kind: str
    cells: list[Cell]
    note: str | int = ""
    published: bool = False


@dataclass(frozen=True)
class ResultTable:
    """A table of results as the template draws it."""

    title: str
    note: str
    groups: tuple[Family, ...]
    rows: list[TableRow]
    notes: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[Metric]:
        """Columns of all groups, from left to right."""
        return [column for group in self.groups for column in group.columns]

    @property
    def bodies(self) -> list[tuple[str, list[TableRow]]]:
        """Rows by kind, in their order."""
        return [(kind, list(rows)) for kind, rows in groupby(self.rows, lambda row: row.kind)]


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
    rows, flags = [], dict[str, int]()
    for system in (*block.floors, *block.runs, *block.groups):
        cells = [value_cell(column, system.values.get(column.key),
                            system.kind != "floor" and system.name == best[column.key]) for column in layout.columns]
        rows.append(TableRow(system.title, system.kind, cells,
                             "mean ± sd over seeds" if system.kind == "seeds" else ""))
        if system in block.systems:
            rows += _published_rows(system, layout, block, flags)
    return ResultTable(layout.title, layout.note, layout.groups, rows, [NOTES[flag] for flag in flags])


def _published_rows(system: System, layout: TableLayout, block: Block, flags: dict[str, int]) -> Iterator[TableRow]:
    """Yield the published values of a system, a row for each table of the paper; ``flags`` numbers their notes."""
    for table in block.track.published:
        if table.kind != block.kind or table.human:
            continue
        for name in [row.name for row in system.published if row.name in table.rows]:
            row = table.rows[name]
            if any(column.key in row.cells for column in layout.columns):
                cells = [_published_cell(column, row.cells.get(column.key), table.scale, flags)
                         for column in layout.columns]
                number_of = flags.setdefault(row.flag, len(flags) + 1) if row.flag else ""
                yield TableRow(f"paper, Table {table.number}: {name}", system.kind, cells, number_of, published=True)


def _published_cell(column: Metric, cell: PublishedCell | None, scale: int, flags: dict[str, int]) -> Cell:
    """Return a published value in our unit; the text as printed if that is the unit of the paper."""
    if cell is None:
        return Cell("")
    text = cell.text if scale == 1 else number(cell.value / scale, max(column.digits, 4))
    return Cell(text, note=flags.setdefault(cell.flag, len(flags) + 1) if cell.flag else 0)


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
