"""What a keyword graph is written as: clusters, nodes with their statistics, edges, sizes and shape."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from keycontrast.network import Centrality, Communities, centrality, communities, components
from stages.common.paths import DatasetPaths
from stages.common.schemas import CLUSTERS, EDGES, NODES
from stages.common.tables import ROW_GROUP, Provenance, table_writer, write_table
from stages.graph.graph import node_table
from stages.graph.relations import Relations
from stages.graph.triples import NodeTriples
from stages.run.process import StageProcess


@dataclass(frozen=True)
class GraphTables:
    """Tables ``nodes`` and ``edges``, and the stage's metrics."""

    nodes: pa.Table
    edges: pa.Table
    metrics: dict[str, Any]


def graph_tables(triples: NodeTriples, relations: Relations, resolution: float) -> GraphTables:
    """Return the tables of a graph whose edges are known, with sizes and shape as metrics.

    Args:
        triples: names of the nodes, and the members of their clusters.
        relations: the edges.
        resolution: of the communities.
    """
    nodes, edges = len(triples.names), relations.edges
    ranks, component = centrality(nodes, edges), components(nodes, edges)
    found = communities(nodes, edges, resolution)
    return GraphTables(node_table(triples, edges, ranks.scores, component, found.number), edges.table(),
                       {**_sizes(nodes, relations), **_shape(ranks, component, found)})


def _sizes(nodes: int, relations: Relations) -> dict[str, int]:
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
    }


def _shape(ranks: Centrality, component: np.ndarray, found: Communities) -> dict[str, float]:
    return {
        "components": int(component.max(initial=-1)) + 1,
        "largest_component": int(np.bincount(component).max(initial=0)),
        "communities": int(found.number.max(initial=-1)) + 1,
        "largest_community": int(np.bincount(found.number).max(initial=0)),
        "modularity": round(found.modularity, 9),
        "centrality_iterations": ranks.iterations,
        # Its last digits are rounding, of no use to anyone.
        "centrality_residual": float(f"{ranks.residual:.3g}"),
    }


def write_graph(process: StageProcess, triples: NodeTriples, made: GraphTables) -> None:
    """Write the clusters and the graph of the stage's data set."""
    paths = DatasetPaths(process.instance)
    heads = len(np.unique(triples.input[triples.input != triples.none]))
    provenance = Provenance(process.name, process.params_hash, counts={"clusters": heads})
    with table_writer(paths.table("clusters"), CLUSTERS, provenance) as writer:
        for piece in triples.clusters():
            writer.write(piece)
    provenance = Provenance(process.name, process.params_hash,
                            models={"communities": {"igraph": version("igraph")}}, counts=made.metrics)
    with table_writer(paths.table("edges"), EDGES, provenance) as writer:
        for start in range(0, made.edges.num_rows, ROW_GROUP):
            writer.write(made.edges.slice(start, ROW_GROUP))
    write_table(paths.table("nodes"), NODES, made.nodes, provenance)
