"""The keyword graph beside networkx and Python loops, and what the stages need on growing corpora."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa

from benchmarks.harness import Context, Disagreement, Section, compare, peak_memory, run_stage_in
from keycontrast.network import centrality, components
from stages.common.methods import KEYWORDS
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, TEXTS
from stages.common.tables import Provenance, read_table, row_count, table_writer, write_table
from stages.common.text_tables import TOKENS, ranked_by
from stages.graph.params import Graph
from stages.graph.relations import relate
from stages.graph.triples import node_triples

DATASET = "synthetic"
ROLES = ("input_keyword", "output_keyword", "negative_keyword")
_PIECE = 100_000
_PARAMS = f"recipe: synthetic\ndatasets:\n  {DATASET}:\n    source: synthetic.parquet\n"
_COMPARED, _COMPARED_QUICK = 100_000, 1_000
_CURVE, _CURVE_QUICK = (10_000, 100_000, 1_000_000, 5_000_000), (1_000, 3_000)
_CLOSE = 1e-9
_REPEATS = 3  # of runs in which networkx takes most of a minute

Edge = tuple[str, str, int]


@dataclass(frozen=True)
class Built:
    """The counts of edges by target, source and sign, the PageRank of each keyword, and the keywords of components."""

    edges: dict[Edge, int]
    ranks: dict[str, float]
    parts: set[frozenset[str]]


def run(context: Context) -> list[Section]:
    """Return the comparison, with the curve of the whole stages over the number of triples."""
    triples = zipf_triples(_COMPARED_QUICK if context.quick else _COMPARED)
    settings = Graph()
    agreement = _agreement(triples, settings)
    rows = compare({"ours": lambda: columns_first(triples, settings),
                    "networkx and Python loops": lambda: networkx_loops(triples, settings)},
                   repeats=min(context.repeats, _REPEATS), warmup=0, items=triples.num_rows, unit="triples")
    return [Section(
        "Keyword triples to edges, centrality and components",
        f"{triples.num_rows:,} triples (synthetic, keywords by Zipf 1.0 over 200,000), "
        f"max_nbr {settings.max_nbr}, max_cluster_outputs {settings.max_cluster_outputs} for both, one thread",
        agreement, [rows, [_point(zipf_triples(count)) for count in (_CURVE_QUICK if context.quick else _CURVE)]],
        _NOTES)]


_NOTES = [
    "networkx and Python loops: a loop over the pairs of distinct keywords of each cluster (counts multiplied, not "
    "every pair of members visited), edges in a DiGraph per sign, then conflicts, caps, nx.pagerank and "
    "nx.weakly_connected_components.",
    "The second table runs stage graph from Parquet to Parquet, with clusters and communities, in a fresh process "
    "with one thread; MiB are the peak of its memory above what it held before, without mapped files.",
]


def columns_first(triples: pa.Table, settings: Graph) -> tuple[Any, ...]:
    """Build the graph our way: DuckDB, sparse products, power iteration."""
    numbered = node_triples(_examples(triples, 0), _keywords(triples, 0))
    nodes = len(numbered.names)
    edges = relate(numbered, settings.max_nbr, settings.max_cluster_outputs, settings.link_inputs).edges
    return numbered.names, edges, centrality(nodes, edges).scores, components(nodes, edges)


def networkx_loops(triples: pa.Table, settings: Graph) -> Built:
    """Build the graph with networkx and loops over distinct keywords of a cluster."""
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
        for own in graph if settings.max_nbr is not None else ():
            ranked = sorted(graph[own].items(), key=lambda item: (-item[1]["count"], item[0]))
            graph.remove_edges_from([(own, other) for other, _ in ranked[settings.max_nbr:]])
    edges = {(own, other, sign): count for graph, sign in ((positive, 1), (negatives, -1))
             for own, other, count in graph.edges(data="count")}
    both = nx.compose(positive, negatives)
    ranks = nx.pagerank(positive, tol=1e-10 / max(len(positive), 1), max_iter=1000, weight="count")
    return Built(edges, ranks, {frozenset(part) for part in nx.weakly_connected_components(both)})


def _top(counts: Counter[str], limit: int | None) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]


def _add(graph: nx.DiGraph, own: str, other: str, count: int) -> None:
    before = graph.get_edge_data(own, other, {"count": 0})["count"]
    graph.add_edge(own, other, count=before + count)


def _agreement(triples: pa.Table, settings: Graph) -> str:
    """Check that both build the same graph, and say what was compared.

    Raises:
        Disagreement: they do not.
    """
    names, edges, scores, component = columns_first(triples, settings)
    theirs = networkx_loops(triples, settings)
    words = names.to_pylist()
    ours = {(words[target], words[source], sign): count for target, source, sign, count in zip(
        *(column.tolist() for column in (edges.target, edges.source, edges.sign, edges.count)), strict=True)}
    if ours != theirs.edges:
        raise Disagreement(f"graph: {len(ours.items() ^ theirs.edges.items())} edges differ")
    apart = max((abs(score - theirs.ranks[word]) for word, score in zip(words, scores, strict=True)), default=0.0)
    if apart > _CLOSE:
        raise Disagreement(f"graph: centralities differ by {apart:.1e}")
    parts: dict[int, set[str]] = defaultdict(set)
    for word, number in zip(words, component.tolist(), strict=True):
        parts[number].add(word)
    if {frozenset(part) for part in parts.values()} != theirs.parts:
        raise Disagreement("graph: components differ")
    return (f"the same {len(words):,} nodes, {len(ours):,} edges with their counts and {len(parts):,} components; "
            f"centralities differ by {apart:.0e} at most")


def _point(triples: pa.Table) -> dict[str, Any]:
    """Return time and memory of stage graph on ``triples``, and the size of what it makes."""
    with TemporaryDirectory() as name:
        folder, paths = Path(name), DatasetPaths(DATASET)
        write_project(folder, triples)
        record, peak = peak_memory(run_stage_in, folder, "graph", DATASET)
        signs = read_table(folder / paths.table("edges"), columns=["sign"])["sign"].to_numpy()
        return {"triples": triples.num_rows, "MiB": round(peak), "s": round(record["seconds"], 1),
                "nodes": row_count(folder / paths.table("nodes")),
                "positive edges": int((signs == 1).sum()), "negative edges": int((signs == -1).sum())}


# Synthetic triples, and a project folder that holds them


def zipf_triples(count: int, keywords: int = 200_000) -> pa.Table:
    """Return ``count`` keyword triples from a seed, each of ``keywords`` keywords drawn for itself by Zipf's law.

    Drawing the three independently is the hard case: real triples agree more, which leaves fewer edges.
    """
    rng = np.random.default_rng(13)
    cumulative = np.cumsum(1 / np.arange(1, keywords + 1))
    names = pa.array([f"keyword {number:06d}" for number in range(keywords)])
    dealt = rng.permutation(keywords).astype(np.int32)
    columns = {}
    for role in ROLES:
        ranks = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        columns[role] = pa.DictionaryArray.from_arrays(dealt[np.minimum(ranks, keywords - 1)], names).cast(pa.string())
    return pa.table(columns)


def write_project(folder: Path, triples: pa.Table) -> None:
    """Write ``triples`` to ``folder`` as a project whose data set ``synthetic`` is ready for stage ``graph``.

    Every keyword becomes the keyword of a text of its own, so a row makes one example and three texts. No phrase was
    ranked, so that the phrase graph is empty.
    """
    (folder / "params.yaml").write_text(_PARAMS, encoding="utf-8")
    for schema, rows in ((EXAMPLES, _examples), (KEYWORDS, _keywords)):
        path, provenance = folder / DatasetPaths(DATASET).table(schema.name), Provenance(f"{schema.name}@{DATASET}", "")
        with table_writer(path, schema, provenance) as writer:
            for start in range(0, triples.num_rows, _PIECE):
                writer.write(rows(triples.slice(start, _PIECE), start))
    for schema in (TEXTS, TOKENS, ranked_by("textrank")):
        write_table(folder / DatasetPaths(DATASET).table(schema.name), schema, schema.arrow().empty_table(),
                    Provenance(f"{schema.name}@{DATASET}", ""))


def _examples(triples: pa.Table, start: int) -> pa.Table:
    number = np.arange(start, start + triples.num_rows)
    return pa.table({
        "example_id": number, "split": pa.repeat("train", len(number)),
        "source_id": 3 * number, "target_id": 3 * number + 1, "negative_id": 3 * number + 2,
        "reference_ids": pa.ListArray.from_arrays(np.arange(len(number) + 1, dtype=np.int32), 3 * number + 1),
        "group": number, "negative_origin": pa.repeat("given", len(number))})


def _keywords(triples: pa.Table, start: int) -> pa.Table:
    text = 3 * np.arange(start, start + triples.num_rows)
    ids = np.concatenate([text + place for place in range(len(ROLES))])
    words = pa.concat_arrays([triples[role].combine_chunks() for role in ROLES])
    return pa.table({"text_id": ids, "keyword": words, "method": pa.repeat("textrank", len(ids)),
                     "score": np.ones(len(ids))})
