"""Tables of results as Markdown: the metrics of a paper, ordinary ones, and what each part of a method is worth."""

from collections.abc import Sequence

from pipeline.markdown import escaped, table
from stages.metrics.registered import Metric, metric
from stages.results.model import HELPS, ONE_SEED, Block, Difference, System, Value
from stages.results.published import NOTES, PublishedRow
from stages.tracks.common.schemas import STRATA

NOTHING = "–"


def main_table(block: Block, level: float) -> list[str]:
    """Return the table as the track's paper reports it, every row with its interval and the published row below it.

    Of two published rows of a system the last stands there, that of the ablations.
    """
    columns = _measured(list(map(metric, block.track.reported)), block)
    rows, flags, beside = [], [], set()
    for system in (*block.floors, *block.systems):
        rows += _system_rows(system, columns, block.track.scale, level)
        # Two readings of one row of the paper stand beside it together.
        if system.published and system.published[-1].name not in beside:
            beside.add(system.published[-1].name)
            row, found = _published_cells(system.published[-1], columns)
            rows.append(row)
            flags += found
    lines = table(["row", *map(block.track.heading, columns)], rows)
    return lines + [line for flag in dict.fromkeys(flags) for line in ("", f"({flag}) {NOTES[flag]}")]


def ordinary_table(block: Block) -> list[str]:
    """Return ordinary BLEU, ROUGE, BERTScore, variety, rewriting and keyword retention."""
    columns = _measured(block.track.further, block)
    rows = [[_name(system), *(_text(system.values.get(column.key), column) for column in columns)]
            for system in (*block.floors, *block.systems)]
    return table(["row", *(column.name for column in columns)], rows)


def by_stratum(block: Block, level: float) -> list[str]:
    """Return headline metrics of each system within each stratum, and the full method less it, with its interval.

    A difference whose interval excludes 0 is bold. Nothing where items have no strata.
    """
    columns = _measured(list(map(metric, block.track.by_stratum)), block)
    rows = [[STRATA[name].title, f"{part.counts['examples']:,}", _name(system),
             *(_beside_full(part, system, column) for column in columns)]
            for name, part in block.strata.items() for system in (*part.floors, *part.systems)]
    if not rows:
        return []
    full = "" if block.full is None else (
        f"; in brackets **{escaped(block.full.name)}** minus it on the same items, with the {100 * level:g} % interval "
        f"of that over items and seeds (items alone where there is one seed), bold where seeds and items both find it")
    meanings = ", ".join(f"*{STRATA[name].title}*: {STRATA[name].meaning}" for name in block.strata)
    return [f"Items by what training has seen of the keyword of their input ({meanings}). The value of each row{full}.",
            "", *table(["stratum", "items", "row", *map(block.track.heading, columns)], rows, left=3)]


def _beside_full(part: Block, system: System, column: Metric) -> str:
    scale, value = part.track.scale, system.values.get(column.key)
    text = NOTHING if value is None else column.text(value.mean, scale)
    found = None if part.full is None else part.difference(part.full.compared_as, system.compared_as, column.key)
    if found is None:
        return text
    less, low, high = (column.text(one, scale, "+") for one in (found.difference, *found.ends))
    return f"{text} ({f'**{less}**' if found.sign else less}, {low} to {high})"


def has_published(block: Block) -> bool:
    """Return whether a published row stands in the main table of a block."""
    return any(system.published for system in block.systems)


def _measured(columns: Sequence[Metric], block: Block) -> list[Metric]:
    return [one for one in columns if any(one.key in system.values for system in (*block.floors, *block.systems))]


def _system_rows(system: System, columns: Sequence[Metric], scale: int, level: float) -> list[list[str]]:
    values = [system.values.get(column.key) for column in columns]
    rows = [[_name(system), *(_text(value, column, scale) for value, column in zip(values, columns, strict=True))]]
    if any(value and value.interval for value in values):
        rows.append([f"{100 * level:g} % interval", *(_range(value, column, scale)
                                                      for value, column in zip(values, columns, strict=True))])
    return rows


def _name(system: System) -> str:
    return f"**{escaped(system.title)}**" if system.runs else f"*floor: {escaped(system.name)}*"


def _text(value: Value | None, column: Metric, scale: int = 1) -> str:
    if value is None:
        return NOTHING
    return column.text(value.mean, scale) + ("" if value.sd is None else f" ± {column.text(value.sd, scale)}")


def _range(value: Value | None, column: Metric, scale: int) -> str:
    if value is None or value.interval is None:
        return NOTHING
    return " to ".join(column.text(end, scale) for end in value.interval)


def _published_cells(row: PublishedRow, columns: Sequence[Metric]) -> tuple[list[str], list[str]]:
    cells, flags = [f"*paper: {escaped(row.name)}*" + (f" ({row.flag})" if row.flag else "")], [row.flag]
    for column in columns:
        cell = row.cells.get(column.key)
        flags.append(cell.flag if cell else "")
        cells.append(NOTHING if cell is None else cell.text + (f" ({cell.flag})" if cell.flag else ""))
    return cells, [flag for flag in flags if flag]


def worth(block: Block, level: float) -> list[str]:
    """Return what each row's difference from the full method says of the part that the row does without.

    A part helps on a metric if the interval of full method minus row lies above 0 (below, where less is better),
    it hurts if it lies on the other side, and otherwise that cannot be told at this size.
    """
    base, track = block.full, block.track
    if base is None:
        return ["No row is the full method, so that there is nothing to compare the others with."]
    rows, details = [], []
    for system in block.systems:
        if system is not base:
            found = _judged(block, base, system)
            details += [_detail(system, one, block) for one in found]
            rows.append([escaped(system.name), escaped(system.label), *_by_verdict(found, block),
                         _relative(system, base, track.lead), _paper_relative(system, base, block)])
    lines = [_rule(base, block, level, len(details)), *_against_floors(block, base)]
    if not rows:
        return lines
    heads = ["row", "what it is", "helps on", "hurts on", "cannot be told at this size",
             f"{metric(track.lead).label}, relative", "in the paper"]
    detail_heads = ["row", "metric", escaped(base.name), "row", "difference", f"{100 * level:g} % interval", "p",
                    "p over seeds", "could be seen", "what it leaves out"]
    return [*lines, "", *table(heads, rows, left=5), "",
            "<details><summary>Every difference, with its interval and p</summary>", "",
            *table(detail_heads, details, left=2), "", "</details>"]


def _rule(base: System, block: Block, level: float, intervals: int) -> str:
    items = block.counts.get("examples", 0)
    less = " and ".join(block.track.heading(one) for one in block.track.judged if one.direction < 0)
    return (f"**{escaped(base.name)}** minus each row on the same {items:,} items, paired bootstrap. The rule: what a "
            f"row leaves out *helps* on a metric if the {100 * level:g} % interval of the difference over items and "
            "seeds excludes 0 in its favour and a t test over seeds agrees, it *hurts* if they say the opposite, and "
            "otherwise it *cannot be told at this size*. A row of one seed gets no verdict; its interval is over items "
            f"alone. Of {intervals} intervals about {round((1 - level) * intervals)} would exclude 0 by chance alone. "
            f"What could be seen is the difference that so many seeds and items find in four tables of five. Less is "
            f"better of {less}.")


def _judged(block: Block, base: System, other: System) -> list[Difference]:
    """Return ``base`` minus ``other`` on each metric by which parts are judged and that was compared."""
    found = (block.difference(base.compared_as, other.compared_as, one.key) for one in block.track.judged)
    return [one for one in found if one is not None]


def _against_floors(block: Block, base: System) -> list[str]:
    """Return on which metrics the full method is better than outputs that need no model."""
    rows = [[_name(floor), *_by_verdict(found, block)] for floor in block.floors
            if (found := _judged(block, base, floor))]
    heads = ["", f"{escaped(base.name)} is better on", "worse on", "cannot be told at this size"]
    return ["", *table(heads, rows, left=4)] if rows else []


def _by_verdict(found: Sequence[Difference], block: Block) -> list[str]:
    """Return the metrics by verdict: for the first system, against it, and not to be told."""
    if not found:
        return [NOTHING, NOTHING, "(not compared)"]
    if not any(one.judged for one in found):
        return [NOTHING, NOTHING, ONE_SEED]
    return [", ".join(block.track.heading(one.metric) for one in found if one.verdict == verdict) or NOTHING
            for verdict in HELPS]


def _relative(system: System, base: System, lead: str) -> str:
    """Return the leading metric of a row relative to the full method's, in per cent, as HCL's paper gives its drops."""
    mine, full = (one.values.get(lead) for one in (system, base))
    return NOTHING if mine is None or full is None or not full.mean else f"{100 * (mine.mean / full.mean - 1):+.1f} %"


def _paper_relative(system: System, base: System, block: Block) -> str:
    told = block.track.told
    if not system.published or not base.published or (told is not None and system.published[-1].name not in told):
        return NOTHING
    mine, full = (one.published[-1].cells[block.track.lead].value for one in (system, base))
    return f"{100 * (mine / full - 1):+.1f} %"


def _detail(system: System, one: Difference, block: Block) -> list[str]:
    column, scale = one.metric, block.track.scale if one.metric.key in block.track.reported else 1
    low, high = (column.text(end, scale, "+") for end in one.ends)
    return [escaped(system.name), block.track.heading(column), column.text(one.value, scale),
            column.text(one.base_value, scale), column.text(one.difference, scale, "+"), f"{low} to {high}",
            p_text(one.p_value), *over_seeds(one, column, scale), one.said(HELPS)]


def over_seeds(one: Difference, column: Metric, scale: int) -> list[str]:
    """Return p over seeds, and the difference that could have been seen, for people."""
    if one.p_seeds is None or one.detectable is None:
        return [NOTHING, NOTHING]
    return [p_text(one.p_seeds), column.text(one.detectable, scale)]


def p_text(value: float) -> str:
    """Return a p value for people."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
