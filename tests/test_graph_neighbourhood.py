"""Neighbourhoods of keywords against networkx's ego graphs, both signs, capped or not."""

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keyword_graphs import clusters_of, named, random_triples, tables

from stages.graph import run
from stages.graphs.neighbourhood import neighbourhood
from stages.params.data import Graph
from stages.runtime.errors import InputError

WORDS = [f"w{number:02d}" for number in range(50)]


@pytest.fixture(scope="module", params=[0, 1, 2])
def graph(request):
    examples, keywords = tables(random_triples(request.param, rows=60, words=WORDS))
    result = run(examples, keywords, clusters_of(examples, keywords), Graph())
    return result.nodes, result.edges


def as_networkx(nodes, edges, sign=None):
    made = nx.DiGraph()
    made.add_nodes_from(nodes["keyword"].to_pylist())
    made.add_edges_from((target, source, {"sign": s, "count": n}) for (target, source, s), n
                        in named(nodes, edges).items() if sign in (None, s))
    return made


def found_names(all_nodes, nodes, edges):
    return (dict(zip(nodes["keyword"].to_pylist(), nodes["distance"].to_pylist(), strict=True)),
            named(all_nodes, edges))


@pytest.mark.parametrize("sign", [None, 1, -1])
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_one_seed_gives_its_ego_graph(graph, hops, sign):
    nodes, edges = graph
    whole = as_networkx(nodes, edges, sign)
    for seed in nodes["keyword"].to_pylist()[::7]:
        distance, kept = found_names(nodes, *neighbourhood(nodes, edges, [seed], hops, sign=sign))
        ego = nx.ego_graph(whole, seed, radius=hops)
        assert distance == nx.single_source_shortest_path_length(whole, seed, cutoff=hops)
        assert {(target, source): s for target, source, s in kept} == nx.get_edge_attributes(ego, "sign")


def test_several_seeds_join_and_repeat_nothing(graph):
    nodes, edges = graph
    seeds = [*nodes["keyword"].to_pylist()[:3], nodes["keyword"][0].as_py()]
    whole = as_networkx(nodes, edges)
    distance, kept = found_names(nodes, *neighbourhood(nodes, edges, seeds, 2))
    egos = [nx.single_source_shortest_path_length(whole, seed, cutoff=2) for seed in seeds]
    assert distance == {word: min(ego[word] for ego in egos if word in ego) for word in set().union(*egos)}
    assert {pair[:2] for pair in kept} == set(whole.subgraph(distance).edges)


@pytest.mark.parametrize("max_nbr", [1, 2, 5])
def test_the_cap_is_that_of_a_graph_built_with_it(graph, max_nbr):
    nodes, edges = graph
    examples, keywords = tables(random_triples(0, rows=60, words=WORDS))
    capped = run(examples, keywords, clusters_of(examples, keywords), Graph(max_nbr=max_nbr))
    full = run(examples, keywords, clusters_of(examples, keywords), Graph(max_nbr=10**6))
    for seed in full.nodes["keyword"].to_pylist()[::9]:
        expected = neighbourhood(capped.nodes, capped.edges, [seed], 2)
        found = neighbourhood(full.nodes, full.edges, [seed], 2, max_nbr=max_nbr)
        assert found_names(full.nodes, *found) == found_names(capped.nodes, *expected)


def test_tables_or_files_give_the_same_rows_of_the_tables(graph, tmp_path):
    nodes, edges = graph
    for name, table in (("nodes", nodes), ("edges", edges)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    seed = nodes["keyword"][0].as_py()
    from_tables = neighbourhood(nodes, edges, [seed], 1)
    assert from_tables[0].column_names == [*nodes.column_names, "distance"]
    assert from_tables[0].schema.field("distance").type == pa.int32()
    assert from_tables[1].schema.equals(edges.schema)


def test_a_keyword_outside_the_graph_is_named_with_the_nearest(graph):
    word = graph[0]["keyword"][5].as_py()
    with pytest.raises(InputError, match=f"no keyword '{word}s' in the graph; did you mean '{word}'"):
        neighbourhood(*graph, [word, f"{word}s"], 1)


@pytest.mark.parametrize(("hops", "sign"), [(-1, None), (1, 0)])
def test_impossible_requests_are_refused(graph, hops, sign):
    with pytest.raises(ValueError, match="must not be negative"):
        neighbourhood(*graph, [graph[0]["keyword"][0].as_py()], hops, sign=sign)
