"""The keyword graph beside networkx and Python loops."""

from collections import Counter, defaultdict
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa

from benchmarks.harness import Context, Disagreement, Section, compare
from keycontrast.network import centrality, components
from stages.graph.params import Graph
from stages.graph.relations import relate
from stages.graph.triples import node_triples

ROLES = ("input_keyword", "output_keyword", "negative_keyword")
_COMPARED, _COMPARED_QUICK = 100_000, 1_000
_CLOSE = 1e-9
_REPEATS = 3  # of runs in which networkx takes most of a minute

Edge = tuple[str, str, int]


def run(context: Context) -> list[Section]:
    """Compare the times of both on the same triples."""
    triples = zipf_triples(_COMPARED_QUICK if context.quick else _COMPARED)
    settings = Graph()
    agreement = _agreement(triples, settings)
    rows = compare({"ours": lambda: columns_first(triples, settings),
                    "networkx and Python loops": lambda: networkx_loops(triples, settings)},
                   repeats=min(context.repeats, _REPEATS), warmup=0, items=triples.num_rows, unit="triples")
    return [Section(
        "Keyword triples to edges, centrality and components",
        f"{triples.num_rows:,} triples (synthetic, keywords by Zipf 1.0 over 200,000), "
        f"{settings.max_neighbours} neighbours, {settings.max_cluster_outputs} outputs a cluster for both, one thread",
        agreement, [rows], [
            "networkx and Python loops: a loop over the pairs of distinct keywords of each cluster, edges in a DiGraph "
            "per sign, then conflicts, caps, nx.pagerank and nx.weakly_connected_components."])]


def columns_first(triples: pa.Table, settings: Graph) -> tuple[Any, ...]:
    """Build the graph our way: DuckDB, sparse products, power iteration."""
    numbered = node_triples(_examples(triples), _keywords(triples))
    nodes = len(numbered.names)
    edges = relate(numbered, settings.max_neighbours, settings.max_cluster_outputs, settings.link_inputs).edges
    return numbered.names, edges, centrality(nodes, edges).scores, components(nodes, edges)


def networkx_loops(triples: pa.Table, settings: Graph) -> tuple[dict[Edge, int], dict[str, float], set[frozenset[str]]]:
    """Return counts of edges by target, source and sign, PageRank by keyword, and the keywords of each component."""
    rows = list(zip(*(triples[role].to_pylist() for role in ROLES), strict=True))
    clusters: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for head, output, negative in rows:
        clusters[head].append((output, negative))
    positive, negatives = nx.DiGraph(), nx.DiGraph()
    for graph in (positive, negatives):
        graph.add_nodes_from(word for row in rows for word in row if word is not None)
    for head, members in clusters.items():
        outputs = _top(Counter(output for output, _ in members), settings.max_cluster_outputs)
        bad = _top(Counter(word for _, word in members if word is not None), settings.max_cluster_outputs)
        for own, times in outputs:
            for graph, others in ((positive, outputs), (negatives, bad)):
                for other, count in others:
                    _add(graph, own, other, times * count)
        if settings.link_inputs:
            for output, _ in members:
                _add(positive, head, output, 1)
                _add(positive, output, head, 1)
    positive.remove_edges_from(list(nx.selfloop_edges(positive)))
    negatives.remove_edges_from([(own, other) for own, other in negatives.edges
                                 if own == other or positive.has_edge(own, other)])
    for graph in (positive, negatives):
        for own in graph if settings.max_neighbours is not None else ():
            ranked = sorted(graph[own].items(), key=lambda item: (-item[1]["count"], item[0]))
            graph.remove_edges_from([(own, other) for other, _ in ranked[settings.max_neighbours:]])
    edges = {(own, other, sign): count for graph, sign in ((positive, 1), (negatives, -1))
             for own, other, count in graph.edges(data="count")}
    both = nx.compose(positive, negatives)
    ranks = nx.pagerank(positive, tol=1e-10 / max(len(positive), 1), max_iter=1000, weight="count")
    return edges, ranks, {frozenset(part) for part in nx.weakly_connected_components(both)}


def _top(counts: Counter[str], limit: int | None) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]


def _add(graph: nx.DiGraph, own: str, other: str, count: int) -> None:
    before = graph.get_edge_data(own, other, {"count": 0})["count"]
    graph.add_edge(own, other, count=before + count)


def _agreement(triples: pa.Table, settings: Graph) -> str:
    """Check that both build the same graph, and return a summary."""
    names, edges, scores, component = columns_first(triples, settings)
    their_edges, their_ranks, their_parts = networkx_loops(triples, settings)
    words = names.to_pylist()
    ours = {(words[target], words[source], sign): count for target, source, sign, count in zip(
        *(column.tolist() for column in (edges.target, edges.source, edges.sign, edges.count)), strict=True)}
    if ours != their_edges:
        raise Disagreement(f"graph: {len(ours.items() ^ their_edges.items())} edges differ")
    apart = max((abs(score - their_ranks[word]) for word, score in zip(words, scores, strict=True)), default=0.0)
    if apart > _CLOSE:
        raise Disagreement(f"graph: centralities differ by {apart:.1e}")
    parts: dict[int, set[str]] = defaultdict(set)
    for word, number in zip(words, component.tolist(), strict=True):
        parts[number].add(word)
    if {frozenset(part) for part in parts.values()} != their_parts:
        raise Disagreement("graph: components differ")
    return (f"the same {len(words):,} nodes, {len(ours):,} edges with their counts and {len(parts):,} components; "
            f"centralities differ by {apart:.0e} at most")


def zipf_triples(count: int, keywords: int = 200_000) -> pa.Table:
    """Return ``count`` triples of keywords drawn by Zipf's law; real triples agree more and give fewer edges."""
    rng = np.random.default_rng(13)
    cumulative = np.cumsum(1 / np.arange(1, keywords + 1))
    names = pa.array([f"keyword {number:06d}" for number in range(keywords)])
    dealt = rng.permutation(keywords).astype(np.int32)
    columns = {}
    for role in ROLES:
        ranks = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        columns[role] = pa.DictionaryArray.from_arrays(dealt[np.minimum(ranks, keywords - 1)], names).cast(pa.string())
    return pa.table(columns)


def _examples(triples: pa.Table) -> pa.Table:
    """Return one example and three texts of each triple."""
    number = np.arange(triples.num_rows)
    return pa.table({
        "example_id": number, "split": pa.repeat("train", len(number)),
        "source_id": 3 * number, "target_id": 3 * number + 1, "negative_id": 3 * number + 2,
        "reference_ids": pa.ListArray.from_arrays(np.arange(len(number) + 1, dtype=np.int32), 3 * number + 1),
        "group": number, "negative_origin": pa.repeat("given", len(number))})


def _keywords(triples: pa.Table) -> pa.Table:
    text = 3 * np.arange(triples.num_rows)
    ids = np.concatenate([text + place for place in range(len(ROLES))])
    words = pa.concat_arrays([triples[role].combine_chunks() for role in ROLES])
    return pa.table({"text_id": ids, "keyword": words, "method": pa.repeat("textrank", len(ids)),
                     "score": np.ones(len(ids))})
