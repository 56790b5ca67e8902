"""Build the positive and negative keyword graph of the training examples.

Reads examples, keywords and clusters of a data set; writes nodes.parquet, edges.parquet and metrics/graph.json.
Joins keep to runtime.memory_gib and go to disk beyond that; edges are formed for a block of nodes at a time.
"""

import sys
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import ROW_GROUP, Provenance, table_writer, write_json, write_table
from stages.graph.joins import DEFAULT_LIMITS, JoinLimits, NodeTriples, Rows, node_triples
from stages.graph.partitions import Communities, communities, components
from stages.graph.relations import Relations, relate
from stages.graph.schemas.graph import EDGES, NODES
from stages.graph.statistics import Centrality, centrality, contrast_shares, node_table
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import Graph


@dataclass(frozen=True)
class GraphTables:
    """Tables ``nodes`` and ``edges``, and the stage's metrics."""

    nodes: pa.Table
    edges: pa.Table
    metrics: dict[str, Any]


def run(examples: Rows, keywords: Rows, clusters: Rows, params: "Graph",
        limits: JoinLimits = DEFAULT_LIMITS) -> GraphTables:
    """Return the keyword graph (HCL 3.1; METHODS A.3), from training data only.

    Args:
        examples: table ``examples``, or its file.
        keywords: table ``keywords``, or its file.
        clusters: table ``clusters``, or its file.
        params: block ``graph``.
        limits: memory of the joins, which never decides a row.

    Raises:
        InputError: more pairs of examples than can be counted.
    """
    return graph_of(node_triples(examples, keywords, clusters, limits), params)


def graph_of(triples: NodeTriples, params: "Graph") -> GraphTables:
    """Return the keyword graph of ``triples``, as :func:`run` does."""
    nodes = len(triples.names)
    relations = relate(triples, params.max_nbr, params.max_cluster_outputs, params.link_inputs)
    edges = relations.edges
    ranks, component = centrality(nodes, edges), components(nodes, edges)
    found = communities(nodes, edges, params.resolution)
    metrics = {**_sizes(nodes, relations), **_shape(ranks, component, found),
               **contrast_shares(triples.of_examples(), edges)}
    return GraphTables(node_table(triples, edges, ranks.scores, component, found.number), edges.table(), metrics)


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


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    result = run(paths.table("examples"), paths.table("keywords"), paths.table("clusters"), params.graph,
                 JoinLimits(params.runtime.memory_gib, process.scratch / "joins"))
    provenance = Provenance(process.name, process.params_hash,
                            models={"communities": {"igraph": version("igraph")}}, counts=result.metrics)
    with table_writer(paths.table("edges"), EDGES, provenance) as writer:
        for start in range(0, result.edges.num_rows, ROW_GROUP):
            writer.write(result.edges.slice(start, ROW_GROUP))
    write_table(paths.table("nodes"), NODES, result.nodes, provenance)
    write_json(paths.metrics("graph"), result.metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named on the command line."""
    return run_stage("graph", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
