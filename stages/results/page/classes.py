"""Pictures of classifiers: confusions, and label distances (CLLD Figure 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import to_rgb

from keycontrast.picture import xml_text
from stages.common.figures import PALETTE, Plot, drawing, file_name, finished
from stages.results.model import Block, Classifier, Run
from stages.results.page.tables import percentage
from stages.results.tracks.clld import encoder_name
from stages.tracks.clld.tables import matrix_at

_LETTERS = 26           # of a class name in a picture
_COUNTED = 12           # classes up to which a cell shows its number
_TOLD = 3               # pairs of classes in words


@dataclass(frozen=True)
class ClassifierView:
    """The first seed of a row: a picture of its confusions, and one of its label distances if they are not all 1."""

    name: str
    row: str
    encoder: str
    accuracy: str
    plots: list[Plot]


def classifier_views(block: Block, runs: Sequence[Run]) -> list[ClassifierView]:
    """Return the first seed of each row of a block."""
    known = {run.name: run for run in runs}
    return [_view(run, run.classifier) for system in block.systems for run in [known[system.runs[0]]]
            if run.classifier is not None]


def _view(run: Run, classifier: Classifier) -> ClassifierView:
    last, names = matrix_at(classifier.distances) if len(classifier.distances) else (np.ones((0, 0)), [])
    plots = [confusion_plot(run.name, classifier)]
    if (last != 1).any():
        plots.append(distance_plot(run.name, names, last))
    return ClassifierView(run.name, run.settings["row"], encoder_name(run.settings["encoder"]),
                          percentage(run.metrics["run"]["accuracy"]), plots)


def confusion_plot(run: str, classifier: Classifier) -> Plot:
    """Return the confusions of a run: rows true, columns predicted, shares of the texts of the class."""
    names, counts = classifier.names, classifier.confusion
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    right = np.diag(np.diag(shares))
    pairs = [f"{names[first]} and {names[other]} ({counts[first, other]} + {counts[other, first]} texts)"
             for first, other in classifier.confused(_TOLD)]
    accuracy = np.trace(counts) / max(1, counts.sum())
    texts = {(int(first), int(other)): str(counts[first, other]) for first, other in np.argwhere(counts)}
    return _matrix_plot(
        names, {"first": right, "second": np.sqrt(shares - right)}, texts,     # the root makes few confusions visible
        file_name("confusion", run), f"Confusions of {run}",
        f"{percentage(float(accuracy))} right; most confused: {'; '.join(pairs) or 'nothing'}")


def distance_plot(run: str, classes: Sequence[str], distances: np.ndarray) -> Plot:
    """Return a label distance matrix d (N, N), as CLLD's Figure 2: the greater, the stronger."""
    low, high = min(1.0, float(distances.min())), float(distances.max())
    shares = (distances - low) / (high - low)
    far = sorted(zip(*np.nonzero(np.triu(shares)), strict=True), key=lambda cell: (-distances[cell], cell))[:_TOLD]
    texts = {(int(first), int(other)): f"{distances[first, other]:.2f}" for first, other in np.argwhere(shares)}
    pairs = [f"{classes[first]} and {classes[other]} ({distances[first, other]:.2f})" for first, other in far]
    return _matrix_plot(classes, {"first": shares}, texts, file_name("label-distance", run), f"Label distance of {run}",
                        f"from {low:g} to {high:.3g}; furthest apart: {'; '.join(pairs)}")


def _matrix_plot(classes: Sequence[str], layers: Mapping[str, np.ndarray], texts: Mapping[tuple[int, int], str],
                 name: str, title: str, description: str) -> Plot:
    """Return a matrix (N, N) of shares as shades, by colour, with ``texts`` in the cells if classes are few."""
    count, labels = len(classes), [_short(label) for label in classes]
    side = 2.2 + (0.4 if count <= _COUNTED else 0.15) * count
    with drawing(side, side) as figure:
        axes = figure.add_subplot()
        for colour, shares in layers.items():
            shades = np.zeros((count, count, 4))
            shades[..., :3], shades[..., 3] = to_rgb(PALETTE[colour]), shares
            axes.imshow(shades, interpolation="none")
        axes.grid(visible=False)
        axes.set_xticks(range(count), labels, rotation=90, fontsize=7)
        axes.set_yticks(range(count), labels, fontsize=7)
        depth = np.sum(list(layers.values()), axis=0)
        for (row, column), text in texts.items() if count <= _COUNTED else ():
            axes.text(column, row, text, ha="center", va="center",
                      color=PALETTE["paper" if depth[row, column] > 0.55 else "ink"], fontsize=8)
        return finished(figure, name, title, description)


def _short(name: str) -> str:
    name = xml_text(" ".join(name.split())) or "(blank)"
    return name if len(name) <= _LETTERS else name[:_LETTERS - 1] + "…"
