"""The graph stage against loops over pairs of members, and the readings of docs/hcl.md one by one."""

import json
from collections import defaultdict

import networkx as nx
import pytest
from keyword_graphs import WORDS, named, oracle, random_triples, tables, write_no_phrases

from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, as_table, read_metadata, read_table, write_table
from stages.graph import graph
from stages.graph.params import Graph
from stages.graph.triples import node_triples


def build(triples, splits=None, **params):
    examples, keywords = tables(triples, splits)
    result = graph.run(node_triples(examples, keywords), Graph(**params))
    return result, named(result.nodes, result.edges)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("params", [
    {}, {"link_inputs": False}, {"max_nbr": 2}, {"max_nbr": 1, "link_inputs": False},
    {"max_cluster_outputs": 2}, {"max_cluster_outputs": 1, "max_nbr": 3, "link_inputs": False},
    {"max_nbr": None, "max_cluster_outputs": None}], ids=str)
def test_edges_equal_the_oracle(seed, params):
    triples = random_triples(seed)
    _, edges = build(triples, **params)
    assert edges == oracle(triples, **params)


@pytest.mark.parametrize("seed", range(3))
def test_edges_equal_the_oracle_without_negatives_and_with_clusters_of_one(seed):
    triples = random_triples(seed, rows=12, words=[*WORDS, "漢字", "😀", "é"], negatives=0.2)
    _, edges = build(triples)
    assert edges == oracle(triples)


def test_a_text_without_keyword_is_a_node_without_edges_or_cluster():
    result, edges = build([(NO_KEYWORD, "b", "c"), ("a", NO_KEYWORD, "c"), ("a", "b", NO_KEYWORD)])
    assert edges == oracle([("a", "b", None), ("a", NO_KEYWORD, "c")])
    assert not any(NO_KEYWORD in edge for edge in edges)
    sizes = dict(zip(result.nodes["keyword"].to_pylist(), result.nodes["cluster_size"].to_pylist(), strict=True))
    assert sizes == {NO_KEYWORD: 0, "a": 2, "b": 0, "c": 0}


def test_rows_in_any_order_make_the_same_graph():
    examples, keywords = tables(random_triples(4, rows=200))
    first = graph.run(node_triples(examples, keywords), Graph())
    shuffled = [table.sample(frac=1, random_state=1) for table in (examples, keywords)]
    again = graph.run(node_triples(*shuffled), Graph())
    assert (again.nodes, again.edges, again.metrics) == (first.nodes, first.edges, first.metrics)


def test_shares_follow_their_words():
    triples = [("a", "a", "a"), ("a", "b", "c"), ("d", "e", None), (NO_KEYWORD, "g", "h")]
    metrics = build(triples, link_inputs=False)[0].metrics
    assert metrics["share_input_equals_output"] == 0.25
    assert metrics["share_output_equals_negative"] == 0.25
    # Cluster a: outputs a, b; negatives a, c. Both outputs receive negatively from c (a is positive to b).
    assert metrics["share_with_negative_neighbour"] == 0.5
    assert metrics["share_own_negative_only"] == 0.25
    assert metrics["share_masked"] == 0.25
    assert metrics["share_without_input_keyword"] == 0.25


@pytest.mark.parametrize("seed", range(3))
def test_statistics_of_nodes_and_graph_agree_with_networkx(seed):
    triples = random_triples(seed, rows=25, words=[f"w{number}" for number in range(40)])
    result, edges = build(triples, max_nbr=4)
    both = nx.MultiDiGraph()
    both.add_nodes_from(result.nodes["keyword"].to_pylist())
    both.add_edges_from((target, source, sign) for target, source, sign in edges)
    parts = sorted(map(sorted, nx.weakly_connected_components(both)))
    found = defaultdict(list)
    for row in result.nodes.to_pylist():
        word = row["keyword"]
        for sign, name in ((1, "positive"), (-1, "negative")):
            assert row[f"in_{name}"] == sum(s == sign for _, _, s in both.out_edges(word, keys=True))
            assert row[f"out_{name}"] == sum(s == sign for _, _, s in both.in_edges(word, keys=True))
        found[row["component"]].append(word)
    assert [found[number] for number in range(len(found))] == parts
    assert result.metrics["components"] == len(parts)
    assert result.metrics["largest_component"] == max(map(len, parts))
    assert result.metrics["edges_positive"] + result.metrics["edges_negative"] == len(edges)


@pytest.mark.parametrize("triples", [[], [(NO_KEYWORD, NO_KEYWORD, None)]], ids=["no example", "no keyword"])
def test_a_training_set_without_keywords_makes_an_empty_graph(triples):
    result, edges = build(triples)
    assert not edges
    assert as_table(SCHEMAS["nodes"], result.nodes).num_rows == len(triples)
    assert as_table(SCHEMAS["edges"], result.edges).num_rows == 0
    assert result.metrics["communities"] == len(triples)
    assert result.metrics["modularity"] == 0
    json.dumps(result.metrics, allow_nan=False)


def test_the_stage_writes_what_run_returns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(graph, "ROW_GROUP", 9)
    (tmp_path / "params.yaml").write_text("recipe: r\ndatasets: {d: {source: raw}}\ngraph: {max_nbr: 3}\n")
    triples = random_triples(7, rows=80)
    examples, keywords = tables(triples)
    paths, nothing = DatasetPaths("d"), [None] * len(examples)
    for kind, rows in (("examples", examples.assign(
            reference_ids=nothing, group=0, negative_origin=nothing)),
                       ("keywords", keywords.assign(method="textrank", score=1.0))):
        write_table(paths.table(kind), SCHEMAS[kind], rows, Provenance(kind, ""))
    write_no_phrases(paths)
    assert graph.main(["d"]) == 0
    nodes, edges = (read_table(paths.table(kind), SCHEMAS[kind]) for kind in ("nodes", "edges"))
    assert named(nodes, edges) == oracle(triples, max_nbr=3)
    assert as_table(SCHEMAS["edges"], edges).to_pylist() == edges.to_pylist()
    metrics = json.loads(paths.metrics("graph").read_text())
    assert metrics.pop("phrases") == {"nodes": 0, "edges": 0, "components": 0, "largest_component": 0, "communities": 0}
    assert metrics == build(triples, max_nbr=3)[0].metrics == read_metadata(paths.table("nodes"))["counts"]
    assert metrics["centrality_residual"] < 1e-10
    written = [(paths.table(kind) / "part-00000.parquet").read_bytes() for kind in ("nodes", "edges")]
    assert graph.main(["d"]) == 0
    assert [(paths.table(kind) / "part-00000.parquet").read_bytes() for kind in ("nodes", "edges")] == written
