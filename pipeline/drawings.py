"""Small graphs as SVG: the neighbourhood of a keyword, and the candidate graph of one text.

Labels are placed where none covers another, cut where they are long, and stay text, so that any script is shown in the
reader's fonts. What a line or a cut label stands for is a note that viewers show beside the pointer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from typing import Any

from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import BoxStyle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as PathOfLine

from stages.common.figures import PALETTE, columns_of, drawing, svg_text, text_width, xml_text

_SIGNS: dict[int, tuple[str, str, Any]] = {1: ("positive", PALETTE["first"], "solid"),
                                           -1: ("negative", PALETTE["second"], "dashed")}
_INK, _MUTED, _PAPER = PALETTE["ink"], PALETTE["muted"], PALETTE["paper"]
_SIZE, _LABEL = 9.0, 30     # points, and columns of a label
_ROW, _GAP, _PAD, _WORD_ROW = 0.34, 1.1, 0.1, 0.36     # inches
_Point = tuple[float, float]


@dataclass(frozen=True)
class Neighbour:
    """A keyword of a neighbourhood.

    Attributes:
        label: the keyword.
        sign: +1 or -1, the side where it stands; 0 for the keyword in the middle.
        hops: edges between it and the middle.
        parent: place of the keyword through which it was reached; its own for the one in the middle.
    """

    label: str
    sign: int
    hops: int
    parent: int


@dataclass(frozen=True)
class SignedEdge:
    """An edge between two places in a list of neighbours: ``target`` receives from ``source``."""

    target: int
    source: int
    sign: int
    count: int


@dataclass(frozen=True)
class Word:
    """A node of a text's candidate graph: its score, whether phrases are built from it, whether it was chosen."""

    label: str
    score: float
    kept: bool
    chosen: bool


def neighbourhood_svg(title: str, nodes: Sequence[Neighbour], edges: Sequence[SignedEdge]) -> str:
    """Return the drawing of a neighbourhood.

    The keyword is in the middle, its positive neighbours in a column on the right, its negative ones on the left, and
    keywords further away in further columns. Edges of the middle and of the path to it are drawn in full, those among
    the others faintly; the head of an arrow is at the keyword that receives.

    Args:
        title: heading, plain text.
        nodes: the middle first; a column keeps their order below each parent.
        edges: no edge joins a keyword to itself.
    """
    widest = max(_width(node.label) for node in nodes) + 2 * _PAD
    places = places_of(nodes, widest)
    across = max(3.4, *(abs(x) + widest / 2 + 0.8 for x, _ in places), text_width(title, 12) / 2 + 0.2)
    tall = max(y for _, y in places) + 0.4
    notes: dict[str, str] = {}
    with drawing(2 * across, 2 * tall + 0.9) as figure:
        axes = _canvas(figure, (-across, across), (tall + 0.3, -tall - 0.6))
        axes.text(0, -tall - 0.3, xml_text(title), ha="center", fontsize=12, weight="bold")
        for number, ((one, other, sign), counts) in enumerate(_pairs(edges).items()):
            notes[f"edge-{number}"] = _note(nodes, one, other, sign, counts)
            axes.add_patch(_arrow(nodes, places, one, other, sign, counts, f"edge-{number}"))
        for number, (node, place) in enumerate(zip(nodes, places, strict=True)):
            notes |= _draw_keyword(axes, node, place, f"keyword-{number}")
        for sign, (name, colour, _) in _SIGNS.items():
            column = [place for node, place in zip(nodes, places, strict=True) if node.sign == sign and node.hops == 1]
            if column:
                axes.text(column[0][0], min(y for _, y in column) - 0.34, f"{name} neighbours", color=colour,
                          ha="center", weight="bold")
        axes.text(0, tall + 0.12, "An arrow points at the keyword that receives. A wide line stands for several "
                  "examples.", ha="center", color=_MUTED, fontsize=8)
        return _titled(svg_text(figure), notes)


def word_graph_svg(title: str, text: str, words: Sequence[Word], edges: Mapping[tuple[int, int], float]) -> str:
    """Return the drawing of a text's candidate graph: words from top to bottom, co-occurrence as arcs.

    Args:
        title: heading, plain text.
        text: the text itself.
        words: nodes in order of first appearance; the area of each grows with its score.
        edges: weight by pair of places in ``words``, the smaller first.
    """
    lines = [title, *_wrapped(text, 76)]
    left = max([_width(word.label) for word in words], default=0.0) + 0.9
    right = max(max([_reach(other - one) for one, other in edges], default=0.0) + 0.8,
                max(text_width(line, 12) for line in lines) - left, 6.0 - left)
    top, bottom = 0.25 * len(lines) + 0.3, _WORD_ROW * len(words) + 0.4
    highest = max([word.score for word in words], default=0.0)
    notes: dict[str, str] = {}
    with drawing(left + right, top + bottom) as figure:
        axes = _canvas(figure, (-left, right), (bottom, -top))
        for place, line in enumerate(lines):
            axes.text(0.1 - left, 0.25 * (place + 1) - top, xml_text(line), fontsize=9 if place else 12,
                      color=_MUTED if place else _INK, weight="normal" if place else "bold")
        for number, ((one, other), weight) in enumerate(edges.items()):
            notes[f"edge-{number}"] = f"{words[one].label} and {words[other].label}: {weight:g}"
            _draw_arc(axes, one, other, weight, f"edge-{number}")
        for place, word in enumerate(words):
            notes |= _draw_word(axes, word, 0.1 - left, _WORD_ROW * (place + 0.5), highest, f"word-{place}")
        axes.text(0.1 - left, bottom - 0.15, "Area and number: score. Filled: kept for phrases. Ring: keyword. Arcs: "
                  "words that stand near each other.", color=_MUTED, fontsize=8)
        return _titled(svg_text(figure), notes)


def places_of(nodes: Sequence[Neighbour], widest: float) -> list[_Point]:
    """Return the centre of each keyword's box in inches: columns beside the middle, each in the order of its parents.

    ``widest`` is the width of the widest box; y grows downwards.
    """
    columns: dict[int, list[int]] = {0: [0]}
    rank = {0: 0}
    for hops in range(1, max(node.hops for node in nodes) + 1):
        for sign in (1, -1):
            members = [index for index, node in enumerate(nodes) if node.hops == hops and node.sign == sign]
            members.sort(key=lambda index: (rank[nodes[index].parent], index))
            rank.update({index: place for place, index in enumerate(members)})
            columns[sign * hops] = members
    places = {index: (column * (widest + _GAP), _ROW * (row - (len(members) - 1) / 2))
              for column, members in columns.items() for row, index in enumerate(members)}
    return [places[index] for index in range(len(nodes))]


def _pairs(edges: Sequence[SignedEdge]) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Join the two directions of a pair that have one sign.

    Returns:
        For (one, other, sign), one < other: how often ``other`` receives from ``one``, and ``one`` from ``other``.
    """
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    for edge in sorted(edges, key=lambda edge: (edge.source, edge.target, edge.sign)):
        one, other = sorted((edge.source, edge.target))
        forth, back = found.get((one, other, edge.sign), (0, 0))
        found[one, other, edge.sign] = (edge.count, back) if edge.source == one else (forth, edge.count)
    return found


def _note(nodes: Sequence[Neighbour], one: int, other: int, sign: int, counts: tuple[int, int]) -> str:
    return "; ".join(f"{nodes[receiver].label} receives from {nodes[giver].label}: {_SIGNS[sign][0]}, {count}"
                     for receiver, giver, count in ((other, one, counts[0]), (one, other, counts[1])) if count)


def _arrow(nodes: Sequence[Neighbour], places: Sequence[_Point], one: int, other: int, sign: int,
           counts: tuple[int, int], gid: str) -> FancyArrowPatch:
    """Return the line of a pair, from the side of one box to that of the other; within a column it goes round outside.
    """
    faint = nodes[other].parent != one and nodes[one].parent != other
    forth, back = counts
    heads = "-" if faint else f"{'<|' if back else ''}-{'|>' if forth else ''}"
    (x, y), (x_other, y_other) = places[one], places[other]
    half, half_other = (_width(nodes[index].label) / 2 + _PAD + 0.02 for index in (one, other))
    if x == x_other:
        side = 1 if x > 0 else -1
        start, end = x + side * half, x_other + side * half_other
        bend = max(start * side, end * side) * side + side * _reach(abs(y_other - y) / _ROW)
        bends = bend, bend
    else:
        side = 1 if x_other > x else -1
        start, end = x + side * half, x_other - side * half_other
        bends = (start + end) / 2, (start + end) / 2
    line = PathOfLine([(start, y), (bends[0], y), (bends[1], y_other), (end, y_other)],
                      [PathOfLine.MOVETO, PathOfLine.CURVE4, PathOfLine.CURVE4, PathOfLine.CURVE4])
    return FancyArrowPatch(
        path=line, arrowstyle=heads, mutation_scale=9, facecolor="none" if heads == "-" else _SIGNS[sign][1],
        edgecolor=_SIGNS[sign][1], linestyle=_SIGNS[sign][2], alpha=0.3 if faint else 1.0,
        linewidth=0.6 if faint else min(0.9 + 0.7 * log2(max(counts)), 4.5), gid=gid)


def _draw_keyword(axes: Axes, node: Neighbour, place: _Point, gid: str) -> dict[str, str]:
    """Draw the box of a keyword with its label; return the note of a label that is cut."""
    x, y = place
    # Further out a sign is that of a path, not of an edge.
    colour = _INK if not node.sign else _SIGNS[node.sign][1] if node.hops == 1 else _MUTED
    wide, high = _width(node.label) + 2 * _PAD, 0.25
    fill = colour if not node.sign else tuple(0.9 + 0.1 * part for part in to_rgb(colour))
    axes.add_patch(FancyBboxPatch((x - wide / 2, y - high / 2), wide, high, facecolor=fill, edgecolor=colour,
                                  linewidth=0.8, boxstyle=BoxStyle.Round(pad=0, rounding_size=0.1), zorder=2))
    axes.text(x, y, xml_text(shortened(node.label)), gid=gid, ha="center", va="center_baseline", zorder=3,
              color=_INK if node.sign else _PAPER, weight="normal" if node.sign else "bold")
    return {gid: node.label} if shortened(node.label) != node.label else {}


def _draw_arc(axes: Axes, one: int, other: int, weight: float, gid: str) -> None:
    top, bottom, reach = _WORD_ROW * (one + 0.5), _WORD_ROW * (other + 0.5), _reach(other - one)
    axes.add_patch(FancyArrowPatch(
        (0, top), (0, bottom), arrowstyle="-", connectionstyle=f"arc3,rad={-2 * reach / (bottom - top)}", shrinkA=0,
        shrinkB=0, color=PALETTE["line"], linewidth=min(1 + weight, 7), gid=gid, zorder=1))
    if weight != 1:
        axes.text(reach + 0.06, (top + bottom) / 2, f"{weight:g}", color=_MUTED, fontsize=7, va="center")


def _draw_word(axes: Axes, word: Word, left: float, y: float, highest: float, gid: str) -> dict[str, str]:
    """Draw a word with its score; return the note of its label."""
    blue = _SIGNS[1][1]
    size = 5 + 16 * sqrt(max(word.score, 0.0) / highest) if highest > 0 else 5.0
    if word.chosen:
        axes.plot(0, y, "o", color=_PAPER, markeredgecolor=_SIGNS[-1][1], markersize=size + 5, gid=f"{gid}-ring")
    axes.plot(0, y, "o", color=blue if word.kept else _PAPER, markeredgecolor=blue, markersize=size, gid=gid)
    axes.text(-0.25, y, xml_text(shortened(word.label)), ha="right", va="center", gid=f"{gid}-label",
              color=_INK if word.kept else _MUTED, weight="bold" if word.chosen else "normal")
    axes.text(left, y, f"{word.score:.4g}", va="center", color=_MUTED, fontsize=8)
    return {f"{gid}-label": word.label} if shortened(word.label) != word.label else {}


def _canvas(figure: Figure, across: tuple[float, float], down: tuple[float, float]) -> Axes:
    """Return axes over the whole figure, in inches, that show nothing of themselves."""
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(*across)
    axes.set_ylim(*down)
    return axes


def _titled(svg: str, notes: Mapping[str, str]) -> str:
    """Return ``svg`` with a note in each part that has one, by its id, and any other font where ours is missing."""
    svg = svg.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")
    return re.sub(r'<g id="([\w-]+)">', lambda part: part[0] + (
        f"<title>{escape(xml_text(notes[part[1]]))}</title>" if part[1] in notes else ""), svg)


def _reach(distance: float) -> float:
    """Return how far to the side an arc over ``distance`` rows goes."""
    return 0.45 * sqrt(distance)


def _width(label: str) -> float:
    return text_width(shortened(label), _SIZE)


def shortened(label: str) -> str:
    """Return ``label`` on one line and cut to 30 columns."""
    label = " ".join(label.split()) or "(blank)"
    if columns_of(label) <= _LABEL:
        return label
    while columns_of(label) >= _LABEL:
        label = label[:-1]
    return label + "…"


def _wrapped(text: str, columns: int) -> list[str]:
    """Return ``text`` in at most three lines of ``columns``, cut between words where there are any."""
    lines = [""]
    for word in re.findall(r"\s*\S+", " ".join(text.split())):
        # Scripts without spaces break anywhere.
        for part in list(word) if columns_of(word) > _LABEL else [word]:
            if lines[-1] and columns_of(lines[-1] + part) > columns:
                lines.append("")
            lines[-1] += part if lines[-1] else part.strip()
    return lines if len(lines) <= 3 else [*lines[:2], lines[2] + " …"]
