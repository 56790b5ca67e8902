"""Build the positive and negative keyword graph of the training examples."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_frame, write_json, write_table
from stages.graphs.relations import relate
from stages.graphs.statistics import contrast_shares, node_table
from stages.graphs.triples import keyword_triples, node_names
from stages.runtime.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import Graph


@dataclass(frozen=True)
class GraphTables:
    """Tables ``nodes`` and ``edges``, and the stage's metrics."""

    nodes: pd.DataFrame
    edges: pd.DataFrame
    metrics: dict[str, Any]


def run(examples: pd.DataFrame, keywords: pd.DataFrame, clusters: pd.DataFrame, params: "Graph") -> GraphTables:
    """Return the keyword graph (HCL 3.1; METHODS A.3), from training data only.

    Args:
        examples: table ``examples``.
        keywords: table ``keywords``.
        clusters: table ``clusters``.
        params: block ``graph``.
    """
    triples = keyword_triples(examples, keywords)
    names = node_names(triples)
    relations = relate(clusters, names, params.max_nbr, params.max_cluster_outputs, params.link_inputs)
    edges = relations.edges
    metrics = {
        "nodes": len(names),
        "edges_positive": int((edges["sign"] == 1).sum()),
        "edges_negative": int((edges["sign"] == -1).sum()),
        "positive_self_pairs": relations.positive_self_pairs,
        "negative_self_pairs_dropped": relations.negative_self_pairs,
        "conflicts_kept_positive": relations.conflicts,
        "edges_capped": relations.capped,
        "cluster_outputs_capped": relations.capped_outputs,
        **contrast_shares(triples, names, edges),
    }
    return GraphTables(node_table(names, clusters, edges), edges, metrics)


def _work(process: StageProcess) -> None:
    from stages.params import load_params, stage_hash

    params = load_params()
    paths = DatasetPaths(process.instance)
    tables = {kind: read_frame(paths.table(kind), kind) for kind in ("examples", "keywords", "clusters")}
    result = run(**tables, params=params.graph)
    provenance = Provenance(stage=process.name, params_hash=stage_hash(params, "graph", process.instance),
                            counts=result.metrics)
    write_table(paths.table("nodes"), "nodes", result.nodes, provenance)
    write_table(paths.table("edges"), "edges", result.edges, provenance)
    write_json(paths.metrics("graph"), result.metrics)


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named on the command line."""
    return run_stage("graph", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
