"""The map of a phrase graph: its largest components as drawings whose labels do not overlap.

It looks like the picture of :mod:`keycontrast.picture`: a box for each phrase in the colour of its community, and a
line for each edge.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from keycontrast.picture import laid_out, separated, shortened, strongest, width_of
from stages.common.figures import SERIES

_HIGH, _PAD = 22, 18    # pixels: height of a box, beside its label
_LETTERS = 26           # of a label
# Width and height in pixels, and nodes at most, of the drawing for each kind of window.
SHAPES = {"wide": (860, 620, 64), "narrow": (380, 440, 24)}


@dataclass(frozen=True)
class Box:
    """A phrase on the map: its place in the page's list of phrases, its box in pixels, and its colour."""

    place: int
    name: str
    label: str
    texts: int
    colour: str
    x: int
    y: int
    width: int
    height: int = _HIGH


@dataclass(frozen=True)
class Line:
    """An edge on the map: the boxes that it joins, its weight and its width in pixels."""

    ends: tuple[Box, Box]
    weight: int
    width: float


@dataclass(frozen=True)
class GraphMap:
    """A drawing for windows of one kind."""

    kind: str
    width: int
    height: int
    boxes: list[Box]
    lines: list[Line]


def graph_maps(nodes: pd.DataFrame, edges: pd.DataFrame) -> list[GraphMap]:
    """Return the drawings of a graph, one for each of ``SHAPES`` in which it has an edge.

    Args:
        nodes: columns keyword, texts, component, community; the row number is the place on the page.
        edges: columns source, target (row numbers of ``nodes``) and weight.
    """
    maps = [_map(kind, *shape, nodes, edges) for kind, shape in SHAPES.items()]
    return [drawing for drawing in maps if drawing.boxes]


def _map(kind: str, width: int, height: int, limit: int, nodes: pd.DataFrame, edges: pd.DataFrame) -> GraphMap:
    drawn = largest_components(nodes, limit)
    inside = edges[edges["source"].isin(drawn) & edges["target"].isin(drawn)]
    source, target, weight = (inside[name].to_numpy() for name in ("source", "target", "weight"))
    shown = inside.iloc[strongest(source, target, weight, len(drawn))]
    places = sorted({*shown["source"], *shown["target"]})
    labels = [shortened(name, _LETTERS) for name in nodes["keyword"][places]]
    sizes = np.array([[width_of(label) + _PAD, _HIGH] for label in labels]).reshape(-1, 2).round()
    links = np.searchsorted(places, shown[["source", "target"]].to_numpy())
    centres, kept = separated(laid_out(len(places), links), sizes, (width, height))
    colours = {community: SERIES[rank % len(SERIES)] for rank, community in enumerate(
        nodes.loc[places, "community"].value_counts().index)}
    boxes = {place: Box(place, nodes["keyword"][place], labels[row], int(nodes["texts"][place]),
                        colours[nodes["community"][place]], round(x), round(y), int(sizes[row, 0]))
             for row, (place, (x, y)) in enumerate(zip(places, centres, strict=True)) if kept[row]}
    lines = [Line((boxes[edge.source], boxes[edge.target]), int(edge.weight),
                  round(min(1 + float(np.log2(edge.weight)), 6), 1))
             for edge in shown.itertuples() if edge.source in boxes and edge.target in boxes]
    return GraphMap(kind, width, height, list(boxes.values()), lines)


def largest_components(nodes: pd.DataFrame, limit: int) -> list[int]:
    """Return at most ``limit`` rows: the largest components first, and within a component the rows of most texts."""
    order = nodes.assign(size=nodes.groupby("component")["component"].transform("size")).sort_values(
        ["size", "component", "texts"], ascending=[False, True, False], kind="stable")
    return order.index[:limit].tolist()
