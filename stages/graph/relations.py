"""Edges of the keyword graph from clusters (HCL section 3.2.2), as sparse matrix products.

For a cluster c let n[c, a] be the number of its members whose output keyword is a, and m[c, b] the number whose
negative keyword is b. "Each member's output keyword receives from every member's output keyword" is the matrix
nᵀn, and the negative relation nᵀm. Both come from one product, nᵀ(n + im): the real part of an entry counts positive
pairs and its imaginary part negative ones. Counts are whole numbers below 2^53, which are exact in floating point.

The product is formed, resolved and capped for a block of target nodes at a time, which bounds the memory. Rows are
independent, so the edges do not depend on the size of a block.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from keycontrast.errors import InputError
from keycontrast.network import BLOCK, Dropped, Edges, multiplied, strongest
from stages.graph.triples import NodeTriples

_EXACT = 2**53


@dataclass(frozen=True)
class Relations:
    """Edges, and what was left out of them."""

    edges: Edges          # of both signs, at most ``max_neighbours`` per node and sign
    dropped: Dropped      # counts of what was resolved and capped
    capped_outputs: int   # (cluster, keyword) counts dropped by ``max_cluster_outputs``
    capped_clusters: int  # clusters that lost any to it, by their outputs or their negatives


@dataclass(frozen=True)
class _Counts:
    """Members by cluster and keyword: cluster, keyword and count (n,), and which clusters were cut, by how much."""

    cluster: np.ndarray
    keyword: np.ndarray
    count: np.ndarray
    cut_clusters: np.ndarray
    cut: int


def relate(triples: NodeTriples, max_neighbours: int | None, max_cluster_outputs: int | None, link_inputs: bool,
           block: int = BLOCK) -> Relations:
    """Return the edges of the keyword graph.

    Args:
        triples: of the training examples.
        max_neighbours: neighbours kept per node and sign: by count, then by node id; None keeps all.
        max_cluster_outputs: distinct keywords kept per cluster and column, likewise.
        link_inputs: also link each input keyword with its own output keyword, both ways.
        block: multiplications per block of target nodes.
    """
    nodes = len(triples.names)
    outputs = _members(triples, triples.output, max_cluster_outputs)
    negatives = _members(triples, triples.negative, max_cluster_outputs)
    own = triples.of_examples()
    left, right = _factors(nodes, outputs, negatives, _members(own, own.output, None) if link_inputs else None)
    edges, dropped = multiplied(left, right, max_neighbours, block)
    return Relations(edges, dropped, outputs.cut + negatives.cut,
                     len(np.union1d(outputs.cut_clusters, negatives.cut_clusters)))


def _members(triples: NodeTriples, keyword: np.ndarray, limit: int | None) -> _Counts:
    """Count the members of each cluster by ``keyword``, where both are real; keep the ``limit`` most frequent."""
    nodes = len(triples.names)
    real = (triples.input != triples.none) & (keyword != triples.none) & (keyword >= 0)
    pairs, count = np.unique(triples.input[real].astype(np.int64) * nodes + keyword[real], return_counts=True)
    cluster, column = np.divmod(pairs, max(nodes, 1))
    kept = strongest(cluster, column, count, nodes, limit)
    over = np.flatnonzero(np.bincount(cluster) > limit) if limit else np.zeros(0, dtype=np.int64)
    return _Counts(*kept, cut_clusters=over, cut=len(pairs) - len(kept[0]))


def _factors(nodes: int, outputs: _Counts, negatives: _Counts,
             links: _Counts | None) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return the two factors of the relations, rows of the first being target nodes.

    Links are further columns of the first factor, against an identity below the second, so that they are added to the
    products.
    """
    # A bound of every entry: the sum over clusters of squared members (Cauchy-Schwarz), and the links.
    members = max(np.square(np.bincount(part.cluster, part.count)).sum() for part in (outputs, negatives))
    if members + (2.0 * links.count.sum() if links is not None else 0.0) >= _EXACT:
        raise InputError("table clusters: they hold more than 2^53 pairs of examples, which cannot be "
                         "counted exactly. Set ingest.max_train to use fewer.")
    parts = [_matrix(outputs.keyword, outputs.cluster, outputs.count, nodes)]
    below = [_matrix(np.concatenate([outputs.cluster, negatives.cluster]),
                     np.concatenate([outputs.keyword, negatives.keyword]),
                     np.concatenate([outputs.count + 0j, negatives.count * 1j]), nodes)]
    if links is not None:
        forth = _matrix(links.cluster, links.keyword, links.count, nodes)
        parts.append(forth + forth.T)
        below.append(sparse.eye_array(nodes, dtype=np.complex128, format="csr"))
    return sparse.hstack(parts, format="csr"), sparse.vstack(below, format="csr")


def _matrix(row: np.ndarray, column: np.ndarray, values: np.ndarray, nodes: int) -> sparse.csr_array:
    return sparse.coo_array((values, (row.astype(np.int32), column.astype(np.int32))), shape=(nodes, nodes)).tocsr()
