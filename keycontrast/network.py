"""Graphs of keywords: edges from sparse products, PageRank, components and communities."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from scipy import sparse
from scipy.sparse import csgraph

# Multiplications per block; an entry of a block takes about 100 bytes while the block is worked on.
BLOCK = 2_000_000
DAMPING = 0.85
# A constant: a change of the project's seed must not make another graph of the same keywords.
_SEED = 1
# Passes of the Leiden algorithm; until it is stable takes several times as long, for a gain in the last digits.
_PASSES = 10


@dataclass(frozen=True)
class Edges:
    """Columns of table ``edges`` (E,), sorted by target, then source; a pair of nodes has one sign, +1 or -1.

    The target receives from the source. Types are int32, int32, int8, and int64 for the multiplicity ``count``.
    """

    target: np.ndarray
    source: np.ndarray
    sign: np.ndarray
    count: np.ndarray

    def __len__(self) -> int:
        return len(self.target)

    @classmethod
    def of(cls, target: np.ndarray, source: np.ndarray, sign: np.ndarray, count: np.ndarray) -> "Edges":
        """Return the columns with the types of the table."""
        return cls(target.astype(np.int32), source.astype(np.int32), sign.astype(np.int8), count.astype(np.int64))

    @classmethod
    def joined(cls, parts: "list[Edges]") -> "Edges":
        """Return the edges of ``parts``, one after the other."""
        empty = np.zeros(0, dtype=np.int64)
        return cls.of(*(np.concatenate([empty, *(getattr(part, name) for part in parts)])
                        for name in ("target", "source", "sign", "count")))

    def where(self, chosen: np.ndarray) -> "Edges":
        """Return the edges that ``chosen`` (a mask, or places) takes."""
        return Edges(self.target[chosen], self.source[chosen], self.sign[chosen], self.count[chosen])

    def table(self) -> pa.Table:
        """Return table ``edges``."""
        return pa.table({"target": self.target, "source": self.source, "sign": self.sign, "count": self.count})


def strongest(group: np.ndarray, column: np.ndarray, count: np.ndarray, columns: int,
              limit: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the entries (n,) of the ``limit`` largest counts of each group, or all.

    They are sorted by group, falling count, rising column. No pair of group and column occurs twice.
    """
    peak = int(count.max(initial=0))
    sizes = np.bincount(group)
    width = (peak + 1) * columns
    counts = sizes if limit is None else np.minimum(sizes, limit)
    kept = np.repeat(np.arange(len(sizes)), counts)
    places = np.arange(len(kept)) + np.repeat(np.cumsum(sizes) - sizes - (np.cumsum(counts) - counts), counts)
    if len(sizes) * width >= 2**63:
        order = np.lexsort((column, -count, group))[places]
        return kept, column[order], count[order]
    # The three parts in one number: sorting plain numbers is many times faster than sorting by three keys.
    key = (group.astype(np.int64) * (peak + 1) + (peak - count)) * columns + column
    key.sort()
    rest = key[places] - kept * width
    return kept, rest % columns, peak - rest // columns


@dataclass(frozen=True)
class Dropped:
    """Counts of what is left out of the edges: self loops (the model adds one to every node), and edges over
    ``max_neighbours``; and of ordered pairs of both signs, which stay positive (``conflicts``)."""

    positive_self_pairs: int = 0
    negative_self_pairs: int = 0
    conflicts: int = 0
    capped: int = 0

    def __add__(self, other: "Dropped") -> "Dropped":
        return Dropped(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def multiplied(left: sparse.csr_array, right: sparse.csr_array, max_neighbours: int | None,
               block: int = BLOCK) -> tuple[Edges, Dropped]:
    """Return the edges of the product of two factors, whose rows are target nodes.

    ``max_neighbours`` are kept per node and sign, by count, then node id. ``block`` multiplications bound memory.
    """
    edges, dropped = [], Dropped()
    for first, last in _blocks(left, right, block):
        resolved, lost = _resolved(left[first:last] @ right, first, max_neighbours)
        edges.append(resolved)
        dropped += lost
    return Edges.joined(edges), dropped


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


def _resolved(product: sparse.csr_array, first: int, max_neighbours: int | None) -> tuple[Edges, Dropped]:
    """Return the edges into the nodes ``first``, ``first + 1``, ... from the rows of their product; caps come last."""
    row = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
    positive, negative = product.data.real.astype(np.int64), product.data.imag.astype(np.int64)
    loop = row + first == product.indices
    apart = ~loop
    is_negative = (positive == 0)[apart]
    group = 2 * row[apart] + is_negative
    count = np.where(is_negative, negative[apart], positive[apart])
    kept, source, count = strongest(group, product.indices[apart], count, product.shape[1], max_neighbours)
    order = np.argsort((kept >> 1) * product.shape[1] + source)
    edges = Edges.of(kept[order] // 2 + first, source[order], 1 - 2 * (kept[order] & 1), count[order])
    conflicts = np.count_nonzero((positive > 0) & (negative > 0) & apart)
    return edges, Dropped(int(np.count_nonzero(positive[loop])), int(np.count_nonzero(negative[loop])),
                          int(conflicts), len(group) - len(edges))


@dataclass(frozen=True)
class Centrality:
    """PageRank of each node (n,) float64, summing to 1, the steps taken, and the L1 change in the last of them."""

    scores: np.ndarray
    iterations: int
    residual: float


def centrality(nodes: int, edges: Edges) -> Centrality:
    """Return PageRank over the positive edges (Page et al. 1999), by power iteration.

    A node that receives from another votes for it, with the edge's count as weight; a node that receives from none
    votes for all alike. Iteration stops when the L1 change of the scores is below 1e-10, in absolute terms: every
    step shrinks the change to 0.85 of the last, so it always ends, after 146 steps.
    """
    if nodes == 0:
        return Centrality(np.zeros(0), 0, 0.0)
    positive = edges.where(edges.sign == 1)
    given = np.bincount(positive.target, positive.count, minlength=nodes)
    votes = sparse.csr_array((positive.count / given[positive.target], (positive.source, positive.target)),
                             shape=(nodes, nodes))
    silent = given == 0
    scores, residual, iterations = np.full(nodes, 1 / nodes), np.inf, 0
    while residual >= 1e-10:
        before = scores
        scores = DAMPING * (votes @ before + before[silent].sum() / nodes) + (1 - DAMPING) / nodes
        residual, iterations = float(np.abs(scores - before).sum()), iterations + 1
    return Centrality(scores, iterations, residual)


@dataclass(frozen=True)
class Communities:
    """The number of each node's community (n,) int32, and the modularity of the partition (Newman 2004), or 0 for a
    graph without positive edges."""

    number: np.ndarray
    modularity: float


def components(nodes: int, edges: Edges) -> np.ndarray:
    """Return the number (n,) int32 of each node's connected component, over both signs and either direction."""
    if nodes == 0:
        return np.zeros(0, dtype=np.int32)
    links = sparse.csr_array((np.ones(len(edges), dtype=np.int8), (edges.target, edges.source)), shape=(nodes, nodes))
    return _by_smallest(csgraph.connected_components(links, directed=False)[1])


def communities(nodes: int, edges: Edges, resolution: float) -> Communities:
    """Return the communities that the Leiden algorithm finds (Traag, Waltman and van Eck 2019), by modularity.

    Positive edges count as undirected, both directions summed. A higher ``resolution`` gives smaller communities.
    """
    positive = edges.where(edges.sign == 1)
    if not len(positive):
        return Communities(np.arange(nodes, dtype=np.int32), 0.0)
    import igraph  # not in the environment of a training, which needs other parts of this module

    low, high = np.minimum(positive.target, positive.source), np.maximum(positive.target, positive.source)
    pairs, place = np.unique(low.astype(np.int64) * nodes + high, return_inverse=True)
    weights = np.bincount(place, positive.count, minlength=len(pairs))
    graph = igraph.Graph(n=nodes, edges=np.column_stack([pairs // nodes, pairs % nodes]))
    igraph.set_random_number_generator(random.Random(_SEED))
    try:
        clustering = graph.community_leiden(objective_function="modularity", weights=weights.tolist(),
                                            resolution=resolution, n_iterations=_PASSES).membership
    finally:
        igraph.set_random_number_generator(random)
    return Communities(_by_smallest(np.array(clustering)),
                       graph.modularity(clustering, weights=weights.tolist(), resolution=resolution))


def _by_smallest(labels: np.ndarray) -> np.ndarray:
    """Return ``labels`` (n,) renumbered 0, 1, ... in the order in which they first appear."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[place]


def phrase_graph(names: pa.StringArray, keyword: np.ndarray, text: np.ndarray,
                 neighbours: int | None = 64) -> tuple[pa.Table, pa.Table]:
    """Return nodes and edges of the graph of phrases that share texts, as of :class:`keycontrast.graph.KeywordGraph`.

    The place of a phrase in ``names``, which are sorted, is its node id. ``keyword`` and ``text`` are node id and
    number of a text (n,), each pair once. An edge stays if it is among the ``neighbours`` strongest of one of its
    two nodes.
    """
    count = len(names)
    shape = (count, int(text.max(initial=-1)) + 1)
    held = sparse.coo_array((np.ones(len(keyword)), (keyword, text)), shape=shape).tocsr()
    kept, _ = multiplied(held, held.T.tocsr(), neighbours)
    low, high = np.minimum(kept.source, kept.target), np.maximum(kept.source, kept.target)
    first = np.unique(low.astype(np.int64) * count + high, return_index=True)[1]
    low, high, weight = low[first], high[first], kept.count[first]
    edges = Edges.of(np.append(low, high), np.append(high, low), np.ones(2 * len(low)), np.tile(weight, 2))
    nodes = {"node_id": pa.array(np.arange(count), pa.int32()), "keyword": names,
             "texts": np.bincount(keyword, minlength=count),
             "degree": np.bincount(edges.target, minlength=count).astype(np.int32),
             "centrality": centrality(count, edges).scores, "component": components(count, edges),
             "community": communities(count, edges, 1.0).number}
    return pa.table(nodes), pa.table({"source": low, "target": high, "weight": weight})
