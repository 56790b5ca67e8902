"""The graph's benchmark: its synthetic triples, its peer, and its curve, in small."""

import numpy as np
import pytest

from benchmarks import graph
from benchmarks.graph import ROLES, columns_first, networkx_loops, zipf_triples
from benchmarks.harness import Context, Disagreement
from stages.graph.params import Graph


def run_here(function, *arguments):
    function(*arguments)
    return 1.0


def test_keywords_follow_zipfs_law():
    triples = zipf_triples(60_000, keywords=50, exponent=1.0)
    expected = 1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    for role in ROLES:
        shares = np.sort(triples[role].value_counts().field("counts").to_numpy() / 60_000)[::-1]
        assert shares == pytest.approx(expected, abs=0.004)
    first = [triples[role].value_counts().to_pylist() for role in ROLES]
    assert len({max(counts, key=lambda item: item["counts"])["values"] for counts in first}) == 1


def test_the_same_seed_gives_the_same_triples():
    assert zipf_triples(100, seed=4).equals(zipf_triples(100, seed=4))
    assert not zipf_triples(100, seed=4).equals(zipf_triples(100, seed=5))


@pytest.mark.parametrize("settings", [Graph(), Graph(max_nbr=2, max_cluster_outputs=3, link_inputs=False)], ids=str)
def test_both_contenders_build_the_same_graph(settings):
    text = graph._agreement(zipf_triples(400, keywords=60), settings)
    assert text.startswith("the same 60 nodes, ")


def test_a_wrong_graph_is_not_timed(monkeypatch):
    triples = zipf_triples(100, keywords=20)

    def other(table, settings):
        return columns_first(table.slice(1), settings)

    monkeypatch.setattr(graph, "columns_first", other)
    with pytest.raises(Disagreement, match="edges differ"):
        graph._agreement(triples, Graph())


@pytest.mark.whole
def test_the_section_has_ratio_and_curve(monkeypatch):
    monkeypatch.setattr(graph, "peak_memory", run_here)
    (section,) = graph.run(Context(repeats=1, quick=True))
    assert [row.name for row in section.rows] == ["ours", "networkx and Python loops"]
    assert section.agreement.startswith("the same ")
    assert [point["triples"] for point in section.table] == [1000, 3000]
    built = networkx_loops(zipf_triples(3000), Graph())
    signs = [sign for _, _, sign in built.edges]
    assert section.table[1]["positive edges"] == signs.count(1)
    assert section.table[1]["negative edges"] == signs.count(-1)
    assert section.table[1]["nodes"] == len(built.ranks)
