"""Build the phrase graph of texts and, for pairs, clusters of examples and the keyword graph (HCL section 3.2.2).

Queries keep to runtime.memory_gib and spill to disk; edges are formed for a block of nodes at a time.
"""

from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from keycontrast.network import Centrality, Communities, Edges, centrality, communities, components
from stages.common.examples import examples_schema
from stages.common.paths import DatasetPaths
from stages.common.schemas import CLUSTERS, EDGES, EXAMPLES, NODES
from stages.common.tables import ROW_GROUP, Provenance, as_table, table_writer, write_json, write_table
from stages.graph.joins import JoinLimits
from stages.graph.phrases import write_phrases
from stages.graph.relations import Relations, relate
from stages.graph.triples import NodeTriples, node_triples
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.graph.params import Graph


@dataclass(frozen=True)
class GraphTables:
    """Tables ``nodes`` and ``edges``, and the stage's metrics."""

    nodes: pa.Table
    edges: pa.Table
    metrics: dict[str, Any]


def run(triples: NodeTriples, params: "Graph") -> GraphTables:
    """Return the keyword graph (HCL section 3.2.2) of the training examples."""
    relations = relate(triples, params.max_neighbours, params.max_cluster_outputs, params.link_inputs)
    nodes, edges = len(triples.names), relations.edges
    ranks, component = centrality(nodes, edges), components(nodes, edges)
    groups = communities(nodes, edges, params.resolution)
    return GraphTables(node_table(triples, edges, ranks.scores, component, groups.number), edges.table(),
                       {**_counts(nodes, relations, ranks, component, groups),
                        **contrast_shares(triples.of_examples(), edges)})


def node_table(triples: NodeTriples, edges: Edges, scores: np.ndarray, component: np.ndarray,
               community: np.ndarray) -> pa.Table:
    """Return table ``nodes``, given the centrality, component and community of each node (n,)."""
    nodes = len(triples.names)
    members = triples.input[triples.input != triples.none]
    positive = edges.sign == 1
    degrees = {f"{side}_{name}": np.bincount(ends[which], minlength=nodes)
               for side, ends in (("in", edges.target), ("out", edges.source))
               for name, which in (("positive", positive), ("negative", ~positive))}
    return as_table(NODES, {"node_id": np.arange(nodes), "keyword": triples.names,
                              "cluster_size": np.bincount(members, minlength=nodes), **degrees,
                              "centrality": scores, "component": component, "community": community})


def contrast_shares(triples: NodeTriples, edges: Edges) -> dict[str, float]:
    """Return the shares of training examples that limit what a contrast of keywords can do.

    An example whose output keyword has no negative neighbour uses its own negative keyword; without either it has no
    keyword contrast and is masked.
    """
    if not len(triples):
        return {}
    contrasted = np.zeros(len(triples.names), dtype=bool)
    contrasted[edges.target[edges.sign == -1]] = True
    with_negative = contrasted[triples.output]
    same = triples.output == triples.negative
    own = (triples.negative >= 0) & ~same
    return {
        "share_input_equals_output": _share(triples.input == triples.output),
        "share_output_equals_negative": _share(same),
        "share_with_negative_neighbour": _share(with_negative),
        "share_own_negative_only": _share(~with_negative & own),
        "share_masked": _share(~with_negative & ~own),
        "share_without_input_keyword": _share(triples.input == triples.none),
    }


def _share(where: np.ndarray) -> float:
    return round(float(np.mean(where)), 6)


def _counts(nodes: int, relations: Relations, ranks: Centrality, component: np.ndarray,
            communities: Communities) -> dict[str, float]:
    dropped = relations.dropped
    return {
        "nodes": nodes,
        "edges_positive": int(np.count_nonzero(relations.edges.sign == 1)),
        "edges_negative": int(np.count_nonzero(relations.edges.sign == -1)),
        "positive_self_pairs": dropped.positive_self_pairs,
        "negative_self_pairs_dropped": dropped.negative_self_pairs,
        "conflicts_kept_positive": dropped.conflicts,
        "edges_capped": dropped.capped,
        "cluster_outputs_capped": relations.capped_outputs,
        "clusters_capped": relations.capped_clusters,
        "components": int(component.max(initial=-1)) + 1,
        "largest_component": int(np.bincount(component).max(initial=0)),
        "communities": int(communities.number.max(initial=-1)) + 1,
        "largest_community": int(np.bincount(communities.number).max(initial=0)),
        "modularity": round(communities.modularity, 9),
        "centrality_iterations": ranks.iterations,
        "centrality_residual": float(f"{ranks.residual:.3g}"),  # further digits are rounding
    }


def write_graph(process: StageProcess, triples: NodeTriples, graph: GraphTables) -> None:
    """Write the clusters and the graph of the stage's data set."""
    paths = DatasetPaths(process.instance)
    heads = len(np.unique(triples.input[triples.input != triples.none]))
    provenance = Provenance(process.name, process.params_hash, counts={"clusters": heads})
    with table_writer(paths.table("clusters"), CLUSTERS, provenance) as writer:
        for piece in triples.clusters():
            writer.write(piece)
    provenance = Provenance(process.name, process.params_hash,
                            models={"communities": {"igraph": version("igraph")}}, counts=graph.metrics)
    with table_writer(paths.table("edges"), EDGES, provenance) as writer:
        for start in range(0, graph.edges.num_rows, ROW_GROUP):
            writer.write(graph.edges.slice(start, ROW_GROUP))
    write_table(paths.table("nodes"), NODES, graph.nodes, provenance)


def _work(process: StageProcess) -> None:
    paths, params = DatasetPaths(process.instance), process.params
    metrics: dict[str, Any] = {"phrases": write_phrases(process)}
    if examples_schema(paths.table("examples")) is EXAMPLES:
        searched = paths.table("tokens") if params.graph.cluster_by == "contains" else None
        triples = node_triples(paths.table("examples"), paths.table("keywords"), JoinLimits.of(process), searched,
                               params.keywords.lemmatize)
        tables = run(triples, params.graph)
        write_graph(process, triples, tables)
        metrics |= tables.metrics
    write_json(paths.metrics("graph"), metrics)


main = partial(run_stage, "graph", _work)
