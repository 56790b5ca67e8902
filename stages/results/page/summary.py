"""What helps, what does not, and how sure that is: every system of all tracks in one table, by its leading metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stages.metrics.registered import Metric, metric
from stages.results.model import FLOOR, HELPS, ONE_SEED, Block, Difference, System
from stages.results.page.differences import DifferenceRow, difference_rows
from stages.results.page.tables import Cell, value_cell
from stages.results.track import TrackResults

_PLACES = {-1: "above", 1: "below", 0: "not to be told from"}   # of the base, by the verdict on a floor
_APART = {1: "better", -1: "worse", 0: "cannot be told apart"}


@dataclass(frozen=True)
class SummaryRow:
    """A floor or a run, all its seeds taken together: its value, its difference from the base, and that in words."""

    name: str
    kind: str
    label: str
    value: Cell
    difference: DifferenceRow | None
    said: str
    verdict: str = ""


@dataclass(frozen=True)
class SummaryBlock:
    """Systems on the same items, in a table and in a sentence or two; ``base`` is what the others are compared with."""

    track: TrackResults
    heading: str
    column: Metric
    base: str
    items: int
    rows: list[SummaryRow]
    told: str
    sure: str


def summary_block(block: Block, level: str) -> SummaryBlock:
    """Return what the summary says of one block of results."""
    base, column = block.full or block.systems[0], metric(block.lead)
    others = [system for system in (*block.systems, *block.floors) if system is not base]
    found = {system.name: difference for system in others
             if (difference := block.difference(system.compared_as, base.name, block.lead)) is not None}
    drawn = difference_rows(found)
    rows = []
    for system in (*block.floors, *block.systems):
        said, verdict = _said(system, base, found.get(system.name), block.track)
        rows.append(SummaryRow(
            system.name, "floor" if system.kind == "floor" else "run", system.label,
            value_cell(column, system.values.get(block.lead)), drawn.get(system.name), said, verdict))
    return SummaryBlock(block.track, f"{block.dataset}, {block.split} split", column, base.name,
                        int(block.counts.get("examples", 0)), rows, _told(block, base, found, column),
                        _sure(block.systems, level, bool(found)))


def _said(system: System, base: System, difference: Difference | None, track: TrackResults) -> tuple[str, str]:
    """Return what a row's difference says, and the class of text that it has."""
    if system is base:
        return "the others are compared with it", ""
    if difference is None:
        return "not compared", ""
    if not difference.judged:
        return ONE_SEED, ""
    part = _removed(system, base, track)
    # What the row lacks helps if the row is worse.
    verdict = -difference.verdict if part else difference.verdict
    colour = {1: "better-text", -1: "worse-text", 0: ""}[verdict]
    if part:
        return (f"{part} {HELPS[verdict]}" if verdict else f"whether {part} helps cannot be told"), colour
    return _APART[verdict], colour


def _removed(system: System, base: System, track: TrackResults) -> str:
    """Return what ``system`` lacks of the full method, in words; empty if it differs otherwise."""
    if system.row is None or base.row != track.full or track.full is None:
        return ""
    own, full = system.row, track.full
    parts = [track.names.part(switch) for switch in sorted(own.switches)]
    if own.architecture != full.architecture or len(parts) != 1 or not parts[0]:
        return ""
    return parts[0]


def _told(block: Block, base: System, found: Mapping[str, Difference], column: Metric) -> str:
    """Return in words which rows are apart from the base beyond chance, and which floors."""
    if not found:
        return "Nothing was compared."
    floors = [system for system in block.floors if system.name in found and found[system.name].judged]
    single = [one.name for one in found.values() if not one.judged]
    if len(single) == len(found):
        return " ".join(["One seed each: another training may end otherwise, so there are no verdicts.",
                         *_as_trained(base, [found[one.name] for one in block.floors if one.name in found])])
    parts: dict[int, list[str]] = {1: [], -1: [], 0: []}
    apart: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for system in block.systems:
        if system.name in found and found[system.name].judged:
            part, verdict = _removed(system, base, block.track), found[system.name].verdict
            parts[-verdict].append(part) if part else apart[verdict].append(system.name)
    told = [f"One seed, no verdict: {_listed(single)}."] if single else []
    if not any(lists[sign] for lists in (parts, apart) for sign in (1, -1)):
        told += [f"No row differs from {base.name} in {column.name} beyond chance at this size."] * bool(
            parts[0] or apart[0])
    else:
        told += [f"{word} beyond chance: {_listed(names)}." for word, names in (
            ("Helps", parts[1]), ("Hurts", parts[-1]), (f"Better than {base.name}", apart[1]),
            (f"Worse than {base.name}", apart[-1])) if names]
        told += [f"Cannot be told at this size: {_listed([*parts[0], *apart[0]])}."] if parts[0] or apart[0] else []
    said = [f"{word} {_listed(names)}" for sign, word in _PLACES.items()
            if (names := [one.name for one in floors if found[one.name].verdict == sign])]
    return " ".join([*told, *([f"Against the floors, {base.name} is {'; '.join(said)}."] if said else [])])


def _as_trained(base: System, floors: Sequence[Difference]) -> list[str]:
    """Return where the one training that there is stands among floors, by the interval over items."""
    said = [f"{word} {_listed(names)}" for sign, word in _PLACES.items() if (names := [
        one.name.removeprefix(FLOOR) for one in floors if one.over_items == sign])]
    return [f"Over these items alone, {base.name} as it was trained is {'; '.join(said)}."] if said else []


def _sure(systems: Sequence[System], level: str, compared: bool) -> str:
    """Return what the intervals hold, and what they do not."""
    seeds = sorted({max(1, len(system.seeds)) for system in systems})
    over = f"Intervals are {level}, over items" if compared else "No intervals of differences"
    if seeds == [1]:
        return f"{over}, and chance in training is not in them."
    count = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{over} and seeds, of means over {count} seeds." if compared else f"{over}, of means over {count} seeds."


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
