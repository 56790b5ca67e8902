"""The map of the page: the largest components, with labels that overlap nowhere."""

import numpy as np
import pandas as pd

from keycontrast.picture import strongest
from stages.results.page.graph_map import SHAPES, graph_maps


def graph_of(count, long=False):
    """A large component of many edges, and ``count`` pairs."""
    draw = np.random.default_rng(1)
    names = [f"{'a very long phrase of many words ' if long else ''}{number}" for number in range(3 * count)]
    nodes = pd.DataFrame({"keyword": names, "texts": range(3 * count, 0, -1), "community": 0,
                          "component": [0] * count + [1 + number // 2 for number in range(2 * count)]})
    pairs = {tuple(sorted(pair)) for pair in draw.integers(0, count, (6 * count, 2)).tolist() if pair[0] != pair[1]}
    pairs |= {(number, number + 1) for number in range(count - 1)}
    pairs |= {(count + 2 * number, count + 2 * number + 1) for number in range(count)}
    edges = pd.DataFrame(sorted(pairs), columns=["source", "target"])
    return nodes, edges.assign(weight=draw.integers(1, 9, len(edges)))


def test_boxes_neither_overlap_nor_leave_the_map_and_edges_join_them():
    for long in (False, True):
        wide, narrow = graph_maps(*graph_of(50, long))
        assert (wide.kind, narrow.kind) == tuple(SHAPES)
        for found in (wide, narrow):
            assert 8 <= len(found.boxes) <= SHAPES[found.kind][2] and len(found.lines) >= len(found.boxes) / 3
            for place, one in enumerate(found.boxes):
                assert one.width / 2 <= one.x <= found.width - one.width / 2
                assert one.height / 2 <= one.y <= found.height - one.height / 2
                assert all(abs(one.x - other.x) >= (one.width + other.width) / 2
                           or abs(one.y - other.y) >= (one.height + other.height) / 2
                           for other in found.boxes[:place])
            assert all(end in found.boxes for line in found.lines for end in line.ends)
        assert graph_maps(*graph_of(50, long)) == [wide, narrow]


def test_the_strongest_edges_are_shown_and_none_of_them_parts_a_component():
    source, target = np.triu_indices(10, 1)
    weight = np.where(target == 9, 1, 100 - np.arange(45))      # node 9 has the weakest edges alone
    shown = strongest(source, target, weight, 10)
    assert len(shown) == 16 and set(source[shown]) | set(target[shown]) == set(range(10))
    assert shown.tolist() == sorted(shown.tolist(), key=lambda row: -weight[row])
    assert len(strongest(source[:3], target[:3], weight[:3], 4)) == 3 and not len(strongest(*np.zeros((3, 0)), 2))
    both = np.zeros(2, int), np.ones(2, int), np.array([1, 9])   # edges of both signs, and room for one
    assert strongest(*both, 0).tolist() == [1]
    nodes = pd.DataFrame({"keyword": ["a"], "texts": [1], "component": [0], "community": [0]})
    assert graph_maps(nodes, pd.DataFrame({"source": [], "target": [], "weight": []})) == []


def test_communities_have_colours_of_their_own():
    nodes = pd.DataFrame({"keyword": ["a", "b"], "texts": [1, 1], "component": [0, 0], "community": [0, 1]})
    found, _ = graph_maps(nodes, pd.DataFrame({"source": [0], "target": [1], "weight": [2]}))
    assert {box.colour for box in found.boxes} == {"first", "second"}
