"""Alarms of trainings as the page shows them: those of one row that differ in their seed alone are one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stages.common.paths import row_name
from stages.results.model import Model

# Alarms of one contrast: the end of their names is the contrast.
_OF_CONTRAST = re.compile("contrast_(vanished|stuck)_(.+)")


@dataclass(frozen=True)
class Alarm:
    """An alarm that trainings of one row raised.

    Attributes:
        model: row of the params.
        name: for people.
        seeds: that raised it; empty for a row with one seed.
        since: the epochs since which it stands, ``3`` or ``2 to 4``; empty if unknown.
        message: of the first seed, with its figures.
        advice: what to try.
    """

    model: str
    name: str
    seeds: tuple[int, ...]
    since: str
    message: str
    advice: str

    @property
    def of_seeds(self) -> str:
        """Return the seeds in words: ``seeds 13, 14 and 15``; empty for a row with one seed."""
        if not self.seeds:
            return ""
        *others, last = map(str, self.seeds)
        return f"seeds {', '.join(others)} and {last}" if others else f"seed {last}"


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
