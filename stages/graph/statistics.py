"""Node statistics and the shares that bound what a contrast can do (METHODS A.3)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy import sparse

from stages.common.columns.graph import NODES
from stages.common.edges import Edges
from stages.common.tables import as_table
from stages.graph.joins import NodeTriples

DAMPING = 0.85


@dataclass(frozen=True)
class Centrality:
    """PageRank of each node.

    Attributes:
        scores: (n,) float64, summing to 1.
        iterations: steps taken.
        residual: L1 change in the last of them.
    """

    scores: np.ndarray
    iterations: int
    residual: float


def centrality(nodes: int, edges: Edges, tolerance: float = 1e-10) -> Centrality:
    """Return PageRank over the positive edges (Page et al. 1999), by power iteration.

    A node that receives from another votes for it, with the edge's count as weight; a node that receives from none
    votes for all alike. Iteration stops when the scores change by less than ``tolerance`` in L1, in absolute terms:
    every step shrinks the change to 0.85 of what it was, so it always ends, after 146 steps at the default.

    Args:
        nodes: number of nodes n.
        edges: of the graph; those of negative sign are not looked at.
        tolerance: absolute L1 change, above the rounding of n sums.
    """
    if nodes == 0:
        return Centrality(np.zeros(0), 0, 0.0)
    positive = edges.where(edges.sign == 1)
    given = np.bincount(positive.target, positive.count, minlength=nodes)
    votes = sparse.csr_array((positive.count / given[positive.target], (positive.source, positive.target)),
                             shape=(nodes, nodes))
    silent = given == 0
    scores, residual, iterations = np.full(nodes, 1 / nodes), np.inf, 0
    while residual >= tolerance:
        before = scores
        scores = DAMPING * (votes @ before + before[silent].sum() / nodes) + (1 - DAMPING) / nodes
        residual, iterations = float(np.abs(scores - before).sum()), iterations + 1
    return Centrality(scores, iterations, residual)


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
    """Return the shares of training examples that METHODS A.3 asks to report beside every contrast.

    An example whose output keyword has no negative neighbour falls back to its own negative keyword (METHODS A.4);
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
