"""What the page opens for a classifier: its classes, its most confused pairs with texts, its label distances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from stages.common.figures import Plot
from stages.results.classifiers import Classifier
from stages.results.model import Block, Run
from stages.results.page.class_plots import calibration_plot, confusion_plot, distance_plot
from stages.results.page.labels import number, percentage
from stages.results.page.tables import MISSING
from stages.results.tracks.clld import encoder_name
from stages.tracks.clld.tables import matrix_at, moved_pairs

PAIRS = 10          # most confused pairs of a run
EXAMPLES = 3        # texts of a pair, in each direction
MOVED = 10
_APART = 40         # pairs of a static matrix that are named


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes that are taken for each other: how many texts each way, and some rows of ``Classifier.mistakes``."""

    one: str
    other: str
    as_other: int
    as_one: int
    examples: list[dict[Any, Any]]

    @property
    def texts(self) -> int:
        """Both ways together."""
        return self.as_other + self.as_one


@dataclass(frozen=True)
class ClassRow:
    """One class: texts, texts that were given it, precision, recall, F1, and what it was taken for most often."""

    name: str
    cells: list[str]
    taken_for: str


@dataclass(frozen=True)
class Distances:
    """The label distances of a model, in words, and as a plot where they are not all 1.

    ``apart`` are pairs that a static matrix sets apart, ``more`` counts the rest; ``moved`` are the pairs that moved
    most: class, other class, first distance, last, change.
    """

    about: str
    plot: Plot | None = None
    apart: list[tuple[str, str]] = field(default_factory=list)
    more: int = 0
    moved: list[tuple[str, str, str, str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class ClassifierView:
    """A run, class by class; ``shown``: its pictures stand in the page, and not only beside it."""

    name: str
    row: str
    encoder: str
    accuracy: str
    confusion: Plot
    calibration: Plot
    classes: list[ClassRow]
    pairs: list[ConfusedPair]
    mistakes: int
    distances: Distances | None
    shown: bool = True

    @property
    def plots(self) -> list[Plot]:
        """All its pictures."""
        heat = [] if self.distances is None or self.distances.plot is None else [self.distances.plot]
        return [self.confusion, *heat, self.calibration]


@dataclass(frozen=True)
class ClassTable:
    """F1 of every class under every system, and how many texts it has."""

    systems: list[str]
    rows: list[tuple[str, int, list[str]]]


def classifier_views(runs: Sequence[Run], budget: int) -> list[ClassifierView]:
    """Return the runs of one block, class by class; pictures beyond ``budget`` bytes stand in files alone.

    Of runs that differ in their seed the first ones come first.
    """
    views = {run.name: _view(run, run.classifier) for run in runs if run.classifier is not None}
    rows = [run.row for run in runs]
    order = sorted(range(len(runs)), key=lambda place: (rows[:place].count(rows[place]), place))
    shown = set()
    for place in order:
        name = runs[place].name
        budget -= sum(len(plot.inline) for plot in views[name].plots)
        if budget >= 0:
            shown.add(name)
    return [replace(view, shown=name in shown) for name, view in views.items()]


def _view(run: Run, found: Classifier) -> ClassifierView:
    names = found.names
    return ClassifierView(
        run.name, run.settings["row"], encoder_name(run.settings["encoder"]),
        percentage(run.metrics["run"]["accuracy"]), confusion_plot(run.name, names, found.confusion),
        calibration_plot(run.name, found.calibration),
        [_class_row(row, counts, names) for row, counts in zip(found.classes.to_dict("records"), found.confusion,
                                                               strict=True)],
        confused_pairs(found), len(found.mistakes), _distances(run, found))


def _class_row(row: Mapping[Any, Any], counts: np.ndarray, names: Sequence[str]) -> ClassRow:
    place, texts, predicted = (int(row[name]) for name in ("number", "texts", "predicted"))
    wrong = counts.copy()
    wrong[place] = 0
    most = int(wrong.argmax())
    # A share of no texts is nothing.
    shares = ((row["precision"], predicted), (row["recall"], texts), (row["f1"], texts + predicted))
    cells = [number(texts), number(predicted), *(number(float(share)) if of else MISSING for share, of in shares)]
    return ClassRow(str(row["class"]), cells, f"{names[most]} ({wrong[most]})" if wrong[most] else "")


def confused_pairs(found: Classifier, count: int = PAIRS) -> list[ConfusedPair]:
    """Return the pairs of classes that are taken for each other most often, with the surest mistakes of each."""
    names, counts = found.names, found.confusion
    by_cell = {cell: rows for cell, rows in found.mistakes.groupby(["label", "predicted"], sort=False)}
    pairs = []
    for one, other in found.confused(count):
        ways = [(names[one], names[other]), (names[other], names[one])]
        examples = [text for way in ways if way in by_cell for text in _surest(by_cell[way])]
        pairs.append(ConfusedPair(names[one], names[other], int(counts[one, other]), int(counts[other, one]), examples))
    return pairs


def _surest(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    ordered = rows.sort_values(["probability", "example_id"], ascending=[False, True])
    return ordered.head(EXAMPLES).to_dict("records")


def _distances(run: Run, found: Classifier) -> Distances | None:
    table, contrast = found.distances, run.settings["kind"]
    if table.empty:
        return None
    last, names = matrix_at(table)
    if contrast == "adaptive":
        return _adaptive(run.name, table, last, names)
    far = [(names[one], names[other]) for one, other in np.argwhere(np.triu(last > 1, 1))]
    if not far:
        return Distances("All classes are 1 apart (CT+CL).")
    pairs_of = run.settings.get("pairs_of")
    which = f"that {pairs_of} confuses most on the validation split" if pairs_of else "that the params name"
    return Distances(f"Static: the {'pair' if len(far) == 1 else f'{len(far)} pairs'} {which} "
                     f"{'is' if len(far) == 1 else 'are'} {last.max():g} apart, all others 1.",
                     distance_plot(run.name, names, last), far[:_APART], max(0, len(far) - _APART))


def _adaptive(run: str, table: pd.DataFrame, last: np.ndarray, names: Sequence[str]) -> Distances:
    moves = table[table["evaluation"] > 0].drop_duplicates("evaluation")
    if moves.empty:
        return Distances("Adaptive, but the training ended before the matrix moved: all classes stayed 1 apart.")
    about = (f"Adaptive: moved {len(moves)} time{'' if len(moves) == 1 else 's'} by the confusions on the validation "
             f"split, first in epoch {moves['epoch'].min()}, last in epoch {moves['epoch'].max()}. What is shown is "
             f"the last matrix.")
    moved = [(row["class"], row["other"], f"{row['first']:.2f}", f"{row['last']:.2f}",
              f"{row['change']:+.2f}".replace("-", "\u2212"))
             for row in moved_pairs(table, MOVED).to_dict("records")]
    return Distances(about, distance_plot(run, names, last) if (last != 1).any() else None, moved=moved)


def class_table(block: Block, runs: Sequence[Run]) -> ClassTable:
    """Return F1 of every class under every system of a block, mean over seeds."""
    known = {run.name: run.classifier.classes for run in runs if run.classifier is not None}
    frames = {system.name: pd.concat([known[run].set_index("class")["f1"] for run in system.runs], axis=1).mean(axis=1)
              for system in block.systems}
    rows = []
    for row in known[block.runs[0].name].to_dict("records"):
        values = [float(frame.get(row["class"], np.nan)) for frame in frames.values()]
        rows.append((str(row["class"]), int(row["texts"]),
                     [number(value) if value == value else MISSING for value in values]))
    return ClassTable(list(frames), rows)
