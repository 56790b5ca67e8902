"""Graph attention with edge vectors over the keyword graph (HCL eq. 4-9)."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from models.hcl.keyword_graph import Edges, KeywordGraph
from models.losses import at_least_float32

_NODES = 2048  # nodes updated at once when the whole graph is run: bounds memory
# Numbers in one tensor of edge vectors (E, d) above which a round is cut into blocks of receiving nodes, and each
# block computed again for its gradients: two dozen such tensors then exist for one block at a time, not for all.
LARGEST = 2**22
_ALL = slice(None)


def segment_softmax(scores: Tensor, segment: Tensor, count: int) -> Tensor:
    """Softmax of ``scores`` (E,) within each segment; ``segment`` (E,) numbers it in 0 .. count - 1.

    In float32 at least, whatever precision the scores come in.
    """
    (scores,) = at_least_float32(scores)
    with torch.no_grad():  # a shift by the largest score changes the range only
        top = scores.new_full((count,), -torch.inf).scatter_reduce(0, segment, scores, "amax")
    weights = torch.exp(scores - top[segment])
    return weights / weights.new_zeros(count).index_add(0, segment, weights)[segment]


def segment_sum(values: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sum of the rows of ``values`` (E, d) within each segment (count, d), in float32 at least."""
    (values,) = at_least_float32(values)
    return values.new_zeros(count, values.shape[1]).index_add(0, segment, values)


class EdgeFeedForward(nn.Module):
    """FFN_0 (2d -> d, on pairs of nodes) or FFN_1 (d -> d, on edge vectors): linear, GELU, linear."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width_in, width)
        self.second = nn.Linear(width, width)

    def forward(self, values: Tensor) -> Tensor:
        """Apply the network to rows (E, width_in) -> (E, d)."""
        return self.second(F.gelu(self.first(values)))

    def halves(self, h_i: Tensor, h_j: Tensor) -> tuple[Tensor, Tensor]:
        """Return what receivers (m, d) and sources (n, d) add to the hidden layer of [h_i ; h_j]."""
        # [a ; b] W = a W_a + b W_b: one product per node instead of one per edge
        width = h_i.shape[1]
        from_i = F.linear(h_i, self.first.weight[:, :width], self.first.bias)
        return from_i, F.linear(h_j, self.first.weight[:, width:])

    def of_halves(self, hidden: Tensor) -> Tensor:
        """Apply the rest of the network to sums of both halves (E, d) -> (E, d)."""
        return self.second(F.gelu(hidden))


@dataclass(frozen=True)
class _Nodes:
    """Projections of the nodes of a round: (n, d) of all that send, (m, d) of those that receive.

    Attributes:
        h: vectors (n, d).
        receiving: vectors of the receivers (m, d).
        g: h Wh Wp^T (n, d); r Wp (h Wh)^T = r g^T, so that eq. 4 takes a dot product per edge.
        k, v: h Wk and h Wv (n, d).
        q: h Wq of the receivers (m, d).
        through: q Wr^T (m, d); q (r Wr)^T = through r^T, likewise.
        halves: of FFN_0 by network, where edge vectors are yet to be made.
    """

    h: Tensor
    receiving: Tensor
    g: Tensor
    k: Tensor
    v: Tensor
    q: Tensor
    through: Tensor
    halves: list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class _Rows:
    """Edges (E,) as rows of :class:`_Nodes`: ``i`` and ``j`` among all, ``into`` among the receivers."""

    i: Tensor
    j: Tensor
    into: Tensor
    sign: Tensor

    def part(self, edges: slice) -> "_Rows":
        """Return some of the edges."""
        return _Rows(self.i[edges], self.j[edges], self.into[edges], self.sign[edges])


class GraphAttention(nn.Module):
    """Keyword vectors u_c = h^T_c by T rounds of attention over signed edges.

    Symbols of the paper (HCL, ACL 2022, sect. 3.1): h_i node vectors, r_ij vector of the edge by which i
    receives from j, Wp, Wh the bilinear weights of eq. 4, Wq, Wk, Wr, Wv those of eq. 7 and 9. One set of
    parameters serves all rounds. N_i holds the neighbours of both signs, and i itself.

    Args:
        width: d.
        iterations: T; 0 returns h^0 unchanged (the ablation without graph).
        edge_type: ``shared``: one FFN for both signs; ``signed``: one FFN per sign.
        layer_norm: normalise after the residual of eq. 9.
        largest: numbers in a tensor of edge vectors (E, d) above which a round is computed in blocks.
    """

    def __init__(
        self,
        width: int,
        iterations: int = 2,
        edge_type: str = "shared",
        layer_norm: bool = True,
        largest: int = LARGEST,
    ) -> None:
        super().__init__()
        self.iterations, self.largest = iterations, largest
        self.scale = 1.0 / math.sqrt(width)
        networks = 2 if edge_type == "signed" else 1
        self.ffn0 = nn.ModuleList(EdgeFeedForward(2 * width, width) for _ in range(networks))
        self.ffn1 = nn.ModuleList(EdgeFeedForward(width, width) for _ in range(networks))
        self.Wp, self.Wh, self.Wq, self.Wk, self.Wr, self.Wv = (
            nn.Linear(width, width, bias=False) for _ in range(6)
        )
        self.norm = nn.LayerNorm(width) if layer_norm else nn.Identity()

    def forward(self, graph: KeywordGraph, seeds: Tensor) -> Tensor:
        """Return the vectors of ``seeds`` (S,) as (S, d), computed on their neighbourhood of T hops.

        Each node of the neighbourhood is computed once, however many seeds share it, and nothing here depends on
        the size of the graph.
        """
        if self.iterations == 0 or len(seeds) == 0:
            return graph.h0[seeds]
        levels = graph.levels(seeds, self.iterations)
        nodes, h, r, edges = levels[0], graph.h0[levels[0]], None, graph.edges_into(levels[1])
        for step, receivers in enumerate(levels[1:], 1):
            kept = torch.isin(edges.target, levels[step + 1]) if step < self.iterations else None
            h, r = self._round(h, nodes, r, edges, receivers, kept)
            nodes = receivers
            if kept is not None:
                edges = Edges(edges.target[kept], edges.source[kept], edges.sign[kept])
        return h[torch.searchsorted(nodes, seeds)]

    @torch.no_grad()
    def all_vectors(self, graph: KeywordGraph) -> Tensor:
        """Return the vectors of all nodes (n, d), without gradients; run once for an evaluation."""
        if self.iterations == 0 or graph.num_nodes == 0:
            return graph.h0
        h, r = graph.h0, graph.h0.new_zeros(graph.num_edges, graph.h0.shape[1])
        for step in range(self.iterations):
            updated = torch.empty_like(h)
            for start in range(0, graph.num_nodes, _NODES):
                block = torch.arange(start, min(start + _NODES, graph.num_nodes), device=h.device)
                rows = graph.edge_numbers(block)
                edges = graph.edges_into(block)
                nodes = torch.unique(edges.source)
                found, of_edges = self._round(h[nodes], nodes, r[rows] if step else None, edges, block, _ALL)
                updated[block], r[rows] = found.to(h.dtype), of_edges.to(r.dtype)
            h = updated
        return h

    def isolated(self, vectors: Tensor) -> Tensor:
        """Return the vectors (M, d) of new nodes with initial ``vectors`` (M, d) and only their self loops.

        For keywords that training never saw: they pass through the same T rounds, and no other node sees them.
        """
        nodes = torch.arange(len(vectors), device=vectors.device)
        edges = Edges(nodes, nodes, torch.ones_like(nodes, dtype=torch.int8))
        if self.iterations == 0 or len(nodes) == 0:
            return vectors
        h, r = vectors, None
        for _ in range(self.iterations):
            h, r = self._round(h, nodes, r, edges, nodes, _ALL)
        return h

    def _round(
        self,
        h: Tensor,
        nodes: Tensor,
        r: Tensor | None,
        edges: Edges,
        receivers: Tensor,
        kept: Tensor | slice | None,
    ) -> tuple[Tensor, Tensor]:
        """One round: h (n, d) of ``nodes`` -> h' (m, d) of ``receivers``, and r' of the edges ``kept`` (none: None).

        ``r`` (E, d) of the round before, or None for the first round, where r^0 is made. The node ids in ``nodes``
        and ``receivers`` are sorted, and so are the edges by their target.
        """
        into = torch.searchsorted(receivers, edges.target)
        at = torch.searchsorted(nodes, receivers)  # rows of h
        rows = _Rows(at[into], torch.searchsorted(nodes, edges.source), into, edges.sign)
        of_nodes = self._projected(h, h[at], first=r is None)
        blocks = _blocks(into, len(receivers), max(1, self.largest // h.shape[1]))
        parts = []
        for first, last, chosen in blocks:
            arguments = (of_nodes, rows.part(chosen), (first, last), None if r is None else r[chosen],
                         kept[chosen] if isinstance(kept, Tensor) else kept)
            if len(blocks) > 1 and torch.is_grad_enabled():
                parts.append(checkpoint(self._messages, *arguments, use_reentrant=False, preserve_rng_state=False))
            else:
                parts.append(self._messages(*arguments))
        m, r = (found[0] if len(found) == 1 else torch.cat(found) for found in zip(*parts, strict=True))
        return self.norm(of_nodes.receiving + m), r

    def _projected(self, h: Tensor, receiving: Tensor, first: bool) -> _Nodes:
        q = self.Wq(receiving)
        return _Nodes(h, receiving, self._bilinear(h), self.Wk(h), self.Wv(h), q, F.linear(q, self.Wr.weight.T),
                      [ffn.halves(receiving, h) for ffn in self._networks(self.ffn0)] if first else [])

    def _bilinear(self, h: Tensor) -> Tensor:
        return F.linear(self.Wh(h), self.Wp.weight.T)

    def _messages(
        self, nodes: _Nodes, rows: _Rows, receivers: tuple[int, int], r: Tensor | None, kept: Tensor | slice | None
    ) -> tuple[Tensor, Tensor]:
        """Return m of the receivers from the first up to the last (m, d), and r' of the edges ``kept``."""
        if r is None:
            r = self._first_edges(nodes, rows)
        r = self._edge_update(nodes, rows, r)  # eq. 4-6
        first, last = receivers
        segment, count = rows.into - first, last - first
        a = segment_softmax(self._attention_scores(nodes, rows, r), segment, count)  # eq. 7-8
        m = segment_sum(a.unsqueeze(-1) * (nodes.v[rows.j] + r), segment, count)  # eq. 9
        return m, r[kept] if kept is not None else r[:0]

    def _first_edges(self, nodes: _Nodes, rows: _Rows) -> Tensor:
        """r^0_ij = FFN_0([h_i ; h_j]) (E, d)."""

        def of(number: int, ffn: EdgeFeedForward, chosen: Tensor | slice) -> Tensor:
            from_i, from_j = nodes.halves[number]
            return ffn.of_halves(from_i[rows.into[chosen]] + from_j[rows.j[chosen]])

        return _per_sign(self._networks(self.ffn0), rows.sign, of)

    def _edge_update(self, nodes: _Nodes, rows: _Rows, r: Tensor) -> Tensor:
        h_j = nodes.h[rows.j]
        p = h_j + self._edge_weights(nodes.g, rows, r) * (nodes.h[rows.i] - h_j)  # b_i h_i + b_j h_j (E, d), eq. 5
        total = r + p
        return _per_sign(self._networks(self.ffn1), rows.sign, lambda _, ffn, chosen: ffn(total[chosen]))  # eq. 6

    def _edge_weights(self, g: Tensor, rows: _Rows, r: Tensor) -> Tensor:
        """Return b_ri (E, 1) of eq. 4; b_rj is the rest to 1: a softmax of two is a sigmoid of their difference."""
        difference = (r * (g[rows.i] - g[rows.j])).sum(-1, keepdim=True, dtype=_full(r.dtype))
        return torch.sigmoid(difference * self.scale)

    def _attention_scores(self, nodes: _Nodes, rows: _Rows, r: Tensor) -> Tensor:
        """Return e_ij (E,) of eq. 7."""
        dtype = _full(r.dtype)
        of_nodes = (nodes.q[rows.into] * nodes.k[rows.j]).sum(-1, dtype=dtype)
        return (of_nodes + (nodes.through[rows.into] * r).sum(-1, dtype=dtype)) * self.scale

    @staticmethod
    def _networks(modules: nn.ModuleList) -> list[EdgeFeedForward]:
        return [module for module in modules if isinstance(module, EdgeFeedForward)]


def _full(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which sums are taken: float32 where autocast has made products of half precision."""
    return torch.promote_types(dtype, torch.float32)


def _blocks(into: Tensor, receivers: int, limit: int) -> list[tuple[int, int, slice]]:
    """Cut edges, sorted by receiver, between receivers: first and last of a block's receivers, and its edges.

    A block has at most ``limit`` edges or one receiver, which is never cut, however many edges it has.
    """
    if len(into) <= limit:
        return [(0, receivers, slice(None))]
    ends = torch.bincount(into, minlength=receivers).cumsum(0).tolist()  # edges into the receivers up to each
    blocks, first, done = [], 0, 0
    while first < receivers:
        last = max(first + 1, bisect_right(ends, done + limit))
        blocks.append((first, last, slice(done, ends[last - 1])))
        first, done = last, ends[last - 1]
    return blocks


def _per_sign(
    networks: list[EdgeFeedForward], sign: Tensor, compute: Callable[[int, EdgeFeedForward, Tensor | slice], Tensor]
) -> Tensor:
    """Compute edge vectors (E, d) with the network of each edge's sign; one network serves both signs."""
    if len(networks) == 1:
        return compute(0, networks[0], _ALL)
    chosen = [torch.nonzero(sign > 0).squeeze(-1), torch.nonzero(sign < 0).squeeze(-1)]
    parts = [compute(number, network, chosen[number]) for number, network in enumerate(networks)]
    return torch.cat(parts)[torch.argsort(torch.cat(chosen))]
