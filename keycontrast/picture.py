"""A keyword graph as a picture: SVG that needs nothing else, its labels side by side.

Nodes are placed by networkx, component by component, and then moved apart until no label lies on another.
"""

from __future__ import annotations

import unicodedata
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from keycontrast.cells import printable

if TYPE_CHECKING:
    import pyarrow as pa

_COLOURS = ("#1f6f94", "#b4531f", "#2c7a55", "#7a4fa3", "#8a6100", "#ac3b45", "#56701f", "#4f6178")
_LONGEST, _HIGH, _LETTER, _PAD, _MARGIN = 32, 24.0, 7.2, 14.0, 20.0     # characters, then pixels
_ROUNDS = 400
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


def svg_of(nodes: pa.Table, edges: pa.Table, limit: int) -> str:
    """Return the drawing of the largest components of a :class:`keycontrast.graph.KeywordGraph`.

    It has at most ``limit`` nodes, those that are most central. Edges may have a column ``sign``: negative ones are
    dashed.
    """
    chosen = _largest(nodes, limit)
    names, held, community = (nodes[name].take(chosen).to_pylist() for name in ("keyword", "texts", "community"))
    labels = list(map(shortened, names))
    number = np.full(nodes.num_rows, -1)
    number[chosen] = np.arange(len(chosen))
    source, target, weight = (edges[name].to_numpy() for name in ("source", "target", "weight"))
    source, target = number[source], number[target]
    inside = (source >= 0) & (target >= 0)
    links = np.stack([source[inside], target[inside]], axis=1)
    sizes = np.array([[width_of(label) + _PAD, _HIGH] for label in labels]).reshape(-1, 2)
    places = _apart(_laid_out(nodes["component"].take(chosen).to_numpy(), links, sizes), sizes)
    low = (places - sizes / 2).min(axis=0, initial=0.0) - _MARGIN
    wide, high = np.ceil((places + sizes / 2).max(axis=0, initial=0.0) + _MARGIN - low).astype(int).tolist()
    places = places - low
    sign = edges["sign"].to_numpy() if "sign" in edges.column_names else np.ones_like(weight)
    lines = [f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {_NEGATIVE if side < 0 else ""}'
             f'stroke-width="{min(1 + np.log2(count), 6):.1f}"><title>'
             f'{xml_text(names[one])} – {xml_text(names[other])}: {side * count}</title></line>'
             for (one, other), count, side, (x, y), (x2, y2) in zip(
                 links.tolist(), weight[inside].tolist(), sign[inside].tolist(), places[links[:, 0]],
                 places[links[:, 1]], strict=True)]
    colour = {group: _COLOURS[place % len(_COLOURS)] for place, group in enumerate(dict.fromkeys(community))}
    boxes = [f'<g><title>{xml_text(name)}: {count} text{"s" * (count != 1)}</title><rect x="{x - box[0] / 2:.1f}" '
             f'y="{y - box[1] / 2:.1f}" width="{box[0]:.1f}" height="{box[1]:.1f}" rx="7" stroke="{colour[group]}"/>'
             f'<text x="{x:.1f}" y="{y + 4.5:.1f}" fill="#1b1f24">{xml_text(label)}</text></g>'
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


def _laid_out(component: np.ndarray, links: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the centre of each node (n, 2): components in rows, the largest first."""
    import networkx as nx

    places = np.zeros((len(component), 2))
    corner, row_height = np.zeros(2), 0.0
    widest = max(1100.0, 200.0 * np.sqrt(len(component)))
    groups, counts = np.unique(component, return_counts=True)
    for group in groups[np.argsort(-counts, kind="stable")]:
        members = np.flatnonzero(component == group)
        part = nx.Graph()
        part.add_nodes_from(members.tolist())
        part.add_edges_from(links[component[links[:, 0]] == group].tolist())
        found = nx.spring_layout(part, seed=1, iterations=100, k=2 / np.sqrt(len(members)))
        here = np.array([found[node] for node in members.tolist()]) * 60.0 * np.sqrt(len(members)) * (1.3, 0.8)
        span = (here + sizes[members] / 2).max(axis=0) - (here - sizes[members] / 2).min(axis=0)
        if corner[0] and corner[0] + span[0] > widest:
            corner, row_height = np.array([0.0, corner[1] + row_height + 2 * _MARGIN]), 0.0
        places[members] = here - (here - sizes[members] / 2).min(axis=0) + corner
        corner[0] += span[0] + 2 * _MARGIN
        row_height = max(row_height, span[1])
    return places


def _apart(places: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the places moved until boxes of these sizes lie beside each other, with some space between them."""
    room = (sizes[:, None] + sizes[None]) / 2 + 6.0
    above = np.arange(len(places))[:, None] < np.arange(len(places))[None]
    for _ in range(_ROUNDS):
        away = places[:, None] - places[None]
        need = room - np.abs(away)
        crossing = (need > 0).all(axis=2)
        np.fill_diagonal(crossing, False)
        if not crossing.any():
            break
        sideways = need[..., 0] < need[..., 1]
        sign = np.where(away != 0, np.sign(away), np.where(above, -1.0, 1.0)[..., None])
        push = np.where(crossing[..., None], sign * (need + 0.5) / 2, 0.0)
        push *= np.stack([sideways, ~sideways], axis=2)
        places = places + push.sum(axis=1)
    return places


def shortened(text: str) -> str:
    """Return a label, cut where it is long."""
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…"


def width_of(text: str) -> float:
    """Return the width of a text in pixels, rather too much: the font is not known here."""
    return _LETTER * sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def xml_text(text: str) -> str:
    """Return a text as XML, control characters spelt out."""
    return escape(printable(text))
