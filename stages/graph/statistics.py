"""Node statistics and the shares that bound what a contrast can do."""


import numpy as np
import pyarrow as pa

from keycontrast.network import Edges
from stages.common.schemas import NODES
from stages.common.tables import as_table
from stages.graph.triples import NodeTriples


def node_table(triples: NodeTriples, edges: Edges, scores: np.ndarray, component: np.ndarray,
               community: np.ndarray) -> pa.Table:
    """Return table ``nodes``.

    Args:
        triples: of the training examples.
        edges: of the graph.
        scores: centrality of each node (n,).
        component, community: number of each node's (n,).
    """
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
    """Return the shares of training examples that are reported beside every contrast.

    An example whose output keyword has no negative neighbour falls back to its own negative keyword;
    without either it takes part in no keyword contrast and counts as masked.
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
