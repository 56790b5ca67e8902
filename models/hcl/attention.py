"""Keyword vectors: graph attention with edge vectors (HCL eq. 4-9), and the impostor of each output keyword."""

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from models.common.losses import at_least_float32
from models.hcl.graph import Block, KeywordGraph, Neighbourhood, Round, Rows, alone, block_of, neighbourhood


def taken(values: Tensor, rows: Rows) -> Tensor:
    """Return the rows (E, ...) of ``values`` (n, ...)."""
    return _Taken.apply(values, rows)


def segment_sum(values: Tensor, rows: Rows) -> Tensor:
    """Sum of those of ``values`` (E, ...) that belong to each row (n, ...), in float32 at least."""
    return _Summed.apply(*at_least_float32(values), rows)


def weighted_mean(scores: Tensor, values: Tensor, rows: Rows, gaps: bool = False) -> Tensor:
    """Mean of those of ``values`` (E, d) that belong to each row, weighed by the softmax of ``scores`` (E,).

    In float32 at least, whatever precision they come in. With ``gaps`` there may be rows to which nothing belongs,
    which become zeros.
    """
    (scores,) = at_least_float32(scores)
    weights = torch.exp(scores - largest(scores.detach(), rows).index_select(0, rows.index))
    total = segment_sum(weights, rows)  # at least 1, the weight of the largest score, where there is any
    if gaps:
        total = total.clamp(min=1.0)
    return segment_sum(weights.unsqueeze(-1) * values, rows) / total.unsqueeze(-1)


def largest(scores: Tensor, rows: Rows) -> Tensor:
    """Return the largest score of each row (n,): a shift by it changes the range of exponentials only."""
    if scores.device.type == "cpu":
        return scores.new_full((rows.count,), -torch.inf).scatter_reduce(0, rows.index, scores, "amax")
    return torch.segment_reduce(_ascending(scores, rows), "max", offsets=rows.offsets, unsafe=True)


def _added(values: Tensor, rows: Rows) -> Tensor:
    """Add up without a graph; a GPU goes over segments side by side, where adding by index would sort first."""
    if values.device.type == "cpu":
        return values.new_zeros(rows.count, *values.shape[1:]).index_add_(0, rows.index, values)
    return torch.segment_reduce(_ascending(values, rows), "sum", offsets=rows.offsets, unsafe=True)


def _ascending(values: Tensor, rows: Rows) -> Tensor:
    return values.contiguous() if rows.order is None else values.index_select(0, rows.order)


class _Taken(torch.autograd.Function):
    """Rows by index; gradients are added up where they came from."""

    @staticmethod
    def forward(context: Any, values: Tensor, rows: Rows) -> Tensor:
        context.rows = rows
        return values.index_select(0, rows.index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _added(gradients[0], context.rows), None


class _Summed(torch.autograd.Function):
    """Sums of rows; each one's gradient is that of its sum."""

    @staticmethod
    def forward(context: Any, values: Tensor, rows: Rows) -> Tensor:
        context.rows = rows
        return _added(values, rows)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].index_select(0, context.rows.index), None


_NODES = 2048  # nodes updated at once when the whole graph is run: bounds memory
# Numbers in one tensor of edge vectors (E, d) above which a round is cut into blocks of receiving nodes, and each
# block computed again for its gradients: two dozen such tensors then exist for one block at a time, not for all.
LARGEST = 2**22


class EdgeFeedForward(nn.Module):
    """FFN_0 (2d -> d, on pairs of nodes) or FFN_1 (d -> d, on edge vectors): linear, GELU, linear."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width_in, width)
        self.second = nn.Linear(width, width)

    def forward(self, values: Tensor) -> Tensor:
        """Apply the network to rows (E, width_in) -> (E, d)."""
        return self.second(F.gelu(self.first(values)))

    def rest(self, hidden: Tensor) -> Tensor:
        """Apply the network but for its first layer, whose result is ``hidden`` (E, d)."""
        return self.second(F.gelu(hidden))


@dataclass(frozen=True)
class _Weights:
    """Weights of what nodes send and receive, made once for all rounds; 1 / sqrt(d) is in them.

    Attributes:
        bilinear: of g = h Wh Wp^T (d, d); r Wp (h Wh)^T = r g^T, so that eq. 4 takes a dot product per edge.
        sent: of g, h Wk and h Wv (3 d, d).
        received: of q = h Wq, q Wr^T and g (3 d, d); q (r Wr)^T = (q Wr^T) r^T, likewise.
    """

    sent: Tensor
    received: Tensor


class GraphAttention(nn.Module):
    """Keyword vectors u_c = h^T_c by T rounds of attention over signed edges.

    Symbols of the paper (HCL section 3.2.2): h_i node vectors, r_ij vector of the edge by which i
    receives from j, Wp, Wh the bilinear weights of eq. 4, Wq, Wk, Wr, Wv those of eq. 7 and 9. One set of
    parameters serves all rounds. N_i holds the neighbours of both signs, and i itself.

    What a node sends along its edges stands in one row, [h, g, h Wk, h Wv], and what it reads them by in another,
    [h, q, q Wr^T, g]; see :class:`_Weights`. In the first round each has its half of the hidden layer of FFN_0
    besides. So all that the edges need is taken from the nodes at once.

    Without rounds (T = 0, the ablation without graph) vectors are h^0. ``layer_norm`` normalises after the residual of
    eq. 9; ``largest`` is the size of (E, d) above which a round is computed in blocks.
    """

    def __init__(self, width: int, iterations: int = 2, layer_norm: bool = True, largest: int = LARGEST) -> None:
        super().__init__()
        self.width, self.iterations, self.largest = width, iterations, largest
        # lists of one: names of parameters, from which their weights are drawn, have a number
        self.ffn0 = nn.ModuleList([EdgeFeedForward(2 * width, width)])
        self.ffn1 = nn.ModuleList([EdgeFeedForward(width, width)])
        self.Wp, self.Wh, self.Wq, self.Wk, self.Wr, self.Wv = (
            nn.Linear(width, width, bias=False) for _ in range(6)
        )
        self.norm = nn.LayerNorm(width) if layer_norm else nn.Identity()

    @property
    def limit(self) -> int:
        """Edges of a block."""
        return max(1, self.largest // self.width)

    def forward(self, graph: KeywordGraph, seeds: Tensor) -> Tensor:
        """Return the vectors of ``seeds`` (S,) as (S, d), computed on their neighbourhood of T hops.

        Each node of the neighbourhood is computed once, however many seeds share it, and nothing here depends on
        the size of the graph.
        """
        if self.iterations == 0 or len(seeds) == 0:
            return graph.h0[seeds]
        around, rows = neighbourhood(graph, seeds, self.iterations, self.limit)
        return self.vectors(graph.h0, around)[rows]

    def vectors(self, h0: Tensor, around: Neighbourhood) -> Tensor:
        """Return the vectors (m, d) of the nodes of a neighbourhood that its last round makes, given all h^0 (n, d)."""
        h = h0.index_select(0, around.nodes)
        if len(around.changed):
            h = h.index_copy(0, around.changed, around.vectors.to(h.dtype))
        return self._rounds(h, around.rounds)

    @torch.no_grad()
    def all_vectors(self, graph: KeywordGraph) -> Tensor:
        """Return the vectors of all nodes (n, d), without gradients; run once for an evaluation."""
        if self.iterations == 0 or graph.num_nodes == 0:
            return graph.h0
        h, r = graph.h0, graph.h0.new_zeros(graph.num_edges, graph.h0.shape[1])
        weights, ends = self._weights(), graph.offsets[_NODES::_NODES].tolist()
        starts = [0, *ends]
        for step in range(self.iterations):
            updated = torch.empty_like(h)
            for number, (start, stop) in enumerate(zip(starts, [*starts[1:], graph.num_edges], strict=True)):
                near = slice(number * _NODES, min((number + 1) * _NODES, graph.num_nodes))
                edges = slice(start, stop)
                nodes, senders = torch.unique(graph.source[edges], return_inverse=True)
                block = block_of(senders, graph.target[edges] - near.start, len(nodes), near.stop - near.start)
                sent, received = self._of_nodes(weights, h[nodes], h[near], first=step == 0)
                m, of_edges = self._messages(sent, received, block, r[edges] if step else None, stop - start)
                updated[near], r[edges] = self.norm(h[near] + m).to(h.dtype), of_edges.to(r.dtype)
            h = updated
        return h

    def isolated(self, vectors: Tensor) -> Tensor:
        """Return the vectors (M, d) of new nodes with initial ``vectors`` (M, d) and only their self loops.

        For keywords that training never saw: they pass through the same T rounds, and no other node sees them.
        """
        if self.iterations == 0 or len(vectors) == 0:
            return vectors
        return self._rounds(vectors, alone(len(vectors), self.iterations, vectors.device))

    def _rounds(self, h: Tensor, rounds: tuple[Round, ...]) -> Tensor:
        weights, r = self._weights(), None
        for round_, after in zip(rounds, [*rounds[1:], None], strict=True):
            h, r = self._round(weights, h, r, round_, after.edges if after is not None else 0)
        return h

    def _weights(self) -> _Weights:
        """Multiply weights that follow each other, in their own precision under autocast too."""
        with torch.autocast(self.Wp.weight.device.type, enabled=False):
            scale = 1.0 / math.sqrt(self.width)
            bilinear, query = (self.Wp.weight * scale).T @ self.Wh.weight, self.Wq.weight * scale
            return _Weights(torch.cat([bilinear, self.Wk.weight, self.Wv.weight]),
                            torch.cat([query, self.Wr.weight.T @ query, bilinear]))

    def _round(self, weights: _Weights, h: Tensor, r: Tensor | None, round_: Round, kept: int) -> tuple[Tensor, Tensor]:
        """One round: h (n, d) -> h' (m, d) of the receivers, and r' of the first ``kept`` edges.

        ``r`` (E, d) of the round before, or None for the first round, where r^0 is made.
        """
        near = h if len(h) == round_.receivers else h[: round_.receivers]
        sent, received = self._of_nodes(weights, h, near, first=r is None)
        whole, parts = len(round_.blocks) == 1, []
        for block in round_.blocks:
            near_block = received if whole else received[block.first : block.last]
            of_edges = r if whole or r is None else r[block.start : block.stop]
            arguments = sent, near_block, block, of_edges, min(max(0, kept - block.start), block.stop - block.start)
            if not whole and torch.is_grad_enabled():
                parts.append(checkpoint(self._messages, *arguments, use_reentrant=False, preserve_rng_state=False))
            else:
                parts.append(self._messages(*arguments))
        m, r = (found[0] if len(found) == 1 else torch.cat(found) for found in zip(*parts, strict=True))
        return self.norm(near + m), r

    def _of_nodes(self, weights: _Weights, h: Tensor, near: Tensor, first: bool) -> tuple[Tensor, Tensor]:
        """Return what nodes with h (n, d) send (n, 4 d), and what those ``near`` (m, d) read it by (m, 4 d).

        Before the first round each has its half of FFN_0's hidden layer too.
        """
        sent, received = [h, F.linear(h, weights.sent)], [near, F.linear(near, weights.received)]
        if first:
            # [a ; b] W = a W_a + b W_b: one product per node instead of one per edge
            layer = cast(EdgeFeedForward, self.ffn0[0]).first
            of_i, of_j = layer.weight.split(self.width, dim=1)
            sent.append(F.linear(h, of_j))
            received.append(F.linear(near, of_i, layer.bias))
        return torch.cat(sent, dim=-1), torch.cat(received, dim=-1)

    def _messages(
        self, sent: Tensor, received: Tensor, block: Block, r: Tensor | None, kept: int
    ) -> tuple[Tensor, Tensor]:
        """Return m of the receivers (m, d), and r' of the first ``kept`` edges, which are sorted by receiver."""
        h_j, g_j, k, v, *halves_j = taken(sent, block.senders).split(self.width, dim=-1)
        h_i, q, through, g_i, *halves_i = taken(received, block.receivers).split(self.width, dim=-1)
        if r is None:  # r^0_ij = FFN_0([h_i ; h_j])
            r = cast(EdgeFeedForward, self.ffn0[0]).rest(halves_i[0] + halves_j[0])
        # eq. 4: a softmax of two is a sigmoid of their difference; b_j = 1 - b_i
        b_i = torch.sigmoid((r * (g_i - g_j)).sum(-1, keepdim=True, dtype=_full(r.dtype)))
        total = r + torch.lerp(h_j, h_i, b_i)  # b_i h_i + b_j h_j, eq. 5
        r = self.ffn1[0](total)  # eq. 6
        scores = torch.addcmul(q * k, through, r).sum(-1, dtype=_full(r.dtype))  # eq. 7
        m = weighted_mean(scores, v + r, block.receivers)  # eq. 8-9
        return m, r if kept == len(r) else r[:kept]


def _full(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which sums are taken: float32 where autocast has made products of half precision."""
    return torch.promote_types(dtype, torch.float32)


# Candidates differ by about 0.3 in cosine: the hardest weighs twenty times what the easiest does.
_TEMPERATURE = 0.1


class Impostor(nn.Module):
    """Combine a sample's candidates into one vector u_imp = sum_i W_i u_i.

    The paper leaves W open. ``cosine`` weighs the candidates by their cosine to the output keyword, without any
    parameter and without a gradient through the weights: a candidate cannot flee from its weight, only from its
    place. ``linear`` maps their mean by a learned matrix, and may leave their convex hull.
    """

    def __init__(self, width: int, weight: str = "cosine") -> None:
        super().__init__()
        self.weight = weight
        if weight == "linear":
            self.W = nn.Linear(width, width, bias=False)

    def forward(self, u_out: Tensor, candidates: Tensor, samples: Rows) -> Tensor:
        """Return u_imp (B, d) of candidates (M, d) of ``samples``, given u_out (B, d); zeros where there is none."""
        combined = weighted_mean(self._scores(u_out, candidates, samples), candidates, samples, gaps=True)  # (B, d)
        return self.W(combined) if self.weight == "linear" else combined

    def _scores(self, u_out: Tensor, candidates: Tensor, samples: Rows) -> Tensor:
        """Return the logarithms of weights, but for a constant (M,), in full precision under autocast."""
        with torch.no_grad():
            if self.weight == "cosine":
                return cosines(u_out, candidates, samples) / _TEMPERATURE
            return candidates.new_zeros(len(candidates))


def cosines(one: Tensor, others: Tensor, samples: Rows) -> Tensor:
    """Return the cosine of each of ``others`` (M, d) to that of ``one`` (B, d) which it belongs to (M,)."""
    one, others = at_least_float32(one, others)
    return (taken(F.normalize(one, dim=-1), samples) * F.normalize(others, dim=-1)).sum(-1)


@torch.no_grad()
def likeness(u_out: Tensor, u_imp: Tensor, candidates: Tensor, samples: Rows) -> Tensor:
    """Return the cosines to u_out (B, d) of impostor, hardest and easiest candidate (3, B); 0 for a sample without."""
    of_impostor, of_candidates = F.cosine_similarity(u_out, u_imp, dim=-1), cosines(u_out, candidates, samples)
    hardest, easiest = largest(of_candidates, samples), -largest(-of_candidates, samples)
    return torch.stack([of_impostor, hardest, easiest]).masked_fill(torch.isinf(hardest), 0.0)
