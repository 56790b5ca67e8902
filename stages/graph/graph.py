"""Join the phrases of texts; of pairs, group training examples by keyword and build the graph of their keywords.

Reads items, tokens, ranked phrases and keywords of a data set; writes graph/phrases, of pairs also graph/clusters,
graph/nodes and graph/edges, and metrics/graph.json.
Queries keep to runtime.memory_gib and go to disk beyond that; edges are formed for a block of nodes at a time.
"""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stages.common.examples import examples_schema
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES
from stages.common.tables import write_json
from stages.graph.graph import GraphTables, contrast_shares, graph_tables, write_graph
from stages.graph.joins import JoinLimits
from stages.graph.phrases import write_phrases
from stages.graph.relations import relate
from stages.graph.triples import NodeTriples, Searched, node_triples
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.graph.params import Graph


def run(triples: NodeTriples, params: "Graph") -> GraphTables:
    """Return the keyword graph (HCL section 3.2.2) of the training examples.

    Raises:
        InputError: more pairs of examples than can be counted.
    """
    relations = relate(triples, params.max_nbr, params.max_cluster_outputs, params.link_inputs)
    made = graph_tables(triples, relations, params.resolution)
    return replace(made, metrics={**made.metrics, **contrast_shares(triples.of_examples(), relations.edges)})


def _work(process: StageProcess) -> None:
    paths, params = DatasetPaths(process.instance), process.params
    metrics: dict[str, Any] = {"phrases": write_phrases(process)}
    if examples_schema(paths.table("examples")) is EXAMPLES:
        searched = None
        if params.graph.cluster_by == "contains":
            searched = Searched(paths.table("texts"), paths.table("tokens"), params.keywords.kw_lemma)
        triples = node_triples(paths.table("examples"), paths.table("keywords"), JoinLimits.of(process), searched)
        made = run(triples, params.graph)
        write_graph(process, triples, made)
        metrics |= made.metrics
    write_json(paths.metrics("graph"), metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named on the command line."""
    return run_stage("graph", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
