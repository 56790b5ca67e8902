"""Classifiers by class, and the effect of each step of CLLD."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from stages.results.model import Block, Difference, System
from stages.results.tracks.clld import encoder_name
from stages.tracks.clld.tables import TWO_VIEWS

_DISTANCE = ("static_tau_pairs", "adaptive")
# A question, the rows in question, and the row that they are compared with.
QUESTIONS = (("Does the contrast help?", ("uniform",), "none"),
             ("Does the label distance help beyond it?", _DISTANCE, "uniform"),
             ("Do both together help?", _DISTANCE, "none"),
             ("Does another contrast help?", ("supcl_seq", "simcse"), "none"),
             ("Does a second view help without a contrast?", (TWO_VIEWS,), "none"),
             ("Does the contrast help beyond a second view?", ("uniform",), TWO_VIEWS),
             ("Do both together help beyond a second view?", _DISTANCE, TWO_VIEWS))


@dataclass(frozen=True)
class Classifier:
    """A run of CLLD by class."""

    classes: pd.DataFrame       # table classes
    confusion: np.ndarray       # number of texts (N, N), rows true, columns predicted
    distances: pd.DataFrame     # table label_distance of the model

    @property
    def names(self) -> list[str]:
        """Name of each class, by index."""
        return self.classes["class"].tolist()

    def confused(self, count: int) -> list[tuple[int, int]]:
        """Return the pairs of classes that are confused most often; equal counts in the order of classes."""
        both = self.confusion + self.confusion.T
        pairs = [(one, other) for one, other in zip(*map(np.ndarray.tolist, np.triu_indices(len(both), 1)), strict=True)
                 if both[one, other]]
        return sorted(pairs, key=lambda pair: -int(both[pair]))[:count]


@dataclass(frozen=True)
class Step:
    """Two systems whose difference answers a question of ``QUESTIONS``, with encoder, row labels and names."""

    question: str
    encoder: str
    row: str
    base: str
    name: str
    base_name: str
    accuracy: Difference
    macro_f1: Difference | None = None


def steps(block: Block) -> list[Step]:
    """Return the compared steps of ``block``, by question, then in the order of systems."""
    found = []
    for question, rows, base_row in QUESTIONS:
        for system in block.systems:
            base = _base(system, base_row, block.systems) if system.settings["kind"] in rows else None
            accuracy = None if base is None else block.difference(system.name, base.name, "accuracy")
            if base is not None and accuracy is not None:
                found.append(Step(question, encoder_name(system.settings["encoder"]), system.settings["row"],
                                  base.settings["row"], system.name, base.name, accuracy,
                                  block.difference(system.name, base.name, "macro_f1")))
    return found


def _base(system: System, row: str, systems: Sequence[System]) -> System | None:
    """Return the first system of ``row`` with the same settings, apart from those that ``row`` does not read."""
    unread = {"kind", "row", "pairs_of", "distance", *(() if row == "uniform" else ("contrast",)),
              *(("ce_views",) if TWO_VIEWS in (row, system.settings["kind"]) else ())}
    return next((other for other in systems if other.settings["kind"] == row
                 and _without(other.settings, unread) == _without(system.settings, unread)), None)


def _without(settings: Mapping[str, Any], unread: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in unread}
