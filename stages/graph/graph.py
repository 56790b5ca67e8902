"""Group training examples by keyword, and build the graph of positive and negative keywords.

Reads items and keywords of a data set of pairs, and tokens where clusters are by containment; writes graph/clusters,
graph/nodes, graph/edges and metrics/graph.json.
Joins keep to runtime.memory_gib and go to disk beyond that; edges are formed for a block of nodes at a time.
"""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from stages.common.paths import DatasetPaths
from stages.graph.clusters import write_clusters
from stages.graph.graph_tables import GraphTables, graph_tables, write_graph
from stages.graph.joins import DEFAULT_LIMITS, JoinLimits, NodeTriples, Rows, node_triples
from stages.graph.relations import relate
from stages.graph.statistics import contrast_shares
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.graph.params import Graph


def run(examples: Rows, keywords: Rows, clusters: Rows, params: "Graph",
        limits: JoinLimits = DEFAULT_LIMITS) -> GraphTables:
    """Return the keyword graph (HCL section 3.2.2), from training data only.

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
    relations = relate(triples, params.max_nbr, params.max_cluster_outputs, params.link_inputs)
    made = graph_tables(triples, relations, params.resolution)
    return replace(made, metrics={**made.metrics, **contrast_shares(triples.of_examples(), relations.edges)})


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    write_clusters(process)
    result = run(paths.table("examples"), paths.table("keywords"), paths.table("clusters"), params.graph,
                 JoinLimits.of(process))
    write_graph(process, result)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named on the command line."""
    return run_stage("graph", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
