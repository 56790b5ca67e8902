"""Pictures of keyword graphs: labels beside each other, texts escaped, nothing fetched, the same bytes each time."""

import csv
import re
import xml.etree.ElementTree as ET
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from source_imports import ROOT

from keycontrast import InputError, keyword_graph
from keycontrast.graph import KeywordGraph
from keycontrast.network import phrase_graph

SVG = "{http://www.w3.org/2000/svg}"


def graph_of(pairs):
    """Return the graph of pairs of a phrase and the number of a text that holds it."""
    names = sorted({name for name, _ in pairs})
    return KeywordGraph(*phrase_graph(pa.array(names), np.array([names.index(name) for name, _ in pairs]),
                                      np.array([text for _, text in pairs])))


@pytest.fixture(scope="module")
def graph():
    with (ROOT / "data" / "sample" / "abstracts.csv").open(encoding="utf-8") as file:
        return keyword_graph([row["abstract"] for row in csv.DictReader(file)])


def boxes(svg):
    return [tuple(float(box.get(name)) for name in ("x", "y", "width", "height"))
            for box in ET.fromstring(svg).iter(f"{SVG}rect") if box.get("x")]


def test_labels_lie_beside_each_other_within_the_picture(graph):
    drawn = graph.svg(40)
    assert drawn == graph.svg(40) and graph._repr_html_() == graph.svg()
    wide, high = map(float, ET.fromstring(drawn).get("viewBox").split()[2:])
    found = boxes(drawn)
    assert len(found) == min(40, graph.nodes.num_rows)
    assert all(x >= 0 and y >= 0 and x + width <= wide and y + height <= high for x, y, width, height in found)
    assert not [1 for one, other in combinations(found, 2)
                if all(one[axis] < other[axis] + other[axis + 2] and other[axis] < one[axis] + one[axis + 2]
                       for axis in (0, 1))]


def test_a_long_graph_shows_its_largest_components_and_most_central_nodes():
    pairs = [(name, n) for n in range(12) for name in (f"leaf {n}", "middle")] + [("aside", 90), ("alone", 91)]
    drawn = ET.fromstring(graph_of(pairs).svg(5))
    names = [text.text for text in drawn.iter(f"{SVG}text")]
    assert len(names) == 5 and "middle" in names and not {"aside", "alone"} & set(names)
    assert len(list(drawn.iter(f"{SVG}line"))) == 4
    assert ET.fromstring(keyword_graph([]).svg()).get("viewBox") == "0 0 40 40"


def test_what_a_keyword_holds_is_shown_and_not_obeyed():
    names = ["<script>alert(1)</script>", 'a "b" & c', "\x1b[31m", "long " * 20]
    made = graph_of([(name, 0) for name in names])
    page = made.html()
    shown = [text.text for text in ET.fromstring(made.svg()).iter(f"{SVG}text")]
    assert set(names[:2]) < set(shown) and "\\x1b[31m" in shown and "<script" not in page and "\x1b" not in page
    assert max(map(len, shown)) <= 32 and names[3] in page  # in full beside the pointer
    assert repr(made) in page.replace("&lt;", "<").replace("&gt;", ">") and "\n" not in repr(made)
    assert not re.search(r"(src|href|url\()", page.replace("http://www.w3.org/2000/svg", "")) and "http" not in (
        page.replace("http://www.w3.org/2000/svg", ""))
    with pytest.raises(InputError, match="limit: must be a whole number from 1, the nodes to draw, found 0"):
        made.svg(0)
