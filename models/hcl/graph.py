"""The keyword graph (HCL section 3.1): nodes, signed edges, what training items see of it, and keyword vectors
(eq. 4-9).

What a batch reads of the graph follows from node ids and edges alone. A loader finds it on the CPU while the device
computes (:class:`Planner`), so that no step counts or searches there, for which the host would have to wait.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from models.common.losses import at_least_float32
from models.common.training import HostTensor

Sizes = Sequence[tuple[int, int]]  # of each round: nodes that receive, and edges into them


class KeywordGraph(nn.Module):
    """Keyword nodes with constant vectors h0 and signed directed edges, in rows by receiving node; all of it buffers.

    Edges into node i are ``offsets[i]`` to ``offsets[i + 1]``. Every node has exactly one self loop, of positive sign,
    so that no softmax over neighbours is empty. The constructor makes an empty graph, which loading fills.
    """

    h0: Tensor  # (n, d)
    target: Tensor  # (E,)
    source: Tensor  # (E,)
    sign: Tensor  # (E,) int8, +1 or -1
    offsets: Tensor  # (n + 1,)

    def __init__(self, num_nodes: int, num_edges: int, width: int) -> None:
        super().__init__()
        self.num_nodes, self.num_edges = num_nodes, num_edges
        self.register_buffer("h0", torch.zeros(num_nodes, width))
        self.register_buffer("target", torch.zeros(num_edges, dtype=torch.int64))
        self.register_buffer("source", torch.zeros(num_edges, dtype=torch.int64))
        self.register_buffer("sign", torch.ones(num_edges, dtype=torch.int8))
        self.register_buffer("offsets", torch.zeros(num_nodes + 1, dtype=torch.int64))

    @classmethod
    def from_edges(cls, vectors: Tensor, target: Tensor, source: Tensor, sign: Tensor) -> "KeywordGraph":
        """Build the graph of vectors (n, d) and edges (E',), of sign +1 or -1; one self loop per node is added."""
        nodes = vectors.shape[0]
        target, source = target.to(torch.int64), source.to(torch.int64)
        between = target != source
        for name, ids in (("target", target), ("source", source)):
            outside = (ids < 0) | (ids >= nodes)
            if outside.any():
                raise ValueError(f"KeywordGraph: {name} {int(ids[outside][0])} is no node; there are {nodes}")
        if not torch.isin(sign, torch.tensor([-1, 1], dtype=sign.dtype)).all():
            raise ValueError("KeywordGraph: sign must be +1 or -1")
        pairs, counts = torch.unique((target * nodes + source)[between], return_counts=True)
        if (counts > 1).any():
            pair = int(pairs[counts > 1][0])
            raise ValueError(f"KeywordGraph: the edge {pair // nodes} <- {pair % nodes} is given twice")
        loops = torch.arange(nodes)
        target, source = torch.cat([target[between], loops]), torch.cat([source[between], loops])
        sign = torch.cat([sign[between].to(torch.int8), torch.ones(nodes, dtype=torch.int8)])
        order = torch.argsort(target * nodes + source)
        graph = cls(nodes, len(order), vectors.shape[1])
        graph.h0.copy_(vectors)
        graph.target.copy_(target[order])
        graph.source.copy_(source[order])
        graph.sign.copy_(sign[order])
        graph.offsets[1:] = torch.bincount(target, minlength=nodes).cumsum(0)
        return graph

    def structure(self) -> "KeywordGraph":
        """Return the nodes and edges on the CPU, without vectors."""
        copy = KeywordGraph(self.num_nodes, 0, 0)
        copy.num_edges = self.num_edges
        for name in ("target", "source", "sign", "offsets"):
            setattr(copy, name, getattr(self, name).cpu())
        return copy

    def negative_neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative neighbours of nodes (B,), -1 for none: places of their nodes (M,), sorted; ids (M,)."""
        known = torch.nonzero(nodes >= 0).squeeze(-1)
        numbers, place = runs(self.offsets, nodes[known])
        negative = self.sign[numbers] < 0
        return known[place[negative]], self.source[numbers[negative]]


def runs(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers (E,) of all that ``rows`` (R,) hold, row by row, and the place of its row among them (E,)."""
    starts = offsets[rows]
    counts = offsets[rows + 1] - starts
    place = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
    return (starts - (counts.cumsum(0) - counts))[place] + torch.arange(len(place), device=rows.device), place


def impostor_candidates(
    graph: KeywordGraph, output_nodes: Tensor, negative_nodes: Tensor, neighbours: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the samples (M,), sorted, and nodes (M,) that impostors are made of, and which samples have one (B,).

    The negative neighbours of the output keyword, unless ``neighbours`` is False (the ablation without graph); where it
    has none, the sample's own negative keyword, unless that is the output keyword. Nodes are (B,), -1 for none.
    """
    if neighbours:
        sample, node = graph.negative_neighbours(output_nodes)
    else:
        sample = node = output_nodes.new_zeros(0)
    mask = torch.zeros_like(output_nodes, dtype=torch.bool)
    mask[sample] = True
    own = ~mask & (output_nodes >= 0) & (negative_nodes >= 0) & (negative_nodes != output_nodes)
    sample, node = torch.cat([sample, torch.nonzero(own).squeeze(-1)]), torch.cat([node, negative_nodes[own]])
    order = torch.argsort(sample, stable=True)
    return sample[order], node[order], mask | own


# What training items see of the graph


@dataclass(frozen=True)
class Views:
    """The differences of G views from the whole graph, on the CPU; view 0 is the whole graph and has none."""

    edge_offsets: Tensor  # where the edges of each view begin and end (G + 2,)
    edges: Tensor  # numbers of edges (C,) as KeywordGraph counts them; those of a view together, ascending
    targets: Tensor  # the nodes that these go into (C,)
    signs: Tensor  # what is left of each (C,) int8: 0 nothing, else its sign
    node_offsets: Tensor  # where the nodes of each view begin and end (G + 2,)
    nodes: Tensor  # ids of nodes (N,); those of a view together, ascending
    rows: Tensor  # row of ``vectors`` that is the node's h^0 (N,); -1 for a node that is gone
    vectors: Tensor  # (R, d)


class _SeenGraph:
    """The graph as the views of a batch have it: nodes are keys ``view * n + node``, edges ``view * E + edge``."""

    def __init__(self, graph: KeywordGraph, views: Views | None, of: Tensor) -> None:
        self.graph = graph
        none = of[:0]
        self.edges = self.signs = self.receivers = self.nodes = self.rows = none  # ascending, but signs and rows
        if views is not None:
            chosen = torch.unique(of)
            edges, edge_rows = runs(views.edge_offsets, chosen)
            nodes, node_rows = runs(views.node_offsets, chosen)
            of_edge, of_node = chosen[edge_rows], chosen[node_rows]
            self.edges, self.signs = of_edge * graph.num_edges + views.edges[edges], views.signs[edges]
            self.receivers = torch.unique_consecutive(of_edge * graph.num_nodes + views.targets[edges])
            self.nodes, self.rows = of_node * graph.num_nodes + views.nodes[nodes], views.rows[nodes]

    def row_of(self, keys: Tensor) -> Tensor:
        """Return the rows of the vectors of nodes (M,): -1 where one is gone, -2 where it is as in the graph."""
        return _replaced(self.nodes, self.rows, keys, torch.full_like(keys, -2))

    def into(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges into the nodes ``keys`` (n,): places of receivers (E,), and keys of senders (E,)."""
        graph = self.graph
        numbers, receivers = runs(graph.offsets, keys % graph.num_nodes)
        view = (keys // graph.num_nodes)[receivers]  # the senders' too
        left = _replaced(self.edges, self.signs, view * graph.num_edges + numbers, graph.sign[numbers]) != 0
        return receivers[left], (view * graph.num_nodes + graph.source[numbers])[left]

    def differing(self, keys: Tensor, hops: int) -> list[Tensor]:
        """Return which nodes, of those that ``keys`` need, have another vector in a view after 0 to ``hops`` rounds."""
        within = [torch.unique(keys[keys >= self.graph.num_nodes])]
        edges = [self.into(within[0])]
        for _ in range(hops - 1):
            within.append(torch.unique(edges[-1][1]))  # self loops keep the nodes
            edges.append(self.into(within[-1]))
        found = [self.nodes]
        for nodes, (receivers, senders) in zip(within[::-1], edges[::-1], strict=True):
            differs = torch.isin(senders, found[-1])
            other = torch.bincount(receivers[differs], minlength=len(nodes)) > 0
            found.append(nodes[other | torch.isin(nodes, self.receivers)])
        return found

    def shared(self, keys: Tensor, differing: Tensor) -> Tensor:
        """Return ``keys``, the whole graph's in the place of those that do not differ from it."""
        return torch.where(torch.isin(keys, differing), keys, keys % self.graph.num_nodes)


def _replaced(table: Tensor, values: Tensor, keys: Tensor, other: Tensor) -> Tensor:
    """Return ``values`` where ``keys`` (M,) stand in ``table``, which ascends, and ``other`` (M,) elsewhere."""
    if not len(table):
        return other
    place = torch.searchsorted(table, keys).clamp_(max=len(table) - 1)
    return torch.where(table[place] == keys, values[place], other)


def view_rows(graph: KeywordGraph, nodes: Tensor, views: Views, of: Tensor) -> Tensor:
    """Return the rows of the vectors of ``nodes`` (S,) in their views: -1 for one gone, -2 for one unchanged."""
    return _SeenGraph(graph, views, of).row_of(of * graph.num_nodes + nodes)


def neighbours(graph: KeywordGraph, nodes: Tensor, views: Views, of: Tensor) -> tuple[Tensor, Tensor]:
    """Return from which nodes (E,) each of ``nodes`` (S,) receives in its view, itself left out; and its place (E,)."""
    places, keys = _SeenGraph(graph, views, of).into(of * graph.num_nodes + nodes)
    senders = keys % graph.num_nodes
    other = senders != nodes[places]
    return senders[other], places[other]


@dataclass(frozen=True)
class Neighbourhood:
    """The nodes and edges of T rounds over a neighbourhood of T hops."""

    nodes: Tensor  # ids (n,); those that receive in a round are the first of them, fewer in each
    receivers: Tensor  # of the edges (E,), as places among the nodes, sorted; each round reads the first of them
    senders: Tensor
    sizes: Sizes
    changed: Tensor  # those of the nodes that begin with a vector of their own (R,)
    rows: Tensor  # these vectors' rows among those of the views (R,)


def neighbourhood(graph: KeywordGraph, seeds: Tensor, hops: int, views: Views | None = None,
                  of: Tensor | None = None) -> tuple[Neighbourhood, Tensor]:
    """Return the neighbourhood of ``seeds`` (S,), and the row of each of them among its nodes (S,).

    Nothing here depends on the size of the graph, which is on the CPU. Seeds are seen in the views ``of`` (S,); a node
    is copied for a view only where that has another vector of it after the rounds.
    """
    of = torch.zeros_like(seeds) if of is None else of
    seen, keys = _SeenGraph(graph, views, of), of * graph.num_nodes + seeds
    differing = seen.differing(keys, hops)
    keys = seen.shared(keys, differing[hops])
    parts, edges = [torch.unique(keys)], []
    for step in range(hops, 0, -1):
        near, senders = seen.into(parts[-1])
        edges.append((near + sum(map(len, parts[:-1])), seen.shared(senders, differing[step - 1])))
        outer = torch.unique(edges[-1][1])
        parts.append(outer[~torch.isin(outer, torch.cat(parts))])
    nodes, levels = torch.cat(parts), torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
    ascending, order = torch.sort(nodes)
    receivers, senders = (torch.cat(side) for side in zip(*edges, strict=True))
    ends = torch.bincount(receivers, minlength=levels[-2]).cumsum(0).tolist()  # edges into the receivers up to each
    rows = seen.row_of(nodes)
    changed = torch.nonzero(rows >= 0).squeeze(-1)
    return (Neighbourhood(nodes % max(graph.num_nodes, 1), receivers, order[torch.searchsorted(ascending, senders)],
                          [(near, ends[near - 1]) for near in levels[-2::-1]], changed, rows[changed]),
            order[torch.searchsorted(ascending, keys)])


def places_of(mask: Tensor) -> dict[str, Tensor]:
    """Return the places (N,) of the tokens under ``mask`` (B, T) in the flat batch, and the sample of each (N,)."""
    places = mask.flatten().nonzero().squeeze(-1)
    return {"token_places": places, "token_samples": places // mask.shape[1]}


@dataclass(frozen=True)
class Planner:
    """Finds on the CPU what batches of a model read of the graph and its ``views``, and the places of their tokens."""

    graph: KeywordGraph
    uses_keyword: bool
    iterations: int
    views: Views | None = None

    def plan(self, batch: Mapping[str, Tensor], training: bool = True) -> dict[str, Tensor]:
        """Return what is added to a batch:

        - ``token_places``, ``token_samples`` of :func:`places_of`;
        - ``kw_rows`` (2 B + M,), where input and output keywords and candidates of impostors are among the vectors,
          0 for those without a node; ``kw_known`` (3, B), 1 for input and output keywords that are nodes, and for
          samples with an impostor; ``kw_samples`` (M,), the sample of each candidate;
        - ``kw_alone`` (B, d), vectors of input keywords that are new nodes, if any is or may be dropped;
        - in ``training`` their neighbourhood as ``kw_nodes``, ``kw_receivers``, ``kw_senders``, ``kw_sizes`` and, with
          views, ``kw_changed`` and ``kw_vectors``; else vectors are read off those of all nodes.
        """
        places = places_of(batch["y_in_mask"])
        return places | self._keywords(batch, training) if self.uses_keyword else places

    def impostors(self, ky: Tensor, kneg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nodes that impostors are made of; see :func:`impostor_candidates`."""
        return impostor_candidates(self.graph, ky, kneg, neighbours=self.iterations > 0)

    def _keywords(self, batch: Mapping[str, Tensor], training: bool) -> dict[str, Tensor]:
        ky = batch["ky"]
        sample, candidates, impostor = self.impostors(ky, batch["kneg"])
        kx, alone, own = batch["kx"], batch.get("unseen_vectors"), None
        if "view" in batch and self.views is not None:
            own = view_rows(self.graph, kx, self.views, batch["view"])
            kx = torch.where(own == -1, -1, kx)
        unknown = int((kx < 0).sum())
        if unknown and alone is None:
            raise ValueError(f"HclModel: {unknown} input keywords are no nodes; give their unseen_vectors (B, d)")
        nodes = torch.cat([kx, ky, candidates])
        real = nodes >= 0
        rows = torch.where(real, nodes, 0)
        plan = {"kw_known": torch.stack([kx >= 0, ky >= 0, impostor]).long(), "kw_samples": sample}
        if unknown or "draw" in batch or "dropped" in batch:
            plan["kw_alone"] = cast(Tensor, alone)
        if training and self.iterations > 0 and real.any():
            of = F.pad(batch["view"], (0, len(nodes) - len(kx)))[real] if "view" in batch else None
            around, found = neighbourhood(self.graph, nodes[real], self.iterations, self.views, of)
            rows = torch.zeros_like(nodes).index_put((real,), found)
            plan |= {"kw_nodes": around.nodes, "kw_receivers": around.receivers, "kw_senders": around.senders,
                     "kw_sizes": HostTensor.of(torch.tensor(around.sizes))}
            if self.views is not None:
                plan |= {"kw_changed": around.changed, "kw_vectors": self.views.vectors[around.rows]}
        elif self.iterations == 0 and own is not None and self.views is not None:
            changed = torch.nonzero(own >= 0).squeeze(-1)
            plan |= {"kw_changed": changed, "kw_vectors": self.views.vectors[own[changed]]}
        return {**plan, "kw_rows": rows}


# Keyword vectors


def segment_sum(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Sum of those of ``values`` (E, ...) that belong to each of ``count`` rows, in float32 at least."""
    (values,) = at_least_float32(values)
    return values.new_zeros(count, *values.shape[1:]).index_add(0, index, values)


def largest(scores: Tensor, index: Tensor, count: int) -> Tensor:
    """Return the largest of the ``scores`` (E,) of each row (``count``,); -inf where there is none."""
    return scores.new_full((count,), -torch.inf).scatter_reduce(0, index, scores, "amax")


def weighted_mean(scores: Tensor, values: Tensor, index: Tensor, count: int) -> Tensor:
    """Mean of the ``values`` (E, d) of each row, weighed by the softmax of ``scores`` (E,); zeros for no value."""
    (scores,) = at_least_float32(scores)  # (E,)
    weights = torch.exp(scores - largest(scores.detach(), index, count).index_select(0, index))
    total = segment_sum(weights, index, count).clamp(min=1.0)  # at least 1, the weight of the largest score
    return segment_sum(weights.unsqueeze(-1) * values, index, count) / total.unsqueeze(-1)


_NODES = 2048  # nodes updated at once when the whole graph is run: bounds memory
# Numbers in one tensor of edge vectors (E, d) above which a round is computed again for its gradients: two dozen such
# tensors then exist for one round at a time, not for all.
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


class GraphAttention(nn.Module):
    """Keyword vectors u_c = h^T_c by T rounds of attention over signed edges.

    Symbols of the paper (HCL section 3.2.2): h_i node vectors, r_ij vector of the edge by which i receives from j, Wp,
    Wh the bilinear weights of eq. 4, Wq, Wk, Wr, Wv those of eq. 7 and 9, for all rounds. N_i holds the neighbours of
    both signs, and i itself. Products are of nodes, not of edges, of which there are more: r Wp (h Wh)^T = r g^T with g
    = h Wh Wp^T, and q (r Wr)^T = (q Wr^T) r^T; likewise each end of an edge has its half of the hidden layer of FFN_0.
    A round of more than ``largest`` numbers in (E, d) is computed again for its gradients.
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

    def forward(self, graph: KeywordGraph, seeds: Tensor) -> Tensor:
        """Return the vectors of ``seeds`` (S,) as (S, d), computed on their neighbourhood of T hops."""
        if self.iterations == 0 or len(seeds) == 0:
            return graph.h0[seeds]
        around, rows = neighbourhood(graph, seeds, self.iterations)
        return self.rounds(graph.h0[around.nodes], around.receivers, around.senders, around.sizes)[rows]

    def of_batch(self, h0: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the vectors (m, d) that a batch's plan reads, see :meth:`Planner.plan`, given all h^0 (n, d)."""
        h = h0.index_select(0, batch["kw_nodes"])
        if "kw_changed" in batch:
            h = h.index_copy(0, batch["kw_changed"], batch["kw_vectors"].to(h.dtype))
        return self.rounds(h, batch["kw_receivers"], batch["kw_senders"], batch["kw_sizes"].tolist())

    def isolated(self, vectors: Tensor) -> Tensor:
        """Return the vectors (M, d) of new nodes, of initial ``vectors`` (M, d), which have only their self loops."""
        count = len(vectors)
        loops = torch.arange(count, device=vectors.device)
        return self.rounds(vectors, loops, loops, [(count, count)] * self.iterations) if count else vectors

    @torch.no_grad()
    def all_vectors(self, graph: KeywordGraph) -> Tensor:
        """Return the vectors of all nodes (n, d), without gradients; run once for an evaluation."""
        if self.iterations == 0 or graph.num_nodes == 0:
            return graph.h0
        h, r = graph.h0, graph.h0.new_zeros(graph.num_edges, graph.h0.shape[1])
        weights, ends = self._weights(), [*graph.offsets[_NODES::_NODES].tolist(), graph.num_edges]
        for step in range(self.iterations):
            updated = torch.empty_like(h)
            for number, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
                near = slice(number * _NODES, min((number + 1) * _NODES, graph.num_nodes))
                nodes, senders = torch.unique(graph.source[start:stop], return_inverse=True)
                of_edges = r[start:stop] if step else None
                updated[near], r[start:stop] = (part.to(h.dtype) for part in self._round(
                    weights, h[nodes], h[near], of_edges, graph.target[start:stop] - near.start, senders))
            h = updated
        return h

    def rounds(self, h: Tensor, receivers: Tensor, senders: Tensor, sizes: Sizes) -> Tensor:
        """Return the vectors (m, d) of the nodes that the last round makes, from h^0 (n, d); see `Neighbourhood`."""
        weights, r = self._weights(), None
        for near, edges in sizes:
            arguments = weights, h, h[:near], None if r is None else r[:edges], receivers[:edges], senders[:edges]
            if edges * self.width > self.largest and torch.is_grad_enabled():
                h, r = checkpoint(self._round, *arguments, use_reentrant=False, preserve_rng_state=False)
            else:
                h, r = self._round(*arguments)
        return h

    def _weights(self) -> tuple[Tensor, Tensor]:
        """Return [g, k, v] of what nodes send (3 d, d), and [q, q Wr^T, g] of what they read, once for all rounds."""
        with torch.autocast(self.Wp.weight.device.type, enabled=False):
            scale = 1.0 / math.sqrt(self.width)
            bilinear, query = (self.Wp.weight * scale).T @ self.Wh.weight, self.Wq.weight * scale
            return (torch.cat([bilinear, self.Wk.weight, self.Wv.weight]),
                    torch.cat([query, self.Wr.weight.T @ query, bilinear]))

    def _round(self, weights: tuple[Tensor, Tensor], h: Tensor, near: Tensor, r: Tensor | None, receivers: Tensor,
               senders: Tensor) -> tuple[Tensor, Tensor]:
        """Return h' (m, d) of the nodes ``near`` from those with ``h`` (n, d), and r' (E, d); r of None is r^0."""
        sent, received = [h, F.linear(h, weights[0])], [near, F.linear(near, weights[1])]
        if r is None:  # [a ; b] W = a W_a + b W_b
            layer = cast(EdgeFeedForward, self.ffn0[0]).first
            of_i, of_j = layer.weight.split(self.width, dim=1)
            sent.append(F.linear(h, of_j))
            received.append(F.linear(near, of_i, layer.bias))
        of_senders = torch.cat(sent, dim=-1).index_select(0, senders)
        of_receivers = torch.cat(received, dim=-1).index_select(0, receivers)
        h_j, g_j, k, v, *halves_j = of_senders.split(self.width, dim=-1)
        h_i, q, through, g_i, *halves_i = of_receivers.split(self.width, dim=-1)
        if r is None:  # r^0_ij = FFN_0([h_i ; h_j])
            r = cast(EdgeFeedForward, self.ffn0[0]).second(F.gelu(halves_i[0] + halves_j[0]))
        full = torch.promote_types(r.dtype, torch.float32)  # of sums, where autocast makes products of half precision
        # eq. 4: a softmax of two is a sigmoid of their difference; b_j = 1 - b_i
        b_i = torch.sigmoid((r * (g_i - g_j)).sum(-1, keepdim=True, dtype=full))
        p = torch.lerp(h_j, h_i, b_i)  # eq. 5: b_i h_i + b_j h_j
        r = self.ffn1[0](r + p)  # eq. 6
        e = torch.addcmul(q * k, through, r).sum(-1, dtype=full)  # eq. 7
        m = weighted_mean(e, v + r, receivers, len(near))  # eq. 8-9
        return self.norm(near + m), r


# Candidates differ by about 0.3 in cosine: the hardest weighs twenty times what the easiest does.
_TEMPERATURE = 0.1


class Impostor(nn.Module):
    """Combine a sample's candidates into one vector u_imp = sum_i W_i u_i; the paper leaves W open.

    ``cosine`` weighs them by their cosine to the output keyword, a constant; ``linear`` maps their mean by a matrix.
    """

    def __init__(self, width: int, weight: str = "cosine") -> None:
        super().__init__()
        self.weight = weight
        if weight == "linear":
            self.W = nn.Linear(width, width, bias=False)

    def forward(self, u_out: Tensor, candidates: Tensor, samples: Tensor) -> Tensor:
        """Return u_imp (B, d) of candidates (M, d) of ``samples``, given u_out (B, d); zeros where there is none."""
        with torch.no_grad():
            scores = (cosines(u_out, candidates, samples) / _TEMPERATURE if self.weight == "cosine"
                      else candidates.new_zeros(len(candidates)))
        combined = weighted_mean(scores, candidates, samples, len(u_out))  # (B, d)
        return self.W(combined) if self.weight == "linear" else combined


def cosines(one: Tensor, others: Tensor, samples: Tensor) -> Tensor:
    """Return the cosine of each of ``others`` (M, d) to that of ``one`` (B, d) which it belongs to (M,)."""
    one, others = at_least_float32(one, others)
    return (F.normalize(one, dim=-1).index_select(0, samples) * F.normalize(others, dim=-1)).sum(-1)


@torch.no_grad()
def likeness(u_out: Tensor, u_imp: Tensor, candidates: Tensor, samples: Tensor) -> Tensor:
    """Return the cosines to u_out (B, d) of impostor, hardest and easiest candidate (3, B); 0 for a sample without."""
    of_impostor, of_candidates = F.cosine_similarity(u_out, u_imp, dim=-1), cosines(u_out, candidates, samples)
    hardest, easiest = (sign * largest(sign * of_candidates, samples, len(u_out)) for sign in (1, -1))
    return torch.stack([of_impostor, hardest, easiest]).masked_fill(torch.isinf(hardest), 0.0)
