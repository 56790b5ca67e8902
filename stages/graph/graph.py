"""Join the phrases of texts; of pairs, group training examples by keyword and build the graph of their keywords.

Reads items, tokens, ranked phrases and keywords of a data set; writes graph/phrases, of pairs also graph/clusters,
graph/nodes and graph/edges, and metrics/graph.json.
Joins keep to runtime.memory_gib and go to disk beyond that; edges are formed for a block of nodes at a time.
"""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stages.common.columns.items import EXAMPLES
from stages.common.example_texts import examples_schema
from stages.common.paths import DatasetPaths
from stages.common.tables import write_json
from stages.graph.clusters import write_clusters
from stages.graph.graph_tables import GraphTables, graph_tables, write_graph
from stages.graph.joins import DEFAULT_LIMITS, JoinLimits, NodeTriples, Rows, node_triples
from stages.graph.phrases import write_phrases
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
    paths = DatasetPaths(process.instance)
    metrics: dict[str, Any] = {"phrases": write_phrases(process)}
    if examples_schema(paths.table("examples")) is EXAMPLES:
        write_clusters(process)
        made = run(paths.table("examples"), paths.table("keywords"), paths.table("clusters"), process.params.graph,
                   JoinLimits.of(process))
        write_graph(process, made)
        metrics |= made.metrics
    write_json(paths.metrics("graph"), metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named on the command line."""
    return run_stage("graph", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
