"""Pictures of a classifier: its confusions, its label distances (CLLD Figure 2), and how sure it may be.

A matrix is drawn as one shape per shade, so that 52 classes make no huge file, and in the page's own colours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from stages.common.figures import PALETTE, Plot, drawing, file_name, finished, text_width, xml_text
from stages.results.page.labels import number, percentage

_SHADES = 14
_LETTERS = 26           # of a class name; the tables have all of it
_COUNTED = 12           # classes up to which a cell says its number
_NOTED = 40             # confusions that say themselves beside the pointer
_EDGE, _SCALE, _HEAD, _GAP = 0.1, 0.6, 0.26, 0.05     # inches


@dataclass(frozen=True)
class _Layer:
    """Cells of one colour: a share of 1 is the full colour, 0 none."""

    colour: str
    shares: np.ndarray


@dataclass(frozen=True)
class _Sheet:
    """A matrix: names of rows and columns, colours over each other, and by cell its text and its note.

    ``scale`` labels no and full colour of the first layer on a strip on the right; empty for none.
    """

    classes: Sequence[str]
    layers: Sequence[_Layer]
    texts: Mapping[tuple[int, int], str]
    caption: str
    notes: Mapping[tuple[int, int], str] = field(default_factory=dict)
    scale: tuple[str, ...] = ()


def confusion_plot(run: str, classes: Sequence[str], counts: np.ndarray) -> Plot:
    """Return the confusion matrix of a run; ``counts`` are texts (N, N), rows true, columns predicted."""
    texts = counts.sum(1, keepdims=True)
    shares = counts / np.maximum(texts, 1)                    # of the texts of the class
    right = np.diag(np.diag(shares))
    wrong = np.sqrt(shares - right)                           # few confusions are to be seen too
    order = [(int(row), int(column)) for row, column in zip(*np.nonzero(counts), strict=True)]
    mistaken = sorted((cell for cell in order if cell[0] != cell[1]), key=lambda cell: (-counts[cell], cell))
    notes = {(row, column): f"{classes[row]} taken for {classes[column]}: {counts[row, column]} of {texts[row, 0]} "
                            f"{'text' if texts[row, 0] == 1 else 'texts'}" for row, column in mistaken[:_NOTED]}
    sheet = _Sheet(classes, [_Layer("first", right), _Layer("second", wrong)],
                   {cell: number(int(counts[cell])) for cell in order} if len(classes) <= _COUNTED else {},
                   "rows: true class; columns: predicted", notes)
    accuracy = np.trace(counts) / max(1, counts.sum())
    return _matrix_plot(sheet, file_name("confusion", run), f"Confusions of {run}",
                        f"{percentage(float(accuracy))} right; most confused: "
                        + ("; ".join(list(notes.values())[:3]) or "nothing"))


def distance_plot(run: str, classes: Sequence[str], distances: np.ndarray) -> Plot:
    """Return a label distance matrix d (N, N) in grey, as CLLD's Figure 2: the further apart, the darker."""
    low, high = min(1.0, float(distances.min())), max(1.0, float(distances.max()))
    shares = (distances - low) / (high - low) if high > low else np.zeros_like(distances)
    few = len(classes) <= _COUNTED
    far = [(int(row), int(column)) for row, column in zip(*np.nonzero(shares), strict=True)]
    furthest = sorted(far, key=lambda cell: (-distances[cell], cell))
    said = [f"{classes[row]} and {classes[column]}: {distances[row, column]:.2f}" for row, column in furthest]
    sheet = _Sheet(classes, [_Layer("ink", shares)],
                   {cell: f"{distances[cell]:.2f}" for cell in far} if few else {},
                   "shade: label distance", dict(zip(furthest[:_NOTED], said, strict=False)),
                   (f"{low:g}", f"{high:.3g}"))
    return _matrix_plot(sheet, file_name("label-distance", run), f"Label distance of {run}",
                        f"from {low:g} to {high:.3g}; furthest apart: " + ("; ".join(said[:3]) or "none"))


def calibration_plot(run: str, bins: pd.DataFrame) -> Plot:
    """Return how often a run is right when it is so sure: a bar per bin, and on the diagonal what it claims."""
    known = bins[bins["texts"] > 0]
    with drawing(3.4, 3.3) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        middles, widths = (known["from"] + known["to"]) / 2, known["to"] - known["from"]
        upper.bar(middles, known["accuracy"], widths * 0.92, color=PALETTE["first"])
        upper.plot([0, 1], [0, 1], linestyle="--", linewidth=1.1, color=PALETTE["muted"])
        upper.plot(known["confidence"], known["accuracy"], linestyle="none", marker="o", markersize=3.4,
                   markerfacecolor=PALETTE["paper"], markeredgecolor=PALETTE["ink"], clip_on=False, zorder=3)
        upper.set_ylim(0, 1.02)
        upper.set_ylabel("share right")
        lower.bar(middles, known["texts"], widths * 0.92, color=PALETTE["slate"])
        lower.set_xlim(0, 1)
        lower.set_xlabel("probability of the predicted class")
        lower.set_ylabel("texts")
        lower.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=3))
        described = "; ".join(f"{row['from']:.2f} to {row['to']:.2f}: {row['texts']} texts, "
                              f"{percentage(row['accuracy'])} right at {percentage(row['confidence'])} on average"
                              for row in known.to_dict("records"))
        return finished(figure, file_name("calibration", run), f"Calibration of {run}", described or "no texts")


def _matrix_plot(sheet: _Sheet, name: str, title: str, description: str) -> Plot:
    count, labels = len(sheet.classes), [_short(one) for one in sheet.classes]
    cell = 0.46 if count <= _COUNTED else max(0.145, 5.0 / count)
    size = 8.0 if count <= 30 else 6.5
    names = max([text_width(label, size) for label in labels], default=0.0) + 0.12
    side = cell * count
    width = max(_EDGE + names + side + (_SCALE if sheet.scale else _EDGE), text_width(sheet.caption, size))
    height = _HEAD + side + names + _EDGE
    left, bottom = (_EDGE + names) / width, (_EDGE + names) / height
    with drawing(width, height) as figure:
        figure.set_layout_engine("none")
        axes = figure.add_axes((left, bottom, side / width, side / height))
        _frame(axes, labels, size, _GAP / cell)
        figure.text(_EDGE / width, 1 - 0.06 / height, sheet.caption, va="top", ha="left", fontsize=size,
                    color=PALETTE["muted"])
        for layer in sheet.layers:
            _shade(axes, layer, sheet.notes)
        _write(axes, sheet, min(8.0, size))
        if sheet.scale:
            _strip(figure, sheet, (_EDGE + names + side + 0.1) / width, bottom, side / height, width)
        return finished(figure, name, title, description,
                        {_gid(place): note for place, note in sheet.notes.items()})


def _frame(axes: Axes, labels: Sequence[str], size: float, gap: float) -> None:
    """Draw the edge of a matrix and the names along it, as plain texts: axes with many ticks take long to draw."""
    count = len(labels)
    axes.set_axis_off()
    axes.set_xlim(0, count)
    axes.set_ylim(count, 0)
    axes.add_patch(Rectangle((0, 0), count, count, facecolor="none", edgecolor=PALETTE["line"], clip_on=False))
    for place, label in enumerate(labels):
        axes.text(-gap, place + 0.5, label, ha="right", va="center", fontsize=size)
        axes.text(place + 0.5, count + gap, label, ha="center", va="top", rotation=90, fontsize=size)


def _shade(axes: Axes, layer: _Layer, notes: Mapping[tuple[int, int], str]) -> None:
    """Draw all cells of a layer, those of one shade as one shape; cells with a note are shapes of their own."""
    levels = np.ceil(np.round(layer.shares * _SHADES, 9)).astype(int)
    noted = {cell for cell in notes if levels[cell] > 0}
    plain = levels.copy()
    for cell in noted:
        plain[cell] = 0
    for level in range(1, _SHADES + 1):
        strips = _strips(plain == level)
        if strips:
            axes.add_patch(_patch(strips, layer.colour, level))
    for row, column in sorted(noted):
        patch = _patch([(row, column, column + 1)], layer.colour, int(levels[row, column]))
        patch.set_gid(_gid((row, column)))
        axes.add_patch(patch)


def _strips(cells: np.ndarray) -> list[tuple[int, int, int]]:
    """Return the runs of true cells in each row as (row, first column, column after the last)."""
    found = []
    for row, line in enumerate(cells):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(np.int8)))
        found += [(row, int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
    return found


def _patch(strips: Sequence[tuple[int, int, int]], colour: str, level: int) -> PathPatch:
    corners = [[(start, row), (end, row), (end, row + 1), (start, row + 1), (start, row)] for row, start, end in strips]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(strips)
    path = Path(np.array(corners, dtype=float).reshape(-1, 2), codes)
    return PathPatch(path, facecolor=PALETTE[colour], alpha=round(level / _SHADES, 3), linewidth=0, edgecolor="none")


def _write(axes: Axes, sheet: _Sheet, size: float) -> None:
    depth = np.sum([layer.shares for layer in sheet.layers], axis=0)
    for (row, column), text in sheet.texts.items():
        dark = depth[row, column] > 0.55
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=size,
                  color=PALETTE["paper" if dark else "ink"])


def _strip(figure: Figure, sheet: _Sheet, left: float, bottom: float, height: float, width: float) -> None:
    """Draw the shades from none at the bottom to the full colour at the top, with their values."""
    axes = figure.add_axes((left, bottom, 0.12 / width, height))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, _SHADES)
    for level in range(1, _SHADES + 1):
        axes.add_patch(_patch([(level - 1, 0, 1)], sheet.layers[0].colour, level))
    axes.set_axis_off()
    for place, text in zip((0, _SHADES), sheet.scale, strict=True):
        axes.text(1.3, place, text, ha="left", va="center", fontsize=8.0, color=PALETTE["muted"])


def _gid(cell: tuple[int, int]) -> str:
    return f"cell-{cell[0]}-{cell[1]}"


def _short(name: str) -> str:
    """Return a class name on one line, cut to what the edge of a picture holds."""
    name = xml_text(" ".join(name.split())) or "(blank)"
    return name if len(name) <= _LETTERS else name[:_LETTERS - 1] + "…"
