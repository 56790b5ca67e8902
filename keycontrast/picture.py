"""A keyword graph as a picture: SVG that needs nothing else, and the layout of labels, which the report shares."""

from __future__ import annotations

import re
import unicodedata
from html import escape
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from keycontrast.cells import printable

if TYPE_CHECKING:
    import pyarrow as pa

_COLOURS = ("#1f6f94", "#b4531f", "#2c7a55", "#7a4fa3", "#8a6100", "#ac3b45", "#56701f", "#4f6178")
_HIGH, _PAD, _GAP, _MARGIN = 24, 18, 5, 4   # pixels: height of a box, beside its label, between boxes, at the frame
_LETTER = 7.2           # width of a character in pixels, rather too much: the font is not known here
_SPARE, _SHAPE = 6.0, 1.5       # area of the picture by that of its boxes; width by height
_ROUNDS, _FURTHER = 600, 60     # passes that move boxes apart: at first, and after one was left out
EDGES = 1.6             # per node, of a drawing that shows the strongest alone
# XML 1.0, production Char.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SLOW = 200             # nodes above which a layout by distances takes minutes
_NEGATIVE = f'stroke="{_COLOURS[1]}" stroke-dasharray="5 3" '
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 15px system-ui, sans-serif; margin: 1.5em; }} svg {{ max-width: 100%; height: auto; }}</style>
</head><body>
<p>{title}</p>
{svg}
</body></html>
"""


def page_of(title: str, svg: str) -> str:
    """Return a page of HTML with a drawing."""
    return _PAGE.format(title=escape(title), svg=svg)


def svg_of(nodes: pa.Table, edges: pa.Table, limit: int, centre: int = -1, unit: str = "text") -> str:
    """Return the drawing of the largest components of a :class:`keycontrast.graph.KeywordGraph`.

    It has at most ``limit`` nodes, the most central ones, and the strongest edges between them; those of node
    ``centre`` come first. Edges may have a column ``sign``: negative ones are dashed. ``unit`` is what column ``texts``
    counts.
    """
    chosen = _largest(nodes, limit)
    names, held, community = (nodes[name].take(chosen).to_pylist() for name in ("keyword", "texts", "community"))
    labels = list(map(shortened, names))
    number = np.full(nodes.num_rows, -1)
    number[chosen] = np.arange(len(chosen))
    source, target, weight = (edges[name].to_numpy() for name in ("source", "target", "weight"))
    rank = weight + weight.max(initial=0) * ((source == centre) | (target == centre))
    source, target = number[source], number[target]
    inside = np.flatnonzero((source >= 0) & (target >= 0))
    inside = inside[strongest(source[inside], target[inside], rank[inside], len(chosen))]
    links = np.stack([source[inside], target[inside]], axis=1)
    places, sizes, (wide, high) = _placed(labels, links)
    sign = edges["sign"].to_numpy() if "sign" in edges.column_names else np.ones_like(weight)
    lines = [f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {_NEGATIVE if side < 0 else ""}'
             f'stroke-width="{min(1 + np.log2(count), 6):.1f}"><title>'
             f'{_xml(names[first])} – {_xml(names[other])}: {side * count}</title></line>'
             for (first, other), count, side, (x, y), (x2, y2) in zip(
                 links.tolist(), weight[inside].tolist(), sign[inside].tolist(), places[links[:, 0]],
                 places[links[:, 1]], strict=True)]
    colour = {group: _COLOURS[place % len(_COLOURS)] for place, group in enumerate(dict.fromkeys(community))}
    boxes = [f'<g><title>{_xml(name)}: {count} {unit}{"s" * (count != 1)}</title><rect x="{x - box[0] / 2:.1f}" '
             f'y="{y - box[1] / 2:.1f}" width="{box[0]:.1f}" height="{box[1]:.1f}" rx="7" stroke="{colour[group]}"/>'
             f'<text x="{x:.1f}" y="{y + 4.5:.1f}" fill="#1b1f24">{_xml(label)}</text></g>'
             for name, label, count, group, (x, y), box in zip(names, labels, held, community, places, sizes,
                                                               strict=True)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        f'font-family="system-ui, sans-serif" font-size="13" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="#fdfdfc"/>',
        '<g stroke="#9aa3ad" stroke-opacity="0.7">', *lines, "</g>",
        '<g fill="#fdfdfc" stroke-width="1.5">', *boxes, "</g>",
        "</svg>"])


def _largest(nodes: pa.Table, limit: int) -> np.ndarray:
    component, worth = nodes["component"].to_numpy(), nodes["centrality"].to_numpy()
    size = np.bincount(component, minlength=1)[component] if len(component) else component
    return np.sort(np.lexsort((np.arange(len(component)), -worth.round(12), component, -size))[:limit])


def strongest(source: np.ndarray, target: np.ndarray, weight: np.ndarray, nodes: int) -> np.ndarray:
    """Return which edges (n,) can be read in a drawing of ``nodes`` nodes, the strongest first.

    They are a spanning forest of the strongest edges, and the strongest of the others up to ``EDGES`` per node. Two
    edges of a pair, of either sign, count as two.
    """
    order = np.lexsort((target, source, -weight)).tolist()
    graph = nx.Graph()
    for row in order:
        if not graph.has_edge(int(source[row]), int(target[row])):  # one of the other sign may be weaker
            graph.add_edge(int(source[row]), int(target[row]), weight=weight[row], row=row)
    forest = {row for *_, row in nx.maximum_spanning_tree(graph).edges(data="row")}
    further = [row for row in order if row not in forest][:max(0, round(EDGES * nodes) - len(forest))]
    shown = forest.union(further)
    return np.array([row for row in order if row in shown], dtype=np.int64)


def _placed(labels: list[str], links: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return centres and sizes of the boxes (n, 2), and width and height of a picture that has room for all."""
    sizes = np.array([[width_of(label) + _PAD, _HIGH] for label in labels]).reshape(-1, 2)
    area = _SPARE * (sizes + _GAP).prod(axis=1).sum()
    frame = np.maximum(np.sqrt(area * np.array([_SHAPE, 1 / _SHAPE])), sizes.max(axis=0, initial=32) + 2 * _MARGIN)
    start = laid_out(len(labels), links)
    while True:
        wide, high = np.ceil(frame).astype(int).tolist()
        places, kept = separated(start, sizes, (wide, high))
        if kept.all():
            return places, sizes, (wide, high)
        frame *= 1.25


def laid_out(count: int, links: np.ndarray) -> np.ndarray:
    """Return places of nodes (n, 2) from 0 to 1, spread evenly, by distances (Kamada & Kawai 1989) or by springs."""
    if count == 0:
        return np.zeros((0, 2))
    network = nx.Graph()
    network.add_nodes_from(range(count))
    if count > _SLOW:
        network.add_edges_from(links.tolist())
        layout = nx.spring_layout(network, seed=1)
    else:
        graph = csr_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(count, count))
        distances = shortest_path(graph, directed=False, unweighted=True)
        finite = np.isfinite(distances)
        distances[~finite] = 1.2 * max(distances[finite].max(), 1)      # components stand beside each other
        start = {node: (np.cos(angle), np.sin(angle))
                 for node, angle in enumerate(np.linspace(0, 2 * np.pi, count, False))}
        layout = nx.kamada_kawai_layout(
            network, dist={node: dict(enumerate(row)) for node, row in enumerate(distances)}, pos=start)
    places = np.array([layout[node] for node in range(count)])
    spans = np.maximum(np.ptp(places, axis=0), 1e-9)
    ranks = places.round(6).argsort(axis=0, kind="stable").argsort(axis=0) / max(count - 1, 1)
    return ((places - places.min(axis=0)) / spans + ranks) / 2


def separated(places: np.ndarray, sizes: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of boxes (n, 2) in a frame in which none overlaps another, and which boxes are kept (n,).

    Boxes are moved apart; where there is no room, the last one in the order of ``places`` is left out.
    """
    low, high = sizes / 2 + _MARGIN, np.array(frame) - sizes / 2 - _MARGIN
    centres, kept = low + places * (high - low), np.ones(len(places), dtype=bool)
    order = np.sign(np.subtract.outer(np.arange(len(places)), np.arange(len(places))))[..., None]
    rounds = _ROUNDS
    while True:
        for _ in range(rounds):
            away = centres[:, None] - centres[None]
            need = (sizes[:, None] + sizes[None]) / 2 + _GAP - np.abs(away)
            crossing = (need > 0).all(axis=2) & kept[:, None] & kept[None] & ~np.eye(len(places), dtype=bool)
            if not crossing.any():
                return centres, kept
            # Along the axis that needs the smaller move; equal centres move by their order.
            sideways = need[..., :1] < 3 * need[..., 1:]
            push = np.where(away != 0, np.sign(away), order) * (need + 1) / 2 * np.concatenate(
                [sideways, ~sideways], axis=2) * crossing[..., None]
            centres = np.clip(centres + push.sum(axis=1), low, high)
        kept[np.flatnonzero(crossing.any(axis=1))[-1]] = False
        rounds = _FURTHER


def shortened(text: str, longest: int = 32) -> str:
    """Return a label, cut where it has more characters than ``longest``."""
    return text if len(text) <= longest else text[:longest - 1] + "…"


def width_of(text: str) -> float:
    """Return the width of a text in pixels."""
    return _LETTER * sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def xml_text(text: str) -> str:
    """Return ``text`` with U+FFFD for each character that XML does not allow."""
    return _FORBIDDEN.sub("\ufffd", text)


def _xml(text: str) -> str:
    return escape(xml_text(printable(text)))
