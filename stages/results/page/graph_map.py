"""The map of a phrase graph: its largest components as drawings whose labels do not overlap.

It looks like the picture of :mod:`keycontrast.picture`: a box for each phrase in the colour of its community, and a
line for each edge, dashed if its sign is negative.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from stages.common.figures import SERIES

_HIGH, _PAD, _GAP, _MARGIN = 22, 18, 5, 4    # pixels: height of a box, beside its label, between boxes, at the frame
_LETTERS, _LETTER = 26, 7.2     # of a label; width of one in pixels, rather too much: the font is not known here
_EDGES = 1.6            # shown edges per node
_ROUNDS, _FURTHER = 600, 60     # passes that move boxes apart: at first, and after one was left out
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
    """An edge on the map: the boxes that it joins, its weight, its sign and its width in pixels."""

    ends: tuple[Box, Box]
    weight: int
    sign: int
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
        edges: columns source, target (row numbers of ``nodes``), weight and, if edges have signs, sign.
    """
    maps = [_map(kind, *shape, nodes, edges) for kind, shape in SHAPES.items()]
    return [one for one in maps if one.boxes]


def _map(kind: str, width: int, height: int, limit: int, nodes: pd.DataFrame, edges: pd.DataFrame) -> GraphMap:
    shown = strongest(edges, largest_components(nodes, limit))
    places = sorted({*shown["source"], *shown["target"]})
    labels = [name if len(name) <= _LETTERS else f"{name[:_LETTERS - 1]}…" for name in nodes["keyword"][places]]
    sizes = np.array([[_width(label) + _PAD, _HIGH] for label in labels]).reshape(-1, 2).round()
    links = np.searchsorted(places, shown[["source", "target"]].to_numpy())
    centres, kept = separated(laid_out(len(places), links), sizes, (width, height))
    colours = {community: SERIES[rank % len(SERIES)] for rank, community in enumerate(
        nodes.loc[places, "community"].value_counts().index)}
    boxes = {place: Box(place, nodes["keyword"][place], labels[row], int(nodes["texts"][place]),
                        colours[nodes["community"][place]], round(x), round(y), int(sizes[row, 0]))
             for row, (place, (x, y)) in enumerate(zip(places, centres, strict=True)) if kept[row]}
    lines = [Line((boxes[edge.source], boxes[edge.target]), int(edge.weight), int(getattr(edge, "sign", 1)),
                  round(min(1 + float(np.log2(edge.weight)), 6), 1))
             for edge in shown.itertuples() if edge.source in boxes and edge.target in boxes]
    return GraphMap(kind, width, height, list(boxes.values()), lines)


def _width(label: str) -> float:
    return _LETTER * sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in label)


def largest_components(nodes: pd.DataFrame, limit: int) -> list[int]:
    """Return at most ``limit`` rows of the largest components; of a component that is too large, those of most texts.
    """
    order = nodes.assign(size=nodes.groupby("component")["component"].transform("size")).sort_values(
        ["size", "component", "texts"], ascending=[False, True, False], kind="stable")
    return order.index[:limit].tolist()


def strongest(edges: pd.DataFrame, places: Sequence[int]) -> pd.DataFrame:
    """Return the edges between ``places`` that the map shows: a spanning forest of the strongest, and further ones."""
    inside = edges[edges["source"].isin(places) & edges["target"].isin(places)].sort_values(
        ["weight", "source", "target"], ascending=[False, True, True], ignore_index=True)
    graph = nx.Graph()
    for edge in inside.itertuples():
        graph.add_edge(edge.source, edge.target, weight=edge.weight, row=edge.Index)
    forest = {row for *_, row in nx.maximum_spanning_tree(graph).edges(data="row")}
    further = [row for row in inside.index if row not in forest][:max(0, round(_EDGES * len(places)) - len(forest))]
    return inside.loc[sorted([*forest, *further])]


def laid_out(count: int, links: np.ndarray) -> np.ndarray:
    """Return places of nodes (n, 2) from 0 to 1, by distances in the graph (Kamada & Kawai 1989), spread evenly."""
    if count == 0:
        return np.zeros((0, 2))
    graph = csr_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(count, count))
    distances = shortest_path(graph, directed=False, unweighted=True)
    finite = np.isfinite(distances)
    distances[~finite] = 1.2 * distances[finite].max()      # components stand beside each other
    network = nx.Graph()
    network.add_nodes_from(range(count))
    start = {node: (np.cos(angle), np.sin(angle)) for node, angle in enumerate(np.linspace(0, 2 * np.pi, count, False))}
    found = nx.kamada_kawai_layout(network, dist={node: dict(enumerate(row)) for node, row in enumerate(distances)},
                                   pos=start)
    places = np.array([found[node] for node in range(count)])
    spans = np.maximum(np.ptp(places, axis=0), 1e-9)
    ranks = places.round(6).argsort(axis=0, kind="stable").argsort(axis=0) / max(count - 1, 1)
    return ((places - places.min(axis=0)) / spans + ranks) / 2


def separated(places: np.ndarray, sizes: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of boxes (n, 2) in a frame in which none overlaps another, and which boxes are kept (n,).

    Boxes are moved apart; where there is no room, the last one in the order of ``places`` is left out.
    """
    low, high = sizes / 2 + _MARGIN, np.array(frame) - sizes / 2 - _MARGIN
    centres, kept = low + places * (high - low), np.ones(len(places), dtype=bool)
    rounds = _ROUNDS
    while True:
        for _ in range(rounds):
            away = centres[:, None] - centres[None]
            need = (sizes[:, None] + sizes[None]) / 2 + _GAP - np.abs(away)
            crossing = (need > 0).all(axis=2) & kept[:, None] & kept[None] & ~np.eye(len(places), dtype=bool)
            if not crossing.any():
                return centres, kept
            # Along the axis that needs the smaller move; equal centres move by their order.
            order = np.sign(np.subtract.outer(np.arange(len(places)), np.arange(len(places))))[..., None]
            sideways = need[..., :1] < 3 * need[..., 1:]
            push = np.where(away != 0, np.sign(away), order) * (need + 1) / 2 * np.concatenate(
                [sideways, ~sideways], axis=2) * crossing[..., None]
            centres = np.clip(centres + push.sum(axis=1), low, high)
        kept[np.flatnonzero(crossing.any(axis=1))[-1]] = False
        rounds = _FURTHER
