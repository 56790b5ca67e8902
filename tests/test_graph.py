"""The graph stage against loops over pairs of members: clusters, products in blocks, and the readings of HCL."""

import json
import re
from collections import defaultdict

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from keyword_graphs import clusters_of, named, oracle, random_triples, tables, write_no_phrases
from table_files import bytes_of

from keycontrast.containment import Containment
from keycontrast.errors import InputError
from keycontrast.network import BLOCK
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths
from stages.common.schemas import NO_KEYWORD
from stages.common.tables import Provenance, as_table, read_metadata, read_table, write_table
from stages.graph import graph, relations
from stages.graph import triples as triples_module
from stages.graph.joins import JoinLimits
from stages.graph.params import Graph
from stages.graph.relations import relate
from stages.graph.triples import node_triples


def build(triples, splits=None, **params):
    examples, keywords = tables(triples, splits)
    result = graph.run(node_triples(examples, keywords), Graph(**params))
    return result, named(result.nodes, result.edges)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("params", [
    {}, {"link_inputs": False}, {"max_neighbours": 2}, {"max_neighbours": 1, "link_inputs": False},
    {"max_cluster_outputs": 2}, {"max_cluster_outputs": 1, "max_neighbours": 3, "link_inputs": False},
    {"max_neighbours": None, "max_cluster_outputs": None}], ids=str)
def test_edges_equal_the_oracle(seed, params):
    triples = random_triples(seed)
    _, edges = build(triples, **params)
    assert edges == oracle(triples, **params)


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
    result, edges = build(triples, max_neighbours=4)
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
    monkeypatch.setattr(triples_module, "ROW_GROUP", 7)
    (tmp_path / "params.yaml").write_text("recipe: r\ndatasets: {d: {source: raw}}\ngraph: {max_neighbours: 3}\n")
    triples = random_triples(7, rows=80)
    examples, keywords = tables(triples)
    clusters = clusters_of(examples, keywords).to_pylist()
    paths, nothing = DatasetPaths("d"), [None] * len(examples)
    for kind, rows in (("examples", examples.assign(
            reference_ids=nothing, group=0, negative_origin=nothing)),
                       ("keywords", keywords.assign(method="textrank", score=1.0))):
        write_table(paths.table(kind), SCHEMAS[kind], rows, Provenance(kind, ""))
    write_no_phrases(paths)
    assert graph.main(["d"]) == 0
    nodes, edges = (read_table(paths.table(kind), SCHEMAS[kind]) for kind in ("nodes", "edges"))
    assert named(nodes, edges) == oracle(triples, max_neighbours=3)
    assert read_table(paths.table("clusters"), SCHEMAS["clusters"]).to_pylist() == clusters
    assert read_metadata(paths.table("clusters"))["counts"] == {"clusters": len({row["keyword"] for row in clusters})}
    metrics = json.loads(paths.metrics("graph").read_text())
    assert metrics.pop("phrases") == {"nodes": 0, "edges": 0, "components": 0, "largest_component": 0, "communities": 0}
    assert metrics == build(triples, max_neighbours=3)[0].metrics == read_metadata(paths.table("nodes"))["counts"]
    assert metrics["centrality_residual"] < 1e-10
    written = [bytes_of(paths.table(kind)) for kind in ("clusters", "nodes", "edges")]
    assert graph.main(["d"]) == 0
    assert [bytes_of(paths.table(kind)) for kind in ("clusters", "nodes", "edges")] == written


MANY_WORDS = [f"w{number:02d}" for number in range(60)]


def numbered(triples):
    return node_triples(*tables(triples))


def columns(edges):
    return [getattr(edges, name).tolist() for name in ("target", "source", "sign", "count")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", [1, 7, 100, 5000])
def test_the_size_of_a_block_changes_nothing(seed, block):
    triples = numbered(random_triples(seed, rows=300, words=MANY_WORDS))
    whole, cut = (relate(triples, 5, 4, True, size) for size in (BLOCK, block))
    assert columns(cut.edges) == columns(whole.edges)
    assert cut.dropped == whole.dropped
    assert [column.dtype for column in vars(cut.edges).values()] == ["int32", "int32", "int8", "int64"]


def test_what_was_dropped_is_counted_as_the_loops_count_it():
    triples = random_triples(3, rows=150, words=MANY_WORDS)
    kept = relate(numbered(triples), 4, None, False)
    everything = oracle(triples, max_neighbours=10**9, link_inputs=False)
    assert kept.dropped.capped == len(everything) - len(kept.edges)
    by_cluster = [[row for row in triples if row[0] == head] for head in {row[0] for row in triples}]
    good, bad = ({(a[1], b[place]) for members in by_cluster for a in members for b in members} for place in (1, 2))
    assert kept.dropped.conflicts == sum(a != b for a, b in good & bad)
    assert kept.dropped.positive_self_pairs == sum(a == b for a, b in good)
    assert kept.dropped.negative_self_pairs == sum(a == b for a, b in bad)


def test_large_counts_stay_exact():
    # One cluster of 30,000 equal members: 900,000,000 pairs of each sign, and an odd one out.
    triples = [("h", "a", "b")] * 30_000 + [("h", "c", "d")]
    found = relate(numbered(triples), 16, None, False)
    names = {"keyword": numbered(triples).names}
    assert named(names, found.edges.table()) == {
        ("a", "c", 1): 30_000, ("c", "a", 1): 30_000, ("a", "b", -1): 900_000_000, ("a", "d", -1): 30_000,
        ("c", "b", -1): 30_000, ("c", "d", -1): 1}


def test_more_pairs_than_can_be_counted_are_refused(monkeypatch):
    triples = numbered([("a", "b", None)] * 40)
    monkeypatch.setattr(relations, "_EXACT", 1601)
    relate(triples, 16, None, False)
    with pytest.raises(InputError, match="more than 2\\^53 pairs of examples.*Set ingest.max_train"):
        relate(triples, 16, None, True)


EXAMPLES = pd.DataFrame({
    "example_id": [0, 1, 2, 3], "split": ["train", "train", "test", "train"], "source_id": [0, 1, 0, 4],
    "target_id": [1, 2, 2, 1], "negative_id": pd.array([2, None, 3, 3], dtype="Int64")})
NAMED = pd.DataFrame({"text_id": range(5), "keyword": ["dough", "oven", "yeast", "salt", NO_KEYWORD]})


@pytest.mark.parametrize(("text", "found"), [
    ("Modern Art  in Paris", {"art", "modern art"}), ("smart start", set()), ("art's modern", {"art"}),
    ("artful modern", set()), ("the arts", set()), ("modern art.", {"art", "modern art"}), ("", set())])
def test_a_text_contains_keywords_token_by_token(text, found):
    spans = [match.span() for match in re.finditer(r"\w+|'s|[^\w\s]", text)]
    starts, ends = [span[0] for span in spans], [span[1] for span in spans]
    lemmas = [text[start:end].removesuffix("s") for start, end in spans]
    keywords = ["art", "modern art", "modern art movement"]
    for by_lemmas, expected in ((False, found), (True, found | ({"art"} if "arts" in text else set()))):
        places = Containment(keywords, by_lemmas).places(text, starts, ends, lemmas)
        assert {keyword for *_, keyword in places} == expected


def test_training_examples_are_grouped_by_the_keywords_that_their_inputs_contain():
    texts = ["sour dough oven", "my oven", "yeast oven", "salt", "Oven salt"]
    words = [text.split() for text in texts]
    starts = [[text.index(word) for word in row] for text, row in zip(texts, words, strict=True)]
    tokens = pd.DataFrame({"text_id": range(5), "token": words, "start": starts, "lemma": words, "end": [
        [start + len(word) for start, word in zip(*row, strict=True)] for row in zip(starts, words, strict=True)]})
    tokens["is_stop"] = [[False] * len(row) for row in words]
    tokens["pos"] = [["NOUN"] * len(row) for row in words]
    rows = clusters_of(EXAMPLES, NAMED, tokens)
    # "salt" names no input, so that it is no cluster; the last example has no keyword of its own.
    assert [(row["keyword"], row["example_id"]) for row in rows.to_pylist()] == [
        ("dough", 0), ("oven", 0), ("oven", 1), ("oven", 3)]
    made = graph.run(node_triples(EXAMPLES, NAMED, searched=tokens), Graph(cluster_by="contains"))
    assert made.metrics["share_without_input_keyword"] == round(1 / 3, 6)
    sizes = dict(zip(made.nodes["keyword"].to_pylist(), made.nodes["cluster_size"].to_pylist(), strict=True))
    assert (sizes["dough"], sizes["oven"]) == (1, 3)
    # Links are of an input's own keyword: "oven" and the target keyword of example 0, "oven", share no link.
    edges = {(row["target"], row["source"]): row["count"] for row in made.edges.to_pylist() if row["sign"] == 1}
    names = made.nodes["keyword"].to_pylist()
    assert {(names[a], names[b]): count for (a, b), count in edges.items()} == {
        ("dough", "oven"): 1, ("oven", "dough"): 1, ("oven", "yeast"): 3, ("yeast", "oven"): 3}


def test_what_exceeds_memory_goes_to_disk_and_gives_the_same(tmp_path, monkeypatch):
    rng, rows, texts = np.random.default_rng(0), 300_000, 600_000
    examples = pa.table({"split": pa.repeat("train", rows), "example_id": rng.permutation(rows), **{
        name: rng.integers(0, texts, rows) for name in ("source_id", "target_id", "negative_id")}})
    words = [f"a keyword of some length {number}" for number in rng.permutation(texts)]
    keywords, by_text = pa.table({"text_id": np.arange(texts), "keyword": words}), triples_module._by_text
    on_disk = []

    def watched(connection):
        on_disk.append(connection.sql("FROM duckdb_temporary_files()").fetchall())
        return by_text(connection)

    monkeypatch.setattr(triples_module, "_by_text", watched)
    ample, scarce = (pa.concat_tables(node_triples(examples, keywords, JoinLimits(memory, tmp_path / name)).clusters())
                     for name, memory in (("ample", 4.0), ("scarce", 0.0625)))
    assert not on_disk[0] and on_disk[1]
    assert ample.num_rows == rows
    assert scarce.equals(ample)
