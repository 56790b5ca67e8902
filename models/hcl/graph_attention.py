"""Graph attention with edge vectors over the keyword graph (HCL eq. 4-9)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.hcl.keyword_graph import Edges, KeywordGraph

_BLOCK = 2048  # nodes updated at once when the whole graph is run: bounds memory


def segment_softmax(scores: Tensor, segment: Tensor, count: int) -> Tensor:
    """Softmax of ``scores`` (E,) within each segment; ``segment`` (E,) numbers it in 0 .. count - 1."""
    with torch.no_grad():  # a shift by the largest score changes the range only
        top = scores.new_full((count,), -torch.inf).scatter_reduce(0, segment, scores, "amax")
    weights = torch.exp(scores - top[segment])
    return weights / weights.new_zeros(count).index_add(0, segment, weights)[segment]


def segment_sum(values: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sum of the rows of ``values`` (E, d) within each segment (count, d)."""
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

    def of_pairs(self, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Apply the network to [h_i ; h_j] (E, 2d) -> (E, d)."""
        # [a ; b] W = a W_a + b W_b: two products per node instead of one per edge
        width = h.shape[1]
        from_i = F.linear(h, self.first.weight[:, :width], self.first.bias)  # (n, d)
        from_j = F.linear(h, self.first.weight[:, width:])  # (n, d)
        return self.second(F.gelu(from_i[i] + from_j[j]))


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
    """

    def __init__(self, width: int, iterations: int = 2, edge_type: str = "shared", layer_norm: bool = True) -> None:
        super().__init__()
        self.iterations = iterations
        self.scale = 1.0 / math.sqrt(width)
        networks = 2 if edge_type == "signed" else 1
        self.ffn0 = nn.ModuleList(EdgeFeedForward(2 * width, width) for _ in range(networks))
        self.ffn1 = nn.ModuleList(EdgeFeedForward(width, width) for _ in range(networks))
        self.Wp, self.Wh, self.Wq, self.Wk, self.Wr, self.Wv = (
            nn.Linear(width, width, bias=False) for _ in range(6)
        )
        self.norm = nn.LayerNorm(width) if layer_norm else nn.Identity()

    def forward(self, graph: KeywordGraph, seeds: Tensor) -> Tensor:
        """Return the vectors of ``seeds`` (S,) as (S, d), computed on their neighbourhood of T hops."""
        if self.iterations == 0 or len(seeds) == 0:
            return graph.h0[seeds]
        levels = graph.levels(seeds, self.iterations)
        nodes, h, edges = levels[0], graph.h0[levels[0]], graph.edges_into(levels[1])
        r = self._first_edges(h, nodes, edges)  # (E, d)
        for receivers in levels[1:]:
            edges, r = _only_into(receivers, edges, r)
            h, r = self._round(h, nodes, r, edges, receivers)
            nodes = receivers
        return h[torch.searchsorted(nodes, seeds)]

    @torch.no_grad()
    def all_vectors(self, graph: KeywordGraph) -> Tensor:
        """Return the vectors of all nodes (n, d), without gradients; run once for an evaluation."""
        if self.iterations == 0 or graph.num_nodes == 0:
            return graph.h0
        h, r = graph.h0, graph.h0.new_zeros(graph.num_edges, graph.h0.shape[1])
        for step in range(self.iterations):
            updated = torch.empty_like(h)
            for start in range(0, graph.num_nodes, _BLOCK):
                block = torch.arange(start, min(start + _BLOCK, graph.num_nodes), device=h.device)
                rows = graph.edge_numbers(block)
                edges = graph.edges_into(block)
                nodes = torch.unique(edges.source)
                old = r[rows] if step else self._first_edges(h[nodes], nodes, edges)
                updated[block], r[rows] = self._round(h[nodes], nodes, old, edges, block)
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
        h, r = vectors, self._first_edges(vectors, nodes, edges)
        for _ in range(self.iterations):
            h, r = self._round(h, nodes, r, edges, nodes)
        return h

    def _first_edges(self, h: Tensor, nodes: Tensor, edges: Edges) -> Tensor:
        """r^0_ij = FFN_0([h_i ; h_j]) (E, d); ``nodes`` are the sorted ids of the rows of ``h``."""
        i, j = torch.searchsorted(nodes, edges.target), torch.searchsorted(nodes, edges.source)
        return _per_sign(self.ffn0, edges.sign, lambda ffn, rows: ffn.of_pairs(h, i[rows], j[rows]))

    def _round(
        self, h: Tensor, nodes: Tensor, r: Tensor, edges: Edges, receivers: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One round: h (n, d) of ``nodes`` and r (E, d) -> h' (m, d) of ``receivers`` and r' (E, d)."""
        i, j = torch.searchsorted(nodes, edges.target), torch.searchsorted(nodes, edges.source)  # (E,) rows of h
        into = torch.searchsorted(receivers, edges.target)  # (E,) rows of the result

        r = self._edge_update(h, r, i, j, edges.sign)  # eq. 4-6
        a = segment_softmax(self._attention_scores(h, r, i, j), into, len(receivers))  # eq. 7-8
        messages = a.unsqueeze(-1) * (self.Wv(h)[j] + r)  # (E, d)
        m = segment_sum(messages, into, len(receivers))  # (m, d), eq. 9
        return self.norm(h[torch.searchsorted(nodes, receivers)] + m), r

    def _edge_update(self, h: Tensor, r: Tensor, i: Tensor, j: Tensor, sign: Tensor) -> Tensor:
        b_i, b_j = self._edge_weights(h, r, i, j)  # (E, 1) each, eq. 4
        p = b_i * h[i] + b_j * h[j]  # (E, d), eq. 5
        return _per_sign(self.ffn1, sign, lambda ffn, rows: ffn(r[rows] + p[rows]))  # eq. 6

    def _edge_weights(self, h: Tensor, r: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
        # (r Wp)(h Wh)^T = r (h Wh Wp^T)^T: both products per node, one dot product per edge
        g = F.linear(self.Wh(h), self.Wp.weight.T)  # (n, d)
        scores = torch.stack([(r * g[i]).sum(-1), (r * g[j]).sum(-1)], dim=-1) * self.scale  # (E, 2)
        b_i, b_j = torch.softmax(scores, dim=-1).unsqueeze(1).unbind(-1)
        return b_i, b_j

    def _attention_scores(self, h: Tensor, r: Tensor, i: Tensor, j: Tensor) -> Tensor:
        # q_i (k_j + r Wr)^T = q_i k_j^T + (q_i Wr^T) r^T, again without a product per edge
        q, k = self.Wq(h), self.Wk(h)  # (n, d)
        through_edge = F.linear(q, self.Wr.weight.T)  # (n, d)
        return ((q[i] * k[j]).sum(-1) + (through_edge[i] * r).sum(-1)) * self.scale  # (E,)


def _only_into(receivers: Tensor, edges: Edges, r: Tensor) -> tuple[Edges, Tensor]:
    """Return the edges whose target is among the sorted ``receivers``, and their vectors."""
    kept = torch.isin(edges.target, receivers)
    if bool(kept.all()):
        return edges, r
    return Edges(edges.target[kept], edges.source[kept], edges.sign[kept]), r[kept]


def _per_sign(
    networks: nn.ModuleList, sign: Tensor, compute: Callable[[EdgeFeedForward, Tensor | slice], Tensor]
) -> Tensor:
    """Compute edge vectors (E, d) with the network of each edge's sign; one network serves both signs."""
    if len(networks) == 1:
        return compute(networks[0], slice(None))  # type: ignore[arg-type]
    rows = [torch.nonzero(sign > 0).squeeze(-1), torch.nonzero(sign < 0).squeeze(-1)]
    parts = [compute(network, chosen) for network, chosen in zip(networks, rows, strict=True)]  # type: ignore[arg-type]
    return torch.cat(parts)[torch.argsort(torch.cat(rows))]
