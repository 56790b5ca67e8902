"""The results tables: baselines, runs and means over seeds, with the published values below ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from stages.metrics.registered import Family, Metric, metric
from stages.results.model import Block, System, Value
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
    """A baseline, a run, a run under several seeds, or the published row below one (``kind`` says which)."""

    name: str
    kind: str
    cells: list[Cell]
    note: str | int = ""
    published: bool = False


@dataclass(frozen=True)
class ResultTable:
    """A table of results as the template draws it."""

    layout: TableLayout
    rows: list[TableRow]
    notes: list[str]

    @property
    def bodies(self) -> list[tuple[str, list[TableRow]]]:
        """Rows by kind, in their order."""
        return [(kind, list(rows)) for kind, rows in groupby(self.rows, lambda row: row.kind)]


def result_tables(block: Block) -> list[ResultTable]:
    """Return the tables of the measured metrics, that with the leading metric first, those of strata last."""
    listed = {column.key for layout in block.track.layouts for column in layout.columns}
    rest = tuple(metric(key) for key in block.measured if key not in listed)
    layouts = (*block.track.layouts, TableLayout("Further metrics", "", (Family("", rest),)))
    tables = [_result_table(layout, block) for table in layouts if (layout := _measured(table, block.measured))]
    tables.sort(key=lambda table: block.lead not in [column.key for column in table.layout.columns])
    headlines = Family("", tuple(replace(column, label=column.name) for column in map(metric, block.track.by_stratum)))
    for name, part in block.strata.items():
        note = f"Only where {STRATA[name].meaning}: {part.counts['examples']:,} items."
        strata = _measured(TableLayout(f"Stratum: {STRATA[name].title}", note, (headlines,)), part.measured)
        tables += [_result_table(strata, part)] if strata else []
    return tables


def described(setting: Any) -> str:
    """Return a setting of a metric in one line, without checksums: ``{"name": "x", "layer": 6}`` gives ``x, layer 6``.
    """
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
                   if (columns := tuple(column for column in group.columns if column.key in present)))
    return replace(layout, groups=groups) if groups else None


def _result_table(layout: TableLayout, block: Block) -> ResultTable:
    best = {column.key: _best(column, block) for column in layout.columns}
    rows, flags = [], dict[str, int]()
    for system in (*block.baselines, *block.runs, *block.groups):
        cells = [value_cell(column, system.values.get(column.key),
                            system.kind != "baseline" and system.name == best[column.key]) for column in layout.columns]
        rows.append(TableRow(system.title, system.kind, cells,
                             "mean ± sd over seeds" if system.kind == "seeds" else ""))
        if system in block.systems:
            rows += _published_rows(system, layout, block, flags)
    return ResultTable(layout, rows, [NOTES[flag] for flag in flags])


def _published_rows(system: System, layout: TableLayout, block: Block, flags: dict[str, int]) -> Iterator[TableRow]:
    """Yield the published values of a system, a row for each table of the paper; ``flags`` numbers their notes."""
    for table in block.track.published:
        if table.kind != block.kind:
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
    """Return the system that is better than every other beyond chance, over all its seeds; None if there is none."""
    systems = [system for system in block.systems if column.key in system.values]
    for row in systems if len(systems) > 1 else []:
        differences = [block.difference(row.name, other.name, column.key) for other in systems if other is not row]
        if all(difference is not None and difference.verdict > 0 for difference in differences):
            return row.name
    return None


def value_cell(column: Metric, value: Value | None, best: bool = False) -> Cell:
    """Return a value with its deviation over seeds, or else its interval, in small print."""
    if value is None:
        return Cell(MISSING)
    more = "" if value.interval is None else " to ".join(number(end, column.digits) for end in value.interval)
    more = more if value.sd is None else f"± {number(value.sd, column.digits)}"
    return Cell(number(value.mean, column.digits), best, more)


def number(value: float, digits: int = 3) -> str:
    """Return a number for people: thousands apart, ``digits`` decimals unless it is an int."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def percentage(share: float) -> str:
    """Return ``percentage(0.125) == "12.5\u00a0%"``, with a space that does not break."""
    return f"{100 * share:.1f}\u00a0%"


def value_text(value: Any) -> str:
    """Return the text of one value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and 0 < abs(value) < 0.0005:
        return f"{value:.1e}"
    if isinstance(value, (int, float)):
        return number(value)
    return "none" if value is None else str(value)


def settings_text(changes: Mapping[str, Any]) -> str:
    """Return nested settings in one line: ``{"graph": {"iterations": 0}}`` gives ``graph.iterations = 0``."""
    return ", ".join(f"{name} = {value}" for name, value in _dotted(changes))


def _dotted(changes: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in changes.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
