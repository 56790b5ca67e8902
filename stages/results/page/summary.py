"""What helps, what does not, and how sure that is: every system of all tracks in one table, by its leading metric."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stages.common.paths import row_name
from stages.metrics.registered import Metric, metric
from stages.results.model import FLOOR, HELPS, ONE_SEED, Block, Difference, Model, Run, System
from stages.results.page.differences import DifferenceRow, difference_rows
from stages.results.page.tables import Cell, value_cell
from stages.results.track import TrackResults

# Alarms of one contrast: the end of their names is the contrast.
_OF_CONTRAST = re.compile("contrast_(vanished|stuck)_(.+)")
_PLACES = {-1: "above", 1: "below", 0: "not to be told from"}   # of the base, by the verdict on a floor
_APART = {1: "better", -1: "worse", 0: "cannot be told apart"}


@dataclass(frozen=True)
class Alarm:
    """An alarm that trainings of one row raised; ``seeds`` is empty for a row with one seed."""

    model: str
    name: str
    seeds: tuple[int, ...]
    since: str
    message: str
    advice: str

    @property
    def of_seeds(self) -> str:
        """Return the seeds in words: ``seeds 13, 14 and 15``; empty for a row with one seed."""
        plural = "s" if len(self.seeds) > 1 else ""
        return f"seed{plural} {_listed([str(seed) for seed in self.seeds])}" if self.seeds else ""


def alarms_of(models: Sequence[Model]) -> list[Alarm]:
    """Return the alarms of models by row and name, in the order of their raising."""
    raised: dict[tuple[str, str], list[tuple[Model, dict[str, Any]]]] = {}
    for model in models:
        for alarm in model.metrics.get("alarms", []):
            raised.setdefault((row_name(model.name), str(alarm.get("name", ""))), []).append((model, alarm))
    return [_grouped(row, name, found) for (row, name), found in raised.items()]


def _grouped(row: str, name: str, found: Sequence[tuple[Model, dict[str, Any]]]) -> Alarm:
    (first, alarm), *_ = found
    epochs = sorted({int(one["epoch"]) for _, one in found if one.get("epoch")})
    since = " to ".join(map(str, dict.fromkeys([epochs[0], epochs[-1]]))) if epochs else ""
    seeds = tuple(model.seed for model, _ in found) if first.name != row else ()
    return Alarm(row, alarm_name(name), seeds, since, str(alarm.get("message", "")).rstrip("."),
                 str(alarm.get("advice", "")).rstrip("."))


def alarm_name(name: str) -> str:
    """Return an alarm's name for people: ``contrast_stuck_keyword`` becomes ``Keyword contrast stuck``."""
    found = _OF_CONTRAST.fullmatch(name)
    if found:
        return f"{found[2].capitalize()} contrast {found[1]}"
    return name.replace("_", " ").strip().capitalize() or "Alarm"


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
    alarms: list[Alarm] = field(default_factory=list)


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


def summary_block(block: Block, runs: Sequence[Run], alarms: Sequence[Alarm], level: str) -> SummaryBlock:
    """Return what the summary says of one block of results."""
    base, column = block.full or block.systems[0], metric(block.lead)
    others = [system for system in (*block.systems, *block.floors) if system is not base]
    found = {system.name: difference for system in others
             if (difference := block.difference(system.compared_as, base.name, block.lead)) is not None}
    drawn = difference_rows(found)
    models = {run.name: row_name(run.model) for run in runs}
    rows = []
    for system in (*block.floors, *block.systems):
        of_models = {models[run] for run in system.runs if run in models}
        said, verdict = _said(system, base, found.get(system.name), block.track)
        rows.append(SummaryRow(
            system.name, "floor" if system.kind == "floor" else "run", system.label,
            value_cell(column, system.values.get(block.lead)), drawn.get(system.name), said, verdict,
            [alarm for alarm in alarms if alarm.model in of_models]))
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
