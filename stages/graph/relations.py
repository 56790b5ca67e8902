"""Edges of the keyword graph from clusters (HCL 3.1, METHODS A.3), as sparse matrix products.

For a cluster c let n[c, a] be the number of its members whose output keyword is a, and m[c, b] the number whose
negative keyword is b. "Each member's output keyword receives from every member's output keyword" is then the matrix
nᵀn, and the negative relation nᵀm; no pair of members is ever visited. Both come out of one product, nᵀ(n + im): the
real part of an entry counts the positive pairs and its imaginary part the negative ones, so that conflicts show in
the entry itself. Counts stay whole numbers below 2^53, which floating point holds exactly.

The product is formed for a block of target nodes at a time, and each block is resolved and capped before the next:
its memory is bounded by the block's multiplications, whatever the whole matrix would take. Rows do not depend on
each other, so the edges are the same for any size of block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from scipy import sparse

from stages.common.edges import Edges, strongest
from stages.graph.joins import NodeTriples
from stages.run.errors import InputError

# Multiplications per block; an entry of a block takes about 100 bytes while the block is worked on.
BLOCK = 2_000_000
_EXACT = 2**53


@dataclass(frozen=True)
class Dropped:
    """What was decided on the way to the edges.

    Attributes:
        positive_self_pairs: positive self loops left out, because the model adds one to every node.
        negative_self_pairs: negative self loops dropped.
        conflicts: ordered pairs that were positive and negative and stayed positive.
        capped: edges dropped by ``max_nbr``.
    """

    positive_self_pairs: int = 0
    negative_self_pairs: int = 0
    conflicts: int = 0
    capped: int = 0

    def __add__(self, other: "Dropped") -> "Dropped":
        return Dropped(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


@dataclass(frozen=True)
class Relations:
    """Edges, and what was left out of them.

    Attributes:
        edges: of both signs, at most ``max_nbr`` per node and sign.
        dropped: counts of what was resolved and capped.
        capped_outputs: (cluster, keyword) counts dropped by ``max_cluster_outputs``.
        capped_clusters: clusters that lost any to it, by their outputs or their negatives.
    """

    edges: Edges
    dropped: Dropped
    capped_outputs: int
    capped_clusters: int


@dataclass(frozen=True)
class _Counts:
    """Members by cluster and keyword: cluster, keyword and count (n,), and which clusters were cut, by how much."""

    cluster: np.ndarray
    keyword: np.ndarray
    count: np.ndarray
    cut_clusters: np.ndarray
    cut: int


def relate(triples: NodeTriples, max_nbr: int | None, max_cluster_outputs: int | None, link_inputs: bool,
           block: int = BLOCK) -> Relations:
    """Return the edges of the keyword graph.

    Args:
        triples: of the training examples.
        max_nbr: neighbours kept per node and sign: by count, then by node id; None keeps all.
        max_cluster_outputs: distinct keywords kept per cluster and column: by count, then by node id; None keeps
            all.
        link_inputs: also link each input keyword with its own output keyword, both ways.
        block: multiplications per block of target nodes, which bound the memory.

    Raises:
        InputError: clusters so large that their pairs cannot be counted exactly.
    """
    nodes = len(triples.names)
    outputs = _members(triples, triples.output, max_cluster_outputs)
    negatives = _members(triples, triples.negative, max_cluster_outputs)
    own = triples.of_examples()
    left, right = _factors(nodes, outputs, negatives, _members(own, own.output, None) if link_inputs else None)
    edges, dropped = _multiplied(left, right, max_nbr, block)
    return Relations(edges, dropped, outputs.cut + negatives.cut,
                     len(np.union1d(outputs.cut_clusters, negatives.cut_clusters)))


def relate_by_texts(keyword: np.ndarray, text: np.ndarray, nodes: int, max_nbr: int | None,
                    block: int = BLOCK) -> Relations:
    """Return the edges between keywords that share texts: all positive, counted by the texts, the same both ways.

    Args:
        keyword: node id of each pair of a text and a keyword of it (n,); no pair stands twice.
        text: number of the text (n,), from 0.
        nodes: number of nodes.
        max_nbr: neighbours kept per node, by count, then by node id; None keeps all.
        block: as in :func:`relate`.
    """
    shape = (nodes, int(text.max(initial=-1)) + 1)
    held = sparse.coo_array((np.ones(len(keyword), dtype=np.complex128), (keyword, text)), shape=shape).tocsr()
    return Relations(*_multiplied(held, held.T.tocsr(), max_nbr, block), 0, 0)


def _multiplied(left: sparse.csr_array, right: sparse.csr_array, max_nbr: int | None,
                block: int) -> tuple[Edges, Dropped]:
    """Return the edges that the product of the two factors stands for, made block by block."""
    edges, dropped = [], Dropped()
    for first, last in _blocks(left, right, block):
        found, lost = _resolved(left[first:last] @ right, first, max_nbr)
        edges.append(found)
        dropped += lost
    return Edges.joined(edges), dropped


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

    Links are further columns of the first factor, against an identity below the second: products and links are
    summed in one go.
    """
    _check_exact(outputs, negatives, links)
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


def _check_exact(outputs: _Counts, negatives: _Counts, links: _Counts | None) -> None:
    """Check a bound of every entry: the sum over clusters of squared members (Cauchy-Schwarz), links on top."""
    members = max(np.square(np.bincount(part.cluster, part.count)).sum() for part in (outputs, negatives))
    if members + (2.0 * links.count.sum() if links is not None else 0.0) >= _EXACT:
        raise InputError("table clusters: they hold more than 2^53 pairs of examples, which cannot be "
                         "counted exactly. Set ingest.max_train to use fewer.")


def _blocks(left: sparse.csr_array, right: sparse.csr_array, limit: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of ``left``, each of at most ``limit`` multiplications or one row."""
    ones = sparse.csr_array((np.ones(left.nnz, dtype=np.int64), left.indices, left.indptr), shape=left.shape)
    work = np.cumsum(ones @ np.diff(right.indptr).astype(np.int64))
    first = 0
    while first < len(work):
        before = int(work[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(work, before + limit, side="right")))
        yield first, last
        first = last


def _resolved(product: sparse.csr_array, first: int, max_nbr: int | None) -> tuple[Edges, Dropped]:
    """Return the edges into the nodes ``first``, ``first + 1``, ... from the rows of their product.

    A positive pair stays positive; self loops are left out; then the caps, so that none of these uses up a place.
    """
    row = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
    positive, negative = product.data.real.astype(np.int64), product.data.imag.astype(np.int64)
    loop = row + first == product.indices
    apart = ~loop
    is_negative = (positive == 0)[apart]
    group = 2 * row[apart] + is_negative
    count = np.where(is_negative, negative[apart], positive[apart])
    kept, source, count = strongest(group, product.indices[apart], count, product.shape[1], max_nbr)
    order = np.argsort((kept >> 1) * product.shape[1] + source)
    edges = Edges.of(kept[order] // 2 + first, source[order], 1 - 2 * (kept[order] & 1), count[order])
    conflicts = np.count_nonzero((positive > 0) & (negative > 0) & apart)
    return edges, Dropped(int(np.count_nonzero(positive[loop])), int(np.count_nonzero(negative[loop])),
                          int(conflicts), len(group) - len(edges))
