"""The graph stage against a networkx-and-loops oracle, and METHODS A.3's resolutions one by one."""

import itertools
from collections import Counter

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from stages.artifacts.schemas import NO_KEYWORD
from stages.artifacts.tables import as_table
from stages.clusters import run as run_clusters
from stages.graph import run
from stages.graphs.triples import keyword_triples
from stages.params.data import Graph


def tables(triples, splits=None):
    """Examples and keywords of (k_x, k_y+, k_y- or None) triples; every text is its own."""
    rows, words = [], []
    for number, triple in enumerate(triples):
        ids = [3 * number + place if word is not None else None for place, word in enumerate(triple)]
        words += [(text, word) for text, word in zip(ids, triple, strict=True) if word is not None]
        rows.append((number, splits[number] if splits else "train", *ids))
    examples = pd.DataFrame(rows, columns=["example_id", "split", "source_id", "target_id", "negative_id"])
    examples["negative_id"] = examples["negative_id"].astype("Int64")
    return examples, pd.DataFrame(words, columns=["text_id", "keyword"])


def build(triples, splits=None, **params):
    examples, keywords = tables(triples, splits)
    clusters = pa.concat_tables([as_table("clusters", EMPTY), *run_clusters(examples, keywords)])
    result = run(examples, keywords, clusters, Graph(**params))
    result = replace(result, nodes=as_table("nodes", result.nodes), edges=as_table("edges", result.edges))
    names = result.nodes["keyword"].to_pylist()
    edges = {(names[row["target"]], names[row["source"]], row["sign"]): row["count"]
             for row in result.edges.to_pylist()}
    return result, edges


def oracle(triples, max_nbr, link_inputs):
    """The same edges by visiting every pair of members, as METHODS A.3 words it."""
    positive, negative = Counter(), Counter()
    heads = sorted({x for x, _, _ in triples if x != NO_KEYWORD})
    for head in heads:
        members = [triple for triple in triples if triple[0] == head]
        for (_, own, _), (_, output, neg) in itertools.product(members, members):
            if own == NO_KEYWORD:
                continue
            if output != NO_KEYWORD:
                positive[own, output] += 1
            if neg not in (None, NO_KEYWORD):
                negative[own, neg] += 1
        for head_word, output, _ in members:
            if link_inputs and output != NO_KEYWORD:
                positive[head_word, output] += 1
                positive[output, head_word] += 1
    positive = {pair: n for pair, n in positive.items() if pair[0] != pair[1]}
    negative = {pair: n for pair, n in negative.items() if pair[0] != pair[1] and pair not in positive}
    kept = {}
    for counts, sign in ((positive, 1), (negative, -1)):
        for target in sorted({pair[0] for pair in counts}):
            mine = sorted(((-n, source) for (t, source), n in counts.items() if t == target))[:max_nbr]
            kept.update({(target, source, sign): -n for n, source in mine})
    return kept


WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", NO_KEYWORD]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("max_nbr", "link_inputs"), [(16, True), (16, False), (2, True), (1, False)])
def test_edges_equal_the_oracle(seed, max_nbr, link_inputs):
    rng = np.random.default_rng(seed)
    triples = [(WORDS[a], WORDS[b], WORDS[c] if rng.random() < 0.8 else None)
               for a, b, c in rng.integers(0, len(WORDS), size=(40, 3))]
    _, edges = build(triples, max_nbr=max_nbr, link_inputs=link_inputs)
    assert edges == oracle(triples, max_nbr, link_inputs)


def test_positive_wins_over_negative_and_is_counted():
    # In cluster "a" both members answer with b or c, and b is also the negative of the second.
    result, edges = build([("a", "b", None), ("a", "c", "b")], link_inputs=False)
    assert edges == {("b", "c", 1): 1, ("c", "b", 1): 1}
    assert result.metrics["conflicts_kept_positive"] == 1
    assert result.metrics["negative_self_pairs_dropped"] == 1
    assert result.metrics["positive_self_pairs"] == 2


def test_only_training_examples_are_seen():
    result, edges = build([("a", "b", "c"), ("a", "d", "e")], splits=["train", "test"], link_inputs=False)
    assert result.nodes["keyword"].tolist() == ["a", "b", "c"]
    assert edges == {("b", "c", -1): 1}


def test_a_text_without_keyword_is_a_node_without_edges_or_cluster():
    result, edges = build([(NO_KEYWORD, "b", "c"), ("a", NO_KEYWORD, "c")])
    assert NO_KEYWORD in result.nodes["keyword"].tolist()
    assert not edges
    assert result.nodes.set_index("keyword")["cluster_size"].to_dict() == {NO_KEYWORD: 0, "a": 1, "b": 0, "c": 0}


def test_cluster_outputs_are_capped_by_count_then_name():
    triples = [("a", word, None) for word in ("z", "z", "b", "c", "d")]
    result, edges = build(triples, max_cluster_outputs=2, link_inputs=False)
    assert {pair[:2] for pair in edges} == {("z", "b"), ("b", "z")}
    assert edges["z", "b", 1] == 2
    assert result.metrics["cluster_outputs_capped"] == 2


def test_shares_follow_their_words():
    triples = [("a", "a", "a"), ("a", "b", "c"), ("d", "e", None), (NO_KEYWORD, "g", "h")]
    result, _ = build(triples, link_inputs=False)
    metrics = result.metrics
    assert metrics["share_input_equals_output"] == 0.25
    assert metrics["share_output_equals_negative"] == 0.25
    # Cluster a: outputs a, b; negatives a, c. Both outputs receive negatively from c (a is positive to b).
    assert metrics["share_with_negative_neighbour"] == 0.5
    assert metrics["share_own_negative_only"] == 0.25
    assert metrics["share_masked"] == 0.25
    assert metrics["share_without_input_keyword"] == 0.25


def test_degrees_and_centrality_agree_with_networkx():
    rng = np.random.default_rng(3)
    triples = [tuple(WORDS[i] for i in row) for row in rng.integers(0, 6, size=(30, 3))]
    result, edges = build(triples)
    graph = nx.DiGraph()
    graph.add_nodes_from(result.nodes["keyword"])
    graph.add_weighted_edges_from([(t, s, n) for (t, s, sign), n in edges.items() if sign == 1])
    oracle_ranks = nx.pagerank(graph, tol=1e-14, max_iter=5000)
    nodes = result.nodes.set_index("keyword")
    for word in nodes.index:
        assert nodes.loc[word, "in_positive"] == graph.out_degree(word)
        assert nodes.loc[word, "out_positive"] == graph.in_degree(word)
        assert nodes.loc[word, "centrality"] == pytest.approx(oracle_ranks[word], abs=1e-9)
    assert nodes["centrality"].sum() == pytest.approx(1.0)


def test_tables_fit_their_schemas_and_are_sorted():
    result, _ = build([("a", "b", "c"), ("a", "c", "b")])
    assert as_table("nodes", result.nodes).num_rows == 3
    table = as_table("edges", result.edges).to_pandas()
    assert table.equals(table.sort_values(["target", "source", "sign"]).reset_index(drop=True))


def test_a_missing_keyword_row_is_named():
    examples, keywords = tables([("a", "b", "c")])
    with pytest.raises(ValueError, match="example 0 refers to a text without keyword row"):
        keyword_triples(examples, keywords.iloc[:2])
