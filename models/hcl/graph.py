"""The keyword graph (HCL section 3.2.2): nodes, signed edges, views of training items, keyword vectors (eq. 4-9)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from models.common.losses import at_least_float32

Sizes = Sequence[tuple[int, int]]  # of each round: nodes that receive, and edges into them
_NODES = 2048  # nodes updated at once when the whole graph is run: bounds memory
# Numbers in one tensor of edge vectors (E, d) above which a round is computed again for its gradients: two dozen such
# tensors then exist for one round at a time, not for all.
LARGEST = 2**25  # 3 GiB of float32 in all
# Cosines of candidates differ by about 0.3: the hardest weighs twenty times what the easiest does.
_TEMPERATURE = 0.1


class KeywordGraph(nn.Module):
    """Keyword nodes with constant vectors h0 and signed directed edges, sorted by receiving node; all of it buffers.

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
        """Build the graph of vectors (n, d) and edges (E',), each given once; one self loop per node is added."""
        nodes = len(vectors)
        target, source = target.to(torch.int64), source.to(torch.int64)
        between, loops = target != source, torch.arange(nodes)
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
        """Return the negative neighbours of nodes (B,), -1 for none: row in B of each (M,), sorted, and id (M,)."""
        known = torch.nonzero(nodes >= 0).squeeze(-1)
        numbers, place = runs(self.offsets, nodes[known])
        negative = self.sign[numbers] < 0
        return known[place[negative]], self.source[numbers[negative]]


def runs(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entries (E,) of ``rows`` (R,), which begin at ``offsets``, and the place in R of each one's row."""
    starts = offsets[rows]
    counts = offsets[rows + 1] - starts
    place = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
    return (starts - (counts.cumsum(0) - counts))[place] + torch.arange(len(place), device=rows.device), place


def impostor_candidates(graph: KeywordGraph, output_nodes: Tensor, negative_nodes: Tensor,
                        neighbours: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return the samples (M,), sorted, and nodes (M,) that impostors are made of, and which samples have one (B,).

    Candidates are the negative neighbours of the output keyword, unless ``neighbours`` is False (the ablation without
    graph). A sample without any has its own negative keyword, unless that is the output keyword. Nodes are (B,), -1
    for none.
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


# Views: the graph as training items see it


@dataclass(frozen=True)
class Views:
    """The differences of G views from the whole graph, on the CPU; view 0 is the whole graph and has none."""

    edge_offsets: Tensor  # where the edges of each view begin and end (G + 2,)
    edges: Tensor  # numbers of edges (C,) as KeywordGraph counts them; those of a view together, ascending
    targets: Tensor  # the nodes that these go into (C,)
    signs: Tensor  # sign of each in the view (C,) int8; 0 where it is removed
    node_offsets: Tensor  # where the nodes of each view begin and end (G + 2,)
    nodes: Tensor  # ids of nodes (N,); those of a view together, ascending
    rows: Tensor  # row of ``vectors`` that is the node's h^0 (N,); -1 for a removed node
    vectors: Tensor  # (R, d)


class _ViewedGraph:
    """The graph in the views ``of`` (M,) of a batch: keys are ``view * n + node`` and ``view * E + edge``."""

    def __init__(self, graph: KeywordGraph, views: Views | None, of: Tensor) -> None:
        self.graph = graph
        # keys in ascending order, with the signs of edges and the rows of nodes
        self.edges = self.signs = self.receivers = self.nodes = self.rows = of[:0]
        if views is not None:
            chosen = torch.unique(of)
            edges, edge_rows = runs(views.edge_offsets, chosen)
            nodes, node_rows = runs(views.node_offsets, chosen)
            of_edge, of_node = chosen[edge_rows], chosen[node_rows]
            self.edges, self.signs = of_edge * graph.num_edges + views.edges[edges], views.signs[edges]
            self.receivers = torch.unique_consecutive(of_edge * graph.num_nodes + views.targets[edges])
            self.nodes, self.rows = of_node * graph.num_nodes + views.nodes[nodes], views.rows[nodes]

    def row_of(self, keys: Tensor) -> Tensor:
        """Return the rows of the vectors of nodes (M,): -1 for a removed node, -2 for one as in the whole graph."""
        return _replaced(self.nodes, self.rows, keys, torch.full_like(keys, -2))

    def into(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges into the nodes ``keys`` (n,): places of receivers (E,), and keys of senders (E,)."""
        graph = self.graph
        numbers, receivers = runs(graph.offsets, keys % graph.num_nodes)
        view = (keys // graph.num_nodes)[receivers]  # the senders' too
        left = _replaced(self.edges, self.signs, view * graph.num_edges + numbers, graph.sign[numbers]) != 0
        return receivers[left], (view * graph.num_nodes + graph.source[numbers])[left]

    def differing(self, keys: Tensor, hops: int) -> list[Tensor]:
        """Return the nodes around ``keys`` whose vectors differ from the whole graph's after 0 to ``hops`` rounds."""
        within = [torch.unique(keys[keys >= self.graph.num_nodes])]
        edges = [self.into(within[0])]
        for _ in range(hops - 1):
            within.append(torch.unique(edges[-1][1]))  # self loops keep the nodes
            edges.append(self.into(within[-1]))
        differing = [self.nodes]
        for nodes, (receivers, senders) in zip(within[::-1], edges[::-1], strict=True):
            changed = torch.isin(senders, differing[-1])
            receives_change = torch.bincount(receivers[changed], minlength=len(nodes)) > 0
            differing.append(nodes[receives_change | torch.isin(nodes, self.receivers)])
        return differing

    def shared(self, keys: Tensor, differing: Tensor) -> Tensor:
        """Return ``keys``, those whose vectors do not differ replaced by the keys of the whole graph."""
        return torch.where(torch.isin(keys, differing), keys, keys % self.graph.num_nodes)


def _replaced(table: Tensor, values: Tensor, keys: Tensor, other: Tensor) -> Tensor:
    """Return ``values`` where ``keys`` (M,) are in the ascending ``table``, and ``other`` (M,) elsewhere."""
    if not len(table):
        return other
    place = torch.searchsorted(table, keys).clamp_(max=len(table) - 1)
    return torch.where(table[place] == keys, values[place], other)


def view_rows(graph: KeywordGraph, nodes: Tensor, views: Views, of: Tensor) -> Tensor:
    """Return the rows of the vectors of ``nodes`` (S,) in their views: -1 for a removed node, -2 if unchanged."""
    return _ViewedGraph(graph, views, of).row_of(of * graph.num_nodes + nodes)


def neighbours(graph: KeywordGraph, nodes: Tensor, views: Views, of: Tensor) -> tuple[Tensor, Tensor]:
    """Return the senders (E,) to ``nodes`` (S,) in their views, without self loops, and the place in S of each (E,)."""
    places, keys = _ViewedGraph(graph, views, of).into(of * graph.num_nodes + nodes)
    senders = keys % graph.num_nodes
    other = senders != nodes[places]
    return senders[other], places[other]


@dataclass(frozen=True)
class Neighbourhood:
    """The nodes and edges of T rounds over a neighbourhood of T hops."""

    nodes: Tensor  # ids (n,); in each round fewer of them receive, always the first ones
    receivers: Tensor  # of the edges (E,), as places among the nodes, sorted; each round reads the first ones
    senders: Tensor  # likewise (E,)
    sizes: Sizes
    changed: Tensor  # places of nodes whose initial vector is of a view (R,)
    rows: Tensor  # rows of these vectors in ``Views.vectors`` (R,)


def neighbourhood(graph: KeywordGraph, seeds: Tensor, hops: int, views: Views | None = None,
                  of: Tensor | None = None) -> tuple[Neighbourhood, Tensor]:
    """Return the neighbourhood of ``seeds`` (S,) in the views ``of`` (S,), and the row of each among its nodes (S,).

    A node is copied for a view only where its vector after the rounds differs from the whole graph's. The cost does not
    depend on the size of the graph, which is on the CPU.
    """
    of = torch.zeros_like(seeds) if of is None else of
    viewed, keys = _ViewedGraph(graph, views, of), of * graph.num_nodes + seeds
    differing = viewed.differing(keys, hops)
    keys = viewed.shared(keys, differing[hops])
    parts, edges = [torch.unique(keys)], []
    for step in range(hops, 0, -1):
        targets, senders = viewed.into(parts[-1])
        edges.append((targets + sum(map(len, parts[:-1])), viewed.shared(senders, differing[step - 1])))
        outer = torch.unique(edges[-1][1])
        parts.append(outer[~torch.isin(outer, torch.cat(parts))])
    nodes, levels = torch.cat(parts), torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
    ascending, order = torch.sort(nodes)
    receivers, senders = (torch.cat(side) for side in zip(*edges, strict=True))
    ends = torch.bincount(receivers, minlength=levels[-2]).cumsum(0).tolist()  # edges into the receivers up to each
    rows = viewed.row_of(nodes)
    changed = torch.nonzero(rows >= 0).squeeze(-1)
    return (Neighbourhood(nodes % max(graph.num_nodes, 1), receivers, order[torch.searchsorted(ascending, senders)],
                          [(count, ends[count - 1]) for count in levels[-2::-1]], changed, rows[changed]),
            order[torch.searchsorted(ascending, keys)])


def places_of(mask: Tensor) -> dict[str, Tensor]:
    """Return the places (N,) of the tokens under ``mask`` (B, T) in the flat batch, and the sample of each (N,)."""
    places = mask.flatten().nonzero().squeeze(-1)
    return {"token_places": places, "token_samples": places // mask.shape[1]}


@dataclass(frozen=True)
class Planner:
    """Finds which parts of the graph and its ``views`` a batch reads, and the places of its tokens.

    This follows from node ids and edges alone, and is done on the CPU: on the device, the host would wait for it.
    """

    graph: KeywordGraph
    uses_keyword: bool
    iterations: int
    views: Views | None = None

    def plan(self, batch: Mapping[str, Tensor], training: bool = True) -> dict[str, Tensor]:
        """Return the tensors that are added to a batch:

        - ``token_places``, ``token_samples`` of :func:`places_of`;
        - ``kw_rows`` (2 B + M,), rows of input and output keywords and candidates of impostors among the vectors, 0 for
          those without a node; ``kw_known`` (3, B), 1 for input and output keywords that are nodes, and for samples
          with an impostor; ``kw_samples`` (M,), the sample of each candidate;
        - ``kw_alone`` (B, d), vectors of input keywords that are new nodes, if there are or may be any;
        - in ``training`` the neighbourhood as ``kw_nodes``, ``kw_receivers``, ``kw_senders``, ``kw_sizes`` and, with
          views, ``kw_changed`` and ``kw_vectors``; otherwise rows are those of all nodes;
        - without rounds, ``kw_changed``, the samples whose view has another vector of the input keyword, in
          ``kw_vectors``.
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
            around, places = neighbourhood(self.graph, nodes[real], self.iterations, self.views, of)
            rows = torch.zeros_like(nodes).index_put((real,), places)
            plan |= {"kw_nodes": around.nodes, "kw_receivers": around.receivers, "kw_senders": around.senders,
                     "kw_sizes": torch.tensor(around.sizes)}
            if self.views is not None:
                plan |= {"kw_changed": around.changed, "kw_vectors": self.views.vectors[around.rows]}
        elif self.iterations == 0 and own is not None and self.views is not None:
            changed = torch.nonzero(own >= 0).squeeze(-1)
            plan |= {"kw_changed": changed, "kw_vectors": self.views.vectors[own[changed]]}
        return {**plan, "kw_rows": rows}


# Keyword vectors


def segment_sum(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return the sums of the ``values`` (E, ...) of each of ``count`` rows, in float32 at least."""
    (values,) = at_least_float32(values)
    return values.new_zeros(count, *values.shape[1:]).index_add(0, index, values)


def largest(scores: Tensor, index: Tensor, count: int) -> Tensor:
    """Return the largest of the ``scores`` (E,) of each row (``count``,); -inf where there is none."""
    return scores.new_full((count,), -torch.inf).scatter_reduce(0, index, scores, "amax")


def weighted_mean(scores: Tensor, values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return the mean of each row's ``values`` (E, d), weighted by the softmax of ``scores`` (E,); zeros for none."""
    (scores,) = at_least_float32(scores)  # (E,)
    weights = torch.exp(scores - largest(scores.detach(), index, count).index_select(0, index))
    total = segment_sum(weights, index, count).clamp(min=1.0)  # at least 1, the weight of the largest score
    return segment_sum(weights.unsqueeze(-1) * values, index, count) / total.unsqueeze(-1)


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
    both signs, and i itself. There are fewer nodes than edges, so that matrices multiply nodes: r Wp (h Wh)^T = r g^T
    with g = h Wh Wp^T, and q (r Wr)^T = (q Wr^T) r^T; likewise each end of an edge has half of FFN_0's hidden layer.
    """

    def __init__(self, width: int, iterations: int = 2, layer_norm: bool = True) -> None:
        super().__init__()
        self.width, self.iterations, self.largest = width, iterations, LARGEST
        # lists of one layer: their number is part of the module names, which seed the initial weights
        self.ffn0 = nn.ModuleList([EdgeFeedForward(2 * width, width)])
        self.ffn1 = nn.ModuleList([EdgeFeedForward(width, width)])
        self.Wp, self.Wh, self.Wq, self.Wk, self.Wr, self.Wv = (nn.Linear(width, width, bias=False) for _ in range(6))
        self.norm = nn.LayerNorm(width) if layer_norm else nn.Identity()

    def of_batch(self, h0: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the vectors (m, d) that a batch's plan reads, see :meth:`Planner.plan`, given all h^0 (n, d)."""
        h = h0.index_select(0, batch["kw_nodes"])
        if "kw_changed" in batch:
            h = h.index_copy(0, batch["kw_changed"], batch["kw_vectors"].to(h.dtype))
        return self.rounds(h, batch["kw_receivers"], batch["kw_senders"], batch["kw_sizes"].tolist())

    def isolated(self, vectors: Tensor) -> Tensor:
        """Return the vectors (M, d) of new nodes, which have initial ``vectors`` (M, d) and only their self loops."""
        count = len(vectors)
        loops = torch.arange(count, device=vectors.device)
        return self.rounds(vectors, loops, loops, [(count, count)] * self.iterations) if count else vectors

    @torch.no_grad()
    def all_vectors(self, graph: KeywordGraph) -> Tensor:
        """Return the vectors of all nodes (n, d), without gradients."""
        if self.iterations == 0 or graph.num_nodes == 0:
            return graph.h0
        h, r = graph.h0, graph.h0.new_zeros(graph.num_edges, graph.h0.shape[1])
        weights, ends = self._weights(), [*graph.offsets[_NODES::_NODES].tolist(), graph.num_edges]
        for step in range(self.iterations):
            updated = torch.empty_like(h)
            for number, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
                block = slice(number * _NODES, min((number + 1) * _NODES, graph.num_nodes))
                nodes, senders = torch.unique(graph.source[start:stop], return_inverse=True)
                of_edges = r[start:stop] if step else None
                updated[block], r[start:stop] = (part.to(h.dtype) for part in self._round(
                    weights, h[nodes], h[block], of_edges, graph.target[start:stop] - block.start, senders))
            h = updated
        return h

    def rounds(self, h: Tensor, receivers: Tensor, senders: Tensor, sizes: Sizes) -> Tensor:
        """Return the vectors (m, d) after the last round, from h^0 (n, d); see :class:`Neighbourhood`."""
        weights, r = self._weights(), None
        for nodes, edges in sizes:
            arguments = weights, h, h[:nodes], None if r is None else r[:edges], receivers[:edges], senders[:edges]
            if edges * self.width > self.largest and torch.is_grad_enabled():
                h, r = checkpoint(self._round, *arguments, use_reentrant=False, preserve_rng_state=False)
            else:
                h, r = self._round(*arguments)
        return h

    def _weights(self) -> tuple[Tensor, Tensor]:
        """Return the joined weights of senders, [g, k, v] (3 d, d), and of receivers, [q, q Wr^T, g] (3 d, d)."""
        with torch.autocast(self.Wp.weight.device.type, enabled=False):
            scale = 1.0 / math.sqrt(self.width)
            bilinear, query = (self.Wp.weight * scale).T @ self.Wh.weight, self.Wq.weight * scale
            return (torch.cat([bilinear, self.Wk.weight, self.Wv.weight]),
                    torch.cat([query, self.Wr.weight.T @ query, bilinear]))

    def _round(self, weights: tuple[Tensor, Tensor], h: Tensor, targets: Tensor, r: Tensor | None, receivers: Tensor,
               senders: Tensor) -> tuple[Tensor, Tensor]:
        """Return h' (m, d) of the nodes ``targets`` from those with ``h`` (n, d), and r' (E, d); r of None is r^0."""
        sent, received = [h, F.linear(h, weights[0])], [targets, F.linear(targets, weights[1])]
        if r is None:  # [a ; b] W = a W_a + b W_b
            layer = cast(EdgeFeedForward, self.ffn0[0]).first
            of_i, of_j = layer.weight.split(self.width, dim=1)
            sent.append(F.linear(h, of_j))
            received.append(F.linear(targets, of_i, layer.bias))
        of_senders = torch.cat(sent, dim=-1).index_select(0, senders)
        of_receivers = torch.cat(received, dim=-1).index_select(0, receivers)
        h_j, g_j, k, v, *halves_j = of_senders.split(self.width, dim=-1)
        h_i, q, through, g_i, *halves_i = of_receivers.split(self.width, dim=-1)
        if r is None:  # r^0_ij = FFN_0([h_i ; h_j])
            r = cast(EdgeFeedForward, self.ffn0[0]).second(F.gelu(halves_i[0] + halves_j[0]))
        full = torch.promote_types(r.dtype, torch.float32)  # of sums; products are of half precision under autocast
        # eq. 4: a softmax of two is a sigmoid of their difference; b_j = 1 - b_i
        b_i = torch.sigmoid((r * (g_i - g_j)).sum(-1, keepdim=True, dtype=full))
        p = torch.lerp(h_j, h_i, b_i)  # eq. 5: b_i h_i + b_j h_j
        r = self.ffn1[0](r + p)  # eq. 6
        e = torch.addcmul(q * k, through, r).sum(-1, dtype=full)  # eq. 7
        m = weighted_mean(e, v + r, receivers, len(targets))  # eq. 8-9
        return self.norm(targets + m), r


class Impostor(nn.Module):
    """Combines a sample's candidates into one vector u_imp = sum_i W_i u_i; the paper leaves W open.

    ``cosine`` weights them by their cosine to the output keyword, without gradient; ``linear`` maps their mean by a
    matrix.
    """

    def __init__(self, width: int, weight: str = "cosine") -> None:
        super().__init__()
        self.weight = weight
        if weight == "linear":
            self.W = nn.Linear(width, width, bias=False)

    def forward(self, u_out: Tensor, candidates: Tensor, samples: Tensor) -> Tensor:
        """Return u_imp (B, d) of candidates (M, d) of ``samples``, given u_out (B, d); zeros without a candidate."""
        with torch.no_grad():
            scores = (cosines(u_out, candidates, samples) / _TEMPERATURE if self.weight == "cosine"
                      else candidates.new_zeros(len(candidates)))
        combined = weighted_mean(scores, candidates, samples, len(u_out))  # (B, d)
        return self.W(combined) if self.weight == "linear" else combined


def cosines(vector: Tensor, others: Tensor, samples: Tensor) -> Tensor:
    """Return the cosine (M,) of each of ``others`` (M, d) to the vector of its sample in ``vector`` (B, d)."""
    vector, others = at_least_float32(vector, others)
    return (F.normalize(vector, dim=-1).index_select(0, samples) * F.normalize(others, dim=-1)).sum(-1)


@torch.no_grad()
def impostor_cosines(u_out: Tensor, u_imp: Tensor, candidates: Tensor, samples: Tensor) -> Tensor:
    """Return the cosines to u_out (B, d) of impostor, hardest and easiest candidate (3, B); 0 without a candidate."""
    of_impostor, of_candidates = F.cosine_similarity(u_out, u_imp, dim=-1), cosines(u_out, candidates, samples)
    hardest, easiest = (sign * largest(sign * of_candidates, samples, len(u_out)) for sign in (1, -1))
    return torch.stack([of_impostor, hardest, easiest]).masked_fill(torch.isinf(hardest), 0.0)
