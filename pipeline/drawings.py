"""Small graphs as SVG: the neighbourhood of a keyword, and the candidate graph of one text.

Written element by element, for three reasons: labels stay text, so that any script is shown in the reader's
fonts; they are placed where none covers another; and the bytes depend on nothing but the arguments.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from xml.etree import ElementTree as ET

from stages.figures import xml_text

# From the palette of Okabe and Ito, which the colour-blind tell apart too; lines differ in their dashes as well.
POSITIVE, NEGATIVE = "#0072b2", "#d55e00"
INK, MUTED, LINE, PAPER = "#1b1f24", "#5b6471", "#c9ced6", "#ffffff"
_SIGNS = {1: ("positive", POSITIVE, ""), -1: ("negative", NEGATIVE, "6 4")}
_FONT = ("system-ui, 'Noto Sans', 'DejaVu Sans', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', "
         "'WenQuanYi Zen Hei', sans-serif")
_SIZE = 13
_ROW = 24
_MARGIN = 24
_GAP = 150
_LABEL = 30


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

    The keyword stands in the middle, its positive neighbours in a column on the right, its negative ones on the
    left, and what is further away in further columns. Edges of the middle and of the path to it are drawn in
    full, those among the others faintly; the head of an arrow is at the keyword that receives.

    Args:
        title: heading, plain text.
        nodes: the middle first; a column keeps their order below each parent.
        edges: no edge joins a keyword to itself.
    """
    columns = _columns(nodes)
    places = _places(nodes, columns)
    drawing = _Drawing(title, *_extent(places, title), centred=True)
    for sign in (1, -1):
        drawing.arrow_head(sign)
    pairs = _pairs(edges)
    for faint in (True, False):
        for (one, other, sign), counts in pairs.items():
            if _is_faint(nodes, one, other) == faint:
                _draw_link(drawing, nodes, places, one, other, sign, counts, faint)
    for index, node in enumerate(nodes):
        _draw_keyword(drawing, node, places[index])
    heights = {sign: min(place.y for node, place in zip(nodes, places, strict=True) if node.sign == sign)
               for sign in (1, -1) if any(node.sign == sign for node in nodes)}
    for sign, top in heights.items():
        name, colour, _ = _SIGNS[sign]
        drawing.text(sign * (_GAP - 8), top - 20, f"{name} neighbours", fill=colour,
                     anchor="start" if sign > 0 else "end")
    drawing.legend([(name, colour, dash) for name, colour, dash in _SIGNS.values()],
                   "The head of an arrow is at the keyword that receives. Width: count.")
    return drawing.finished()


def word_graph_svg(title: str, text: str, words: Sequence[Word], edges: Mapping[tuple[int, int], float]) -> str:
    """Return the drawing of a text's candidate graph: words from top to bottom, co-occurrence as arcs.

    Args:
        title: heading, plain text.
        text: the text itself.
        words: nodes in order of first appearance; the area of each grows with its score.
        edges: weight by pair of places in ``words``, the smaller first.
    """
    height = 34
    lines = _wrapped(text, 76)
    left = max([_width(_shortened(word.label)) for word in words], default=0.0) + 80
    reach = max([_reach(other - one) for one, other in edges], default=0.0)
    width = max(left + reach + 90, max(map(_width, [title, *lines])), 600.0)
    top = 68 + 18 * len(lines)
    drawing = _Drawing(title, -left, -top, width, top + height * len(words) + 36)
    for place, line in enumerate(lines):
        drawing.text(-left, 18 * (place - len(lines)) - 12, line, fill=MUTED)
    for (one, other), weight in edges.items():
        _draw_arc(drawing, words, one, other, weight, height)
    highest = max([word.score for word in words], default=0.0)
    for place, word in enumerate(words):
        _draw_word(drawing, word, -left, height * (place + 0.5), highest)
    drawing.text(-left, height * len(words) + 24, "Area and number: score. Filled: kept for phrases. Ring: keyword. "
                 "Arcs: words that stand near each other.", fill=MUTED, size=11)
    return drawing.finished()


@dataclass(frozen=True)
class _Place:
    """Where a keyword stands: its dot, and the end of its label away from the middle."""

    x: float
    y: float
    outer: float


def _columns(nodes: Sequence[Neighbour]) -> dict[int, list[int]]:
    """Return the places of nodes by column: 1 and -1 beside the middle, 2 and -2 beyond, each below its parents."""
    columns: dict[int, list[int]] = {0: [0]}
    rank = {0: 0}
    for hops in range(1, max(node.hops for node in nodes) + 1):
        for sign in (1, -1):
            members = [index for index, node in enumerate(nodes) if node.hops == hops and node.sign == sign]
            members.sort(key=lambda index: (rank[nodes[index].parent], index))
            rank.update({index: place for place, index in enumerate(members)})
            if members:
                columns[sign * hops] = members
    return columns


def _places(nodes: Sequence[Neighbour], columns: Mapping[int, list[int]]) -> list[_Place]:
    places: dict[int, _Place] = {0: _Place(0.0, 0.0, 0.0)}
    for side in (1, -1):
        x = float(side * _GAP)
        for column in sorted((column for column in columns if column * side > 0), key=abs):
            members = columns[column]
            reach = max(_width(_shortened(nodes[index].label)) for index in members) + 12
            for row, index in enumerate(members):
                outer = x + side * (_width(_shortened(nodes[index].label)) + 12)
                places[index] = _Place(x, _ROW * (row - (len(members) - 1) / 2), outer)
            x += side * (reach + 90)
    return [places[index] for index in range(len(nodes))]


def _extent(places: Sequence[_Place], title: str) -> tuple[float, float, float, float]:
    """Return left, top, width and height of the drawing, with room for headings, legend and title."""
    left = min(-_GAP, *(place.outer for place in places)) - _MARGIN
    right = max(_GAP, *(place.outer for place in places)) + _MARGIN
    lacking = max(620.0, 1.2 * _width(title)) - (right - left)
    if lacking > 0:
        left, right = left - lacking / 2, right + lacking / 2
    height = max(abs(place.y) for place in places) + 2 * _MARGIN
    return left, -height - 62, right - left, 2 * height + 62 + 56


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


def _is_faint(nodes: Sequence[Neighbour], one: int, other: int) -> bool:
    return nodes[other].parent != one and nodes[one].parent != other


def _draw_link(drawing: "_Drawing", nodes: Sequence[Neighbour], places: Sequence[_Place], one: int, other: int,
               sign: int, counts: tuple[int, int], faint: bool) -> None:
    name, colour, dash = _SIGNS[sign]
    forth, back = counts
    notes = [f"{nodes[receiver].label} receives from {nodes[giver].label}: {name}, {count}"
             for receiver, giver, count in ((other, one, forth), (one, other, back)) if count]
    attributes = {"fill": "none", "stroke": colour, "stroke-width": _number(min(1 + 0.8 * log2(max(counts)), 6))}
    if dash:
        attributes["stroke-dasharray"] = dash
    if faint:
        attributes |= {"stroke-width": "0.8", "opacity": "0.28"}
    else:
        attributes |= {"marker-end": f"url(#head{sign})"} if forth else {}
        attributes |= {"marker-start": f"url(#head{sign})"} if back else {}
    drawing.path(_curve(nodes, places, one, other), "; ".join(notes), attributes)


def _curve(nodes: Sequence[Neighbour], places: Sequence[_Place], one: int, other: int) -> str:
    """Return a curve that leaves both ends level; between rows of one column, a bow on the side of the middle."""
    start, end = places[one], places[other]
    columns = [nodes[index].sign * nodes[index].hops for index in (one, other)]
    if columns[0] == columns[1]:
        side = 1 if columns[0] > 0 else -1
        bend = start.x - side * min(14 + 0.35 * abs(end.y - start.y), _GAP * 0.8)
        return _path("M", start.x - side * 6, start.y, "C", bend, start.y, bend, end.y, end.x - side * 6, end.y)
    way = 1 if columns[1] > columns[0] else -1
    # Towards the middle a line meets the dot, away from it the end of the label.
    x_start = start.x + 6 * way if columns[0] * way <= 0 else start.outer + 4 * way
    x_end = end.x - 6 * way if columns[1] * way >= 0 else end.outer - 4 * way
    x_start, x_end = (x + (5 * way * turn if not column else 0)
                      for x, column, turn in ((x_start, columns[0], 1), (x_end, columns[1], -1)))
    middle = (x_start + x_end) / 2
    return _path("M", x_start, start.y, "C", middle, start.y, middle, end.y, x_end, end.y)


def _draw_keyword(drawing: "_Drawing", node: Neighbour, place: _Place) -> None:
    if not node.sign:
        drawing.dot(place.x, place.y, 9, INK)
        drawing.text(place.x, place.y - 18, _shortened(node.label), fill=INK, anchor="middle", weight="bold",
                     note=node.label)
        return
    # Further out a sign is that of a path, not of an edge.
    drawing.dot(place.x, place.y, 4.5, _SIGNS[node.sign][1] if node.hops == 1 else MUTED)
    drawing.text(place.x + 10 * node.sign, place.y + 4.5, _shortened(node.label), fill=INK,
                 anchor="start" if node.sign > 0 else "end", note=node.label)


def _draw_arc(drawing: "_Drawing", words: Sequence[Word], one: int, other: int, weight: float, height: int) -> None:
    top, bottom, reach = height * (one + 0.5), height * (other + 0.5), _reach(other - one)
    drawing.path(_path("M", 0.0, top, "C", reach * 4 / 3, top, reach * 4 / 3, bottom, 0.0, bottom),
                 f"{words[one].label} and {words[other].label}: {_number(weight)}",
                 {"fill": "none", "stroke": LINE, "stroke-width": _number(min(1 + weight, 7))})
    if weight != 1:
        drawing.text(reach + 3 + min(1 + weight, 7) / 2, (top + bottom) / 2 + 4, _number(weight), fill=MUTED, size=10)


def _draw_word(drawing: "_Drawing", word: Word, left: float, y: float, highest: float) -> None:
    radius = 3 + 11 * sqrt(max(word.score, 0.0) / highest) if highest > 0 else 3.0
    if word.chosen:
        drawing.dot(0.0, y, radius + 3, PAPER, NEGATIVE)
    drawing.dot(0.0, y, radius, POSITIVE if word.kept else PAPER, POSITIVE)
    drawing.text(-24, y + 4.5, _shortened(word.label), fill=INK if word.kept else MUTED, anchor="end",
                 weight="bold" if word.chosen else "normal", note=word.label)
    drawing.text(left, y + 4, f"{word.score:.4g}", fill=MUTED, size=11)


class _Drawing:
    """An SVG that grows element by element."""

    def __init__(self, title: str, left: float, top: float, width: float, height: float,
                 centred: bool = False) -> None:
        left, width = left - _MARGIN, width + 2 * _MARGIN
        box = [_number(value) for value in (left, top, width, height)]
        self._left, self._bottom = left + _MARGIN, top + height
        self._root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "width": box[2],
                                        "height": box[3], "viewBox": " ".join(box), "font-family": _FONT,
                                        "font-size": str(_SIZE)})
        ET.SubElement(self._root, "title").text = xml_text(title)
        self._heads = ET.SubElement(self._root, "defs")
        ET.SubElement(self._root, "rect", dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"fill": PAPER})
        self.text(left + width / 2 if centred else self._left, top + 28, title, fill=INK, weight="bold", size=15,
                  anchor="middle" if centred else "start")

    def arrow_head(self, sign: int) -> None:
        """Define the arrow head of edges of ``sign``, of one size whatever the line's width."""
        marker = ET.SubElement(self._heads, "marker", {
            "id": f"head{sign}", "viewBox": "0 0 10 10", "refX": "9", "refY": "5", "markerWidth": "10",
            "markerHeight": "10", "markerUnits": "userSpaceOnUse", "orient": "auto-start-reverse"})
        ET.SubElement(marker, "path", {"d": "M0 1L10 5L0 9z", "fill": _SIGNS[sign][1]})

    def text(self, x: float, y: float, content: str, fill: str, anchor: str = "start", weight: str = "normal",
             size: int | None = None, note: str = "") -> None:
        """Add a line of text with a halo, and its full wording as a note where it was cut."""
        attributes = {"x": _number(x), "y": _number(y), "fill": fill, "text-anchor": anchor, "stroke": PAPER,
                      "stroke-width": "3", "paint-order": "stroke", "stroke-linejoin": "round"}
        attributes |= {"font-weight": weight} if weight != "normal" else {}
        attributes |= {"font-size": str(size)} if size else {}
        element = ET.SubElement(self._root, "text", attributes)
        element.text = xml_text(content)
        if note and note != content:
            ET.SubElement(element, "title").text = xml_text(note)

    def path(self, way: str, note: str, attributes: dict[str, str]) -> None:
        """Add a line with a note that viewers show beside the pointer."""
        element = ET.SubElement(self._root, "path", {"d": way, **attributes})
        ET.SubElement(element, "title").text = xml_text(note)

    def dot(self, x: float, y: float, radius: float, fill: str, stroke: str = "none") -> None:
        """Add a circle."""
        ET.SubElement(self._root, "circle", {"cx": _number(x), "cy": _number(y), "r": _number(radius), "fill": fill,
                                             "stroke": stroke, "stroke-width": "1.5"})

    def legend(self, lines: Sequence[tuple[str, str, str]], remark: str) -> None:
        """Add a sample of each kind of line (name, colour, dashes) along the bottom, and a remark."""
        x, y = self._left, self._bottom - 18
        for name, colour, dash in lines:
            attributes = {"stroke": colour, "stroke-width": "2"} | ({"stroke-dasharray": dash} if dash else {})
            self.path(_path("M", x, y - 4, "L", x + 32, y - 4), name, attributes)
            self.text(x + 38, y, name, fill=colour, size=11)
            x += 56 + _width(name)
        self.text(x, y, remark, fill=MUTED, size=11)

    def finished(self) -> str:
        """Return the file's text."""
        ET.indent(self._root)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(self._root, encoding="unicode") + "\n"


def _reach(distance: int) -> float:
    """Return how far to the side an arc over ``distance`` rows goes."""
    return 34.0 * sqrt(distance)


def _cells(text: str) -> int:
    """Return the width of ``text`` in columns: two for wide characters, none for marks on others."""
    return sum(0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
               for letter in text)


def _width(text: str) -> float:
    """Return the width of a label in pixels, rather too much: which font will show it is not known here."""
    return 0.6 * _SIZE * _cells(text)


def _shortened(label: str) -> str:
    """Return ``label`` on one line and cut to 30 columns."""
    label = " ".join(label.split()) or "(blank)"
    if _cells(label) <= _LABEL:
        return label
    while _cells(label) >= _LABEL:
        label = label[:-1]
    return label + "…"


def _wrapped(text: str, columns: int) -> list[str]:
    """Return ``text`` in at most three lines of ``columns``, cut between words where there are any."""
    lines = [""]
    for word in re.findall(r"\s*\S+", " ".join(text.split())):
        # Scripts without spaces break anywhere.
        for part in list(word) if _cells(word) > _LABEL else [word]:
            if lines[-1] and _cells(lines[-1] + part) > columns:
                lines.append("")
            lines[-1] += part if lines[-1] else part.strip()
    return lines if len(lines) <= 3 else [*lines[:2], lines[2] + " …"]


def _path(*parts: str | float) -> str:
    return " ".join(part if isinstance(part, str) else _number(part) for part in parts)


def _number(value: float) -> str:
    """Return a coordinate: a hundredth of a pixel is enough, and hides the last bits of a sum."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
