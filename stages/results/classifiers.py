"""Classifiers class by class: what they take for what; and what each step of CLLD adds to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from stages.common.paths import ModelPaths, RunPaths
from stages.results.artifacts import model_table, run_table, wrong_predictions
from stages.results.model import Block, Difference, System
from stages.results.track import TrackResults
from stages.results.tracks.clld import encoder_name
from stages.tracks.clld.rows import TWO_VIEWS
from stages.tracks.clld.schemas.evaluated import CALIBRATION, CLASSES, CONFUSION
from stages.tracks.clld.schemas.trained import LABEL_DISTANCE

LETTERS = 400       # of a text; what is beyond is left out
_DISTANCE = ("static_tau_pairs", "adaptive")
# Question; rows that are asked about; the row that they are compared with.
QUESTIONS = (("Does the contrast help?", ("uniform",), "none"),
             ("Does the label distance help beyond it?", _DISTANCE, "uniform"),
             ("Do both together help?", _DISTANCE, "none"),
             ("Does another contrast help?", ("supcl_seq", "simcse"), "none"),
             ("Does a second view help without a contrast?", (TWO_VIEWS,), "none"),
             ("Does the contrast help beyond a second view?", ("uniform",), TWO_VIEWS),
             ("Do both together help beyond a second view?", _DISTANCE, TWO_VIEWS))


@dataclass(frozen=True)
class Classifier:
    """A run of CLLD, class by class.

    Attributes:
        classes: table ``classes``, in the order of the classes.
        confusion: texts (N, N), rows true, columns predicted, in that order.
        calibration: table ``calibration``.
        mistakes: texts that it has wrong: example_id, text (cut), label, predicted, probability.
        distances: table ``label_distance`` of its model; empty for a model without such a matrix.
    """

    classes: pd.DataFrame
    confusion: np.ndarray
    calibration: pd.DataFrame
    mistakes: pd.DataFrame
    distances: pd.DataFrame

    @property
    def names(self) -> list[str]:
        """Name of each class, by index."""
        return self.classes["class"].tolist()

    def confused(self, count: int) -> list[tuple[int, int]]:
        """Return the pairs of classes that are taken for each other most often, equal counts in the order of classes.
        """
        both = self.confusion + self.confusion.T
        pairs = [(one, other) for one, other in zip(*map(np.ndarray.tolist, np.triu_indices(len(both), 1)), strict=True)
                 if both[one, other]]
        return sorted(pairs, key=lambda pair: -int(both[pair]))[:count]


@dataclass(frozen=True)
class Step:
    """Two systems whose difference answers a question.

    Attributes:
        question: see ``QUESTIONS``.
        encoder: of both, for people.
        row, base: their rows in print.
        name, base_name: their names in the comparison.
        accuracy: the difference; ``macro_f1`` likewise, None if that was not compared.
    """

    question: str
    encoder: str
    row: str
    base: str
    name: str
    base_name: str
    accuracy: Difference
    macro_f1: Difference | None = None


def read_classifier(track: TrackResults, run: RunPaths, model: ModelPaths) -> Classifier:
    """Read the tables of ``run`` and of its model.

    Raises:
        InputError: one is missing, or they are of other classes.
    """
    classes, confusion, calibration = (run_table(track, run, schema) for schema in (CLASSES, CONFUSION, CALIBRATION))
    names = classes["class"].tolist()
    if sorted(names) != sorted(confusion["label"].unique()):
        raise InputError(f"run {run.name}: confusion.parquet is of other classes than classes.parquet. Make both again "
                         f"with `keycontrast run evaluate_clld@{run.name}`.")
    square = confusion.pivot(index="label", columns="predicted", values="texts").loc[names, names]
    wrong = wrong_predictions(track, run)
    cut = [text if len(text) <= LETTERS else text[:LETTERS - 1] + "…" for text in wrong["text"]]
    return Classifier(classes, square.to_numpy(np.int64), calibration, wrong.assign(text=cut),
                      model_table(track.name, model, LABEL_DISTANCE))


def steps(block: Block) -> list[Step]:
    """Return the steps that were compared on the texts of ``block``, by question, then in the order of systems."""
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
    """Return the first system of ``row`` with the same settings but for those that ``row`` does not read."""
    unread = {"kind", "row", "pairs_of", "distance", *(() if row == "uniform" else ("contrast",)),
              *(("ce_views",) if TWO_VIEWS in (row, system.settings["kind"]) else ())}
    return next((other for other in systems if other.settings["kind"] == row
                 and _without(other.settings, unread) == _without(system.settings, unread)), None)


def _without(settings: Mapping[str, Any], unread: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in unread}
