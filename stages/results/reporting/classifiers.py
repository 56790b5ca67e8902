"""What the page opens for a classifier: its classes, its most confused pairs with texts, its label distances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from stages.figures import Plot
from stages.results.reporting.class_plots import calibration_plot, confusion_plot, distance_plot
from stages.results.reporting.gather import RunMaterial
from stages.results.reporting.gather_clld import ClassifierMaterial
from stages.results.reporting.labels import number, percentage
from stages.results.reporting.results import MISSING, Cell
from stages.tracks.clld.distances import matrix_at, moved_pairs

PAIRS = 10          # most confused pairs of a run
EXAMPLES = 3        # texts of a pair, in each direction
MOVED = 10
_APART = 40         # pairs of a static matrix that are named


@dataclass(frozen=True)
class MistakenText:
    """A text that was given the class of another."""

    example_id: int
    text: str
    label: str
    predicted: str
    probability: str


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes that are taken for each other: how many texts each way, and some of them."""

    one: str
    other: str
    as_other: int
    as_one: int
    examples: list[MistakenText]

    @property
    def texts(self) -> int:
        """Both ways together."""
        return self.as_other + self.as_one


@dataclass(frozen=True)
class ClassRow:
    """One class: texts, texts that were given it, precision, recall, F1, and what it was taken for most often."""

    name: str
    cells: list[Cell]
    taken_for: str


@dataclass(frozen=True)
class Distances:
    """The label distances of a model.

    Attributes:
        about: what kind of matrix it is, in words.
        plot: the last matrix; None where all distances are 1.
        apart: pairs that a static matrix sets apart; those beyond what is shown are counted in ``more``.
        moved: pairs that moved most: class, other class, first distance, last, change.
    """

    about: str
    plot: Plot | None = None
    apart: list[tuple[str, str]] = field(default_factory=list)
    more: int = 0
    moved: list[tuple[str, str, str, str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class ClassifierView:
    """A run, class by class.

    Attributes:
        name, row, encoder: of the run, and what its model is.
        accuracy: for people.
        confusion, calibration: pictures.
        shown: the pictures stand in the page, and not only beside it.
    """

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
    rows: list[tuple[str, int, list[Cell]]]


def classifier_views(runs: Sequence[RunMaterial], materials: Mapping[str, ClassifierMaterial],
                     budget: int) -> list[ClassifierView]:
    """Return the runs of one block, class by class.

    Args:
        runs: in the order of the params.
        materials: by run.
        budget: bytes of pictures in the page; those of runs beyond it stand in files alone. Of runs that differ in
            their seed the first ones come first.
    """
    views = {run.name: _view(run, materials[run.name]) for run in runs}
    kinds = [(materials[run.name].kind.contrast, materials[run.name].kind.encoder) for run in runs]
    order = sorted(range(len(runs)), key=lambda place: (kinds[:place].count(kinds[place]), place))
    shown = set()
    for place in order:
        name = runs[place].name
        budget -= sum(len(plot.inline) for plot in views[name].plots)
        if budget >= 0:
            shown.add(name)
    return [replace(view, shown=name in shown) for name, view in views.items()]


def _view(run: RunMaterial, material: ClassifierMaterial) -> ClassifierView:
    names = material.names
    return ClassifierView(
        run.name, material.kind.label, material.kind.encoder_name, percentage(run.metrics["run"]["accuracy"]),
        confusion_plot(run.name, names, material.confusion), calibration_plot(run.name, material.calibration),
        [_class_row(row, counts, names) for row, counts in zip(material.classes.to_dict("records"),
                                                               material.confusion, strict=True)],
        confused_pairs(material), len(material.mistakes), _distances(run.name, material))


def _class_row(row: Mapping[Any, Any], counts: np.ndarray, names: Sequence[str]) -> ClassRow:
    place, texts, predicted = (int(row[name]) for name in ("number", "texts", "predicted"))
    wrong = counts.copy()
    wrong[place] = 0
    most = int(wrong.argmax())
    cells = [_count(texts), _count(predicted), _share(row["precision"], predicted), _share(row["recall"], texts),
             _share(row["f1"], texts + predicted)]
    return ClassRow(str(row["class"]), cells, f"{names[most]} ({wrong[most]})" if wrong[most] else "")


def _count(value: int) -> Cell:
    return Cell(number(value), value=float(value))


def _share(value: float, of: int) -> Cell:
    """Return a share of ``of`` texts; a share of none is nothing."""
    return Cell(number(float(value)), value=float(value)) if of else Cell(MISSING)


def confused_pairs(material: ClassifierMaterial, count: int = PAIRS) -> list[ConfusedPair]:
    """Return the pairs of classes that are taken for each other most often, with the surest mistakes of each.

    Equal counts stand in the order of classes.
    """
    names, counts = material.names, material.confusion
    pairs = [(one, other) for one in range(len(names)) for other in range(one + 1, len(names))
             if counts[one, other] + counts[other, one]]
    pairs.sort(key=lambda pair: (-int(counts[pair] + counts[pair[::-1]]), pair))
    by_cell = {cell: rows for cell, rows in material.mistakes.groupby(["label", "predicted"], sort=False)}
    found = []
    for one, other in pairs[:count]:
        ways = [(names[one], names[other]), (names[other], names[one])]
        examples = [text for way in ways if way in by_cell for text in _surest(by_cell[way])]
        found.append(ConfusedPair(names[one], names[other], int(counts[one, other]), int(counts[other, one]), examples))
    return found


def _surest(rows: pd.DataFrame) -> list[MistakenText]:
    ordered = rows.sort_values(["probability", "example_id"], ascending=[False, True]).head(EXAMPLES)
    return [MistakenText(int(row["example_id"]), row["text"], row["label"], row["predicted"],
                         f"{row['probability']:.2f}") for row in ordered.to_dict("records")]


def _distances(run: str, material: ClassifierMaterial) -> Distances | None:
    table, contrast = material.distances, material.kind.contrast
    if table.empty:
        return None
    last, names = matrix_at(table)
    if contrast == "adaptive":
        return _adaptive(run, table, last, names)
    off = ~np.eye(len(names), dtype=bool)
    far = [(names[one], names[other]) for one, other in np.argwhere(np.triu(last > 1, 1))]
    if not far:
        return Distances("All classes are 1 apart (CT+CL).")
    tau = f"{last[off].max():g}"
    if contrast == "static_tau_all":
        return Distances(f"Static: every two classes are {tau} apart.")
    which = f"that {material.kind.pairs_of} confuses most on the validation split" if material.kind.pairs_of else \
        "that the params name"
    return Distances(f"Static: the {'pair' if len(far) == 1 else f'{len(far)} pairs'} {which} "
                     f"{'is' if len(far) == 1 else 'are'} {tau} apart, all others 1.", distance_plot(run, names, last),
                     far[:_APART], max(0, len(far) - _APART))


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


def class_table(systems: Mapping[str, Sequence[str]], materials: Mapping[str, ClassifierMaterial]) -> ClassTable:
    """Return F1 of every class, mean over seeds; the best of a class is marked.

    Args:
        systems: runs of each system, by its name.
        materials: by run.
    """
    first = next(iter(materials[run] for runs in systems.values() for run in runs))
    frames = {name: pd.concat([materials[run].classes.set_index("class")["f1"] for run in runs], axis=1).mean(axis=1)
              for name, runs in systems.items()}
    rows = []
    for row in first.classes.to_dict("records"):
        values = [float(frame.get(row["class"], np.nan)) for frame in frames.values()]
        known = [value for value in values if value == value]
        best = max(known) if len(set(known)) > 1 else None
        rows.append((str(row["class"]), int(row["texts"]), [
            Cell(f"{value:.3f}", value == best, value) if value == value else Cell(MISSING) for value in values]))
    return ClassTable(list(systems), rows)
