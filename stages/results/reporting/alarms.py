"""What went wrong in training, by name, with what to try."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stages.results.reporting.gather import ModelMaterial

# Alarms of one contrast: the end of their names is the contrast.
_OF_CONTRAST = re.compile("contrast_(vanished|stuck)_(.+)")


@dataclass(frozen=True)
class Alarm:
    """An alarm that a training raised: its name for people, the epoch since which it stands, and what to try."""

    model: str
    name: str
    epoch: int | None
    message: str
    advice: str


def alarms_of(models: Sequence[ModelMaterial]) -> list[Alarm]:
    """Return the alarms of all models, in the order of the params and of their raising."""
    return [Alarm(model.name, alarm_name(str(found.get("name", ""))), found.get("epoch"),
                  str(found.get("message", "")).rstrip("."), str(found.get("advice", "")).rstrip("."))
            for model in models for found in model.metrics.get("alarms", [])]


def alarm_name(name: str) -> str:
    """Return an alarm's name for people: ``contrast_stuck_keyword`` becomes ``Keyword contrast stuck``."""
    found = _OF_CONTRAST.fullmatch(name)
    if found:
        return f"{found[2].capitalize()} contrast {found[1]}"
    return name.replace("_", " ").strip().capitalize() or "Alarm"
