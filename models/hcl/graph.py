"""The keyword graph (HCL section 3.1): nodes, signed edges, what training items see of it, and the plan of a batch.

What a batch reads follows from node ids, lengths and edges alone. A loader finds it on the CPU while the device
computes, so that the model neither counts nor searches there, for which the host would have to wait.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.hcl.config import HclConfig


class KeywordGraph(nn.Module):
    """Keyword nodes with constant vectors h0 and signed directed edges, in rows by receiving node.

    Nothing here is learned: all tensors are buffers, so that a saved model carries its graph. Edges are
    held as compressed rows: those into node i are ``offsets[i]`` to ``offsets[i + 1]``. Every node has
    exactly one self loop, of positive sign, so that no softmax over neighbours is empty. The constructor makes an
    empty graph of n nodes, E edges (self loops included) and vectors of width d, which loading fills.
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
        """Build the graph from vectors of nodes (n, d), in the order of ids, and edges (E',) with sign +1 or -1.

        Self loops among the edges are dropped; one per node is added.

        Raises:
            ValueError: a node id outside the graph, another sign, or a pair of nodes given twice.
        """
        nodes = vectors.shape[0]
        target, source = target.to(torch.int64), source.to(torch.int64)
        apart = target != source
        _check(nodes, target, source, sign, apart)
        loops = torch.arange(nodes)
        target = torch.cat([target[apart], loops])
        source = torch.cat([source[apart], loops])
        sign = torch.cat([sign[apart].to(torch.int8), torch.ones(nodes, dtype=torch.int8)])
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
        numbers, into = runs(self.offsets, nodes[known])
        negative = self.sign[numbers] < 0
        return known[into[negative]], self.source[numbers[negative]]


def runs(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers (E,) of all that ``rows`` (R,) hold, row by row, and the place of its row among them (E,)."""
    starts = offsets[rows]
    counts = offsets[rows + 1] - starts
    place = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
    return (starts - (counts.cumsum(0) - counts))[place] + torch.arange(len(place), device=rows.device), place


def _check(nodes: int, target: Tensor, source: Tensor, sign: Tensor, apart: Tensor) -> None:
    for name, ids in (("target", target), ("source", source)):
        outside = (ids < 0) | (ids >= nodes)
        if outside.any():
            raise ValueError(f"KeywordGraph: {name} {int(ids[outside][0])} is no node; there are {nodes}")
    if not torch.isin(sign, torch.tensor([-1, 1], dtype=sign.dtype)).all():
        raise ValueError("KeywordGraph: sign must be +1 or -1")
    pairs, counts = torch.unique((target * nodes + source)[apart], return_counts=True)
    if (counts > 1).any():
        pair = int(pairs[counts > 1][0])
        raise ValueError(f"KeywordGraph: the edge {pair // nodes} <- {pair % nodes} is given twice")


def impostor_candidates(
    graph: KeywordGraph, output_nodes: Tensor, negative_nodes: Tensor, neighbours: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the samples (M,), sorted, and nodes (M,) that impostors are made of, and which samples have one (B,).

    These are the negative neighbours of the output keyword; where it has none, the sample's own negative
    keyword, unless that is the output keyword; else the sample has no impostor.

    Args:
        graph: the keyword graph.
        output_nodes, negative_nodes: nodes of the keywords of output and negative output (B,); -1 for none.
        neighbours: False looks at the own negative keyword only (the ablation without graph).
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


@dataclass(frozen=True)
class Views:
    """The differences of G views from the whole graph, on the CPU; those of a view stand together, ascending.

    View 0 is the whole graph and has no difference.

    Attributes:
        edge_offsets: where the edges of each view begin and end (G + 2,).
        edges: numbers of edges (C,) as :class:`KeywordGraph` counts them.
        targets: the nodes that these go into (C,).
        signs: what is left of each (C,) int8: 0 nothing, else its sign.
        node_offsets: where the nodes of each view begin and end (G + 2,).
        nodes: ids of nodes (N,).
        rows: row of ``vectors`` that is the node's h^0 (N,); -1 for a node that is gone.
        vectors: (R, d).
    """

    edge_offsets: Tensor
    edges: Tensor
    targets: Tensor
    signs: Tensor
    node_offsets: Tensor
    nodes: Tensor
    rows: Tensor
    vectors: Tensor

    def among(self, views: Tensor, num_nodes: int, num_edges: int) -> "Differences":
        """Return the differences of ``views`` (V,), ascending and each once, from a graph of these sizes."""
        edges, edge_rows = runs(self.edge_offsets, views)
        nodes, node_rows = runs(self.node_offsets, views)
        of_edge, of_node = views[edge_rows], views[node_rows]
        return Differences(of_edge * num_edges + self.edges[edges], self.signs[edges],
                           torch.unique_consecutive(of_edge * num_nodes + self.targets[edges]),
                           of_node * num_nodes + self.nodes[nodes], self.rows[nodes])


@dataclass(frozen=True)
class Differences:
    """The differences of the views of a batch; nodes by ``view * n + node``, edges by ``view * E + edge``, ascending.

    Attributes:
        edges, signs: as of :class:`Views`.
        receivers: nodes into which these edges go, each once.
        nodes, rows: as of :class:`Views`.
    """

    edges: Tensor
    signs: Tensor
    receivers: Tensor
    nodes: Tensor
    rows: Tensor

    def row_of(self, keys: Tensor) -> Tensor:
        """Return the rows of the vectors of nodes (M,): -1 where one is gone, -2 where it is as in the graph."""
        place, found = looked_up(self.nodes, keys)
        return torch.where(found, self.rows[place], -2) if len(self.nodes) else torch.full_like(keys, -2)

    def sign_of(self, keys: Tensor, sign: Tensor) -> Tensor:
        """Return the signs (M,) of edges that have ``sign`` in the graph; 0 for those gone."""
        place, found = looked_up(self.edges, keys)
        return torch.where(found, self.signs[place], sign) if len(self.edges) else sign


def looked_up(table: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return a place in ``table``, which ascends, for each of ``keys`` (M,), and whether the key stands there."""
    if not len(table):
        return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
    place = torch.searchsorted(table, keys).clamp_(max=len(table) - 1)
    return place, table[place] == keys


@dataclass(frozen=True)
class Rows:
    """Which of n rows each of E others stands for or belongs to, and the way back.

    Attributes:
        index: numbers of rows (E,).
        offsets: where those of each row begin and end, put in order (n + 1,).
        order: brings ``index`` into ascending order (E,); None if it is.
    """

    index: Tensor
    offsets: Tensor
    order: Tensor | None = None

    @property
    def count(self) -> int:
        """Number n of rows."""
        return len(self.offsets) - 1

    @classmethod
    def of(cls, index: Tensor, count: int, ascending: bool = False) -> "Rows":
        """Return the rows of ``index`` (E,) among ``count``; ``ascending`` says that it is sorted."""
        offsets = index.new_zeros(count + 1)
        offsets[1:] = torch.bincount(index, minlength=count).cumsum(0)
        return cls(index, offsets, None if ascending else torch.argsort(index, stable=True))


@dataclass(frozen=True)
class Block:
    """Edges (E,) of a run of receivers.

    Attributes:
        first, last: the receivers, among those of the round.
        start, stop: the edges, among those of the round.
        senders: the node that each edge comes from, among all nodes of the round.
        receivers: the one it goes to, among the block's.
    """

    first: int
    last: int
    start: int
    stop: int
    senders: Rows
    receivers: Rows


@dataclass(frozen=True)
class Round:
    """One round of attention: how many receive, by how many edges, and these edges."""

    receivers: int
    edges: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Neighbourhood:
    """All that T rounds over a neighbourhood of T hops need.

    Attributes:
        nodes: ids of the nodes (n,), those whose vectors are asked for first.
        rounds: the T rounds.
        changed: those of the nodes that begin with a vector of their own (R,).
        vectors: these vectors (R, d).
    """

    nodes: Tensor
    rounds: tuple[Round, ...]
    changed: Tensor
    vectors: Tensor


def neighbourhood(graph: KeywordGraph, seeds: Tensor, hops: int, limit: int, views: Views | None = None,
                  of: Tensor | None = None) -> tuple[Neighbourhood, Tensor]:
    """Return the neighbourhood of ``seeds`` (S,), and the row of each of them among its nodes (S,).

    Nothing here depends on the size of the graph. A node is copied for a view only where the view has another vector
    of it after that many rounds; all else is shared.

    Args:
        graph: on any device; reading sizes waits for a GPU, so a loader has a copy on the CPU.
        seeds: ids of nodes, in any order, repeated or not.
        hops: T, at least 1.
        limit: edges of a block; a receiver is never cut, however many edges it has.
        views: how views differ from the graph; None if all seeds are seen in the whole of it.
        of: the view of each seed (S,); none may be gone in it.
    """
    keys, sight = seeds, _Sight(graph)
    if views is not None and of is not None:
        sight = _Sight(graph, views.among(torch.unique(of), graph.num_nodes, graph.num_edges))
        keys = of * graph.num_nodes + seeds
    differing = sight.differing(keys, hops)
    keys = sight.shared(keys, differing[hops])
    parts, into = [torch.unique(keys)], []
    for step in range(hops, 0, -1):
        near, senders = sight.into(parts[-1])
        into.append((near + sum(map(len, parts[:-1])), sight.shared(senders, differing[step - 1])))
        outer = torch.unique(into[-1][1])
        parts.append(outer[~torch.isin(outer, torch.cat(parts))])
    nodes, levels = torch.cat(parts), torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
    ascending, order = torch.sort(nodes)
    receivers, senders = (torch.cat(side) for side in zip(*into, strict=True))
    senders = order[torch.searchsorted(ascending, senders)]
    ends = torch.bincount(receivers, minlength=levels[-2]).cumsum(0).tolist()  # edges into the receivers up to each
    rounds = tuple(_round(senders, receivers, ends[:near], outer, limit)
                   for near, outer in zip(levels[-2::-1], levels[:0:-1], strict=True))
    changed, vectors = nodes.new_zeros(0), graph.h0.new_zeros(0)
    if views is not None and sight.differences is not None:
        rows = sight.differences.row_of(nodes)
        changed = torch.nonzero(rows >= 0).squeeze(-1)
        vectors = views.vectors[rows[changed]]
    return (Neighbourhood(nodes % max(graph.num_nodes, 1), rounds, changed, vectors),
            order[torch.searchsorted(ascending, keys)])


def neighbours(graph: KeywordGraph, nodes: Tensor, views: Views, of: Tensor) -> tuple[Tensor, Tensor]:
    """Return from which nodes (E,) each of ``nodes`` (S,) receives in its view, itself left out; and its place (E,)."""
    sight = _Sight(graph, views.among(torch.unique(of), graph.num_nodes, graph.num_edges))
    places, keys = sight.into(of * graph.num_nodes + nodes)
    senders = keys % graph.num_nodes
    other = senders != nodes[places]
    return senders[other], places[other]


@dataclass(frozen=True)
class _Sight:
    """The graph as the views of a batch have it."""

    graph: KeywordGraph
    differences: Differences | None = None

    def into(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges into the nodes ``keys`` (n,): places of receivers (E,), and keys of senders (E,)."""
        graph = self.graph
        numbers, receivers = runs(graph.offsets, keys if self.differences is None else keys % graph.num_nodes)
        senders = graph.source[numbers]
        if self.differences is None:
            return receivers, senders
        view = (keys // graph.num_nodes)[receivers]  # the senders' too
        there = self.differences.sign_of(view * graph.num_edges + numbers, graph.sign[numbers]) != 0
        return receivers[there], (view * graph.num_nodes + senders)[there]

    def differing(self, keys: Tensor, hops: int) -> list[Tensor]:
        """Return, for 0 to ``hops`` rounds, which nodes have another vector after them than in the whole graph.

        Of those alone that ``keys`` need; ascending.
        """
        if self.differences is None:
            return [keys[:0]] * (hops + 1)
        within = [torch.unique(keys[keys >= self.graph.num_nodes])]
        edges = [self.into(within[0])]
        for _ in range(hops - 1):
            within.append(torch.unique(edges[-1][1]))  # self loops keep the nodes
            edges.append(self.into(within[-1]))
        found = [self.differences.nodes]
        for nodes, (receivers, senders) in zip(within[::-1], edges[::-1], strict=True):
            _, differs = looked_up(found[-1], senders)
            other = torch.bincount(receivers[differs], minlength=len(nodes)) > 0
            found.append(nodes[other | looked_up(self.differences.receivers, nodes)[1]])
        return found

    def shared(self, keys: Tensor, differing: Tensor) -> Tensor:
        """Return ``keys``, the whole graph's in the place of those that do not differ from it."""
        if self.differences is None:
            return keys
        return torch.where(looked_up(differing, keys)[1], keys, keys % self.graph.num_nodes)


def block_of(senders: Tensor, into: Tensor, sending: int, receiving: int) -> Block:
    """Return the block of edges (E,) from ``sending`` nodes to ``receiving`` ones, sorted by receiver."""
    return Block(0, receiving, 0, len(into), Rows.of(senders, sending), Rows.of(into, receiving, ascending=True))


def alone(count: int, iterations: int, device: torch.device) -> tuple[Round, ...]:
    """Return the rounds of ``count`` nodes each of which has its own loop, and no other edge."""
    numbers = torch.arange(count + 1, device=device)
    rows = Rows(numbers[:-1], numbers)
    block = Block(0, count, 0, count, rows, rows)
    return (Round(count, count, (block,)),) * iterations


def cut(ends: list[int], limit: int) -> list[tuple[int, int, int, int]]:
    """Cut edges, sorted by receiver, between receivers: first and last of a block's receivers, and of its edges.

    A block has at most ``limit`` edges or one receiver; ``ends`` counts the edges into the receivers up to each.
    """
    blocks, first, start = [], 0, 0
    while first < len(ends):
        last = max(first + 1, bisect_right(ends, start + limit))
        blocks.append((first, last, start, ends[last - 1]))
        first, start = last, ends[last - 1]
    return blocks


def _round(senders: Tensor, into: Tensor, ends: list[int], sending: int, limit: int) -> Round:
    blocks = []
    for first, last, start, stop in cut(ends, limit):
        part = slice(start, stop)
        block = block_of(senders[part], into[part] - first, sending, last - first)
        blocks.append(replace(block, first=first, last=last, start=start, stop=stop))
    return Round(len(ends), ends[-1], tuple(blocks))


KEY = "plan"  # under which a batch holds its plan


@dataclass(frozen=True)
class KeywordPlan:
    """Where the keyword vectors of a batch come from.

    Attributes:
        around: the neighbourhood that is computed; None if the vectors of all nodes are there.
        rows: of u_in, u_out (B each) and the impostors' candidates (M) among the vectors; 0 for those without a node.
        known: 1 for input and output keywords that are nodes, and for samples with an impostor (3, B).
        all_known: whether all input keywords are, and whether all output keywords are.
        samples: the sample of each candidate.
        alone: initial vectors (B, d) of input keywords that are new nodes, read where they are not known, or dropped.
    """

    around: Neighbourhood | None
    rows: Rows
    known: Tensor
    all_known: tuple[bool, bool]
    samples: Rows
    alone: Tensor | None


@dataclass(frozen=True)
class Targets:
    """The places of a batch's predicted tokens (N,) in the flat batch, among B Lt, and the sample of each."""

    places: Rows
    samples: Rows

    @classmethod
    def of(cls, mask: Tensor) -> "Targets":
        """Return the places of the tokens under ``mask`` (B, Lt)."""
        places = mask.flatten().nonzero().squeeze(-1)
        return cls(Rows.of(places, mask.numel(), ascending=True),
                   Rows.of(places // mask.shape[1], len(mask), ascending=True))


@dataclass(frozen=True)
class Plan:
    """What is known of a batch; ``keywords`` is None for a model that has no use for them."""

    targets: Targets
    keywords: KeywordPlan | None


class PackedPlan:
    """A plan that moves to a device as a tensor does, in one copy for each type of number."""

    def __init__(self, plan: Plan) -> None:
        tensors: dict[torch.dtype, list[Tensor]] = {}

        def found(tensor: Tensor) -> Tensor:
            tensors.setdefault(tensor.dtype, []).append(tensor)
            return tensor

        _mapped(plan, found)
        self._plan = plan
        self._flat = {dtype: torch.cat([tensor.flatten() for tensor in alike]) for dtype, alike in tensors.items()}

    def to(self, device: torch.device, non_blocking: bool = False) -> "PackedPlan":
        """Return the plan on ``device``."""
        return self._moved(lambda flat: flat.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "PackedPlan":
        """Return the plan in page-locked memory."""
        return self._moved(Tensor.pin_memory)

    def unpacked(self) -> Plan:
        """Return the plan, its tensors views of those that were moved."""
        ends = dict.fromkeys(self._flat, 0)

        def view(tensor: Tensor) -> Tensor:
            start = ends[tensor.dtype]
            ends[tensor.dtype] = start + tensor.numel()
            return self._flat[tensor.dtype][start : ends[tensor.dtype]].view(tensor.shape)

        plan: Plan = _mapped(self._plan, view)
        return plan

    def _moved(self, change: Callable[[Tensor], Tensor]) -> "PackedPlan":
        moved = object.__new__(PackedPlan)
        moved._plan, moved._flat = self._plan, {dtype: change(flat) for dtype, flat in self._flat.items()}
        return moved


@dataclass(frozen=True)
class Planner:
    """Makes the plans of a model's batches.

    Attributes:
        graph: its keyword graph, on the CPU.
        config: of the model.
        limit: edges of a block; see :func:`neighbourhood`.
        views: what batches do not see of the graph that say so by ``view``; None if there are no such batches.
    """

    graph: KeywordGraph
    config: HclConfig
    limit: int
    views: Views | None = None

    def plan(self, batch: Mapping[str, Tensor], training: bool = True) -> PackedPlan:
        """Return the plan of a batch on the CPU.

        In ``training`` keyword vectors are computed on their neighbourhood; else they are read off those of all nodes.

        Raises:
            ValueError: an input keyword is no node, and the batch has no vector for it; or the batch has views, and
                the planner none.
        """
        keywords = self._keywords(batch, training) if self.config.uses_keyword else None
        return PackedPlan(Plan(Targets.of(batch["y_in_mask"]), keywords))

    def impostors(self, ky: Tensor, kneg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nodes that impostors are made of; see :func:`impostor_candidates`."""
        return impostor_candidates(self.graph, ky, kneg, neighbours=self.config.graph.iterations > 0)

    def _keywords(self, batch: Mapping[str, Tensor], training: bool) -> KeywordPlan:
        ky, iterations = batch["ky"], self.config.graph.iterations
        sample, candidates, impostor = self.impostors(ky, batch["kneg"])
        kx, alone = self._seen(batch) if "view" in batch else (batch["kx"], batch.get("unseen_vectors"))
        known = torch.stack([kx >= 0, ky >= 0, impostor])
        all_known = bool(known[0].all()), bool(known[1].all())
        if not all_known[0] and alone is None:
            raise ValueError(f"HclModel: {int((~known[0]).sum())} input keywords are no nodes; give their "
                             f"unseen_vectors (B, d)")
        nodes = torch.cat([kx, ky, candidates])
        real, around = nodes >= 0, None
        rows = torch.where(real, nodes, torch.zeros_like(nodes))
        if training and iterations > 0 and real.any():
            of = F.pad(batch["view"], (0, len(nodes) - len(kx)))[real] if "view" in batch else None
            around, found = neighbourhood(self.graph, nodes[real], iterations, self.limit, self.views, of)
            rows = torch.zeros_like(nodes).index_put((real,), found)
        count = around.rounds[-1].receivers if around is not None else self.graph.num_nodes
        return KeywordPlan(around, Rows.of(rows, count), known.long(), all_known,
                           Rows.of(sample, len(kx), ascending=True), alone)

    def _seen(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the input keywords (B,) in the batch's views, -1 where one is gone, and the vectors of new nodes.

        Without rounds a node is its initial vector, so one that differs in its view is a new node.
        """
        if self.views is None:
            raise ValueError("HclModel: the batch says what it must not see of the graph, the planner has no views")
        kx, view, alone = batch["kx"], batch["view"], batch["unseen_vectors"]
        differences = self.views.among(torch.unique(view), self.graph.num_nodes, self.graph.num_edges)
        rows = differences.row_of(view * self.graph.num_nodes + kx)
        gone = rows == -1
        if self.config.graph.iterations == 0:
            changed = rows >= 0
            alone = alone.clone().index_put((changed,), self.views.vectors[rows[changed]])
            gone = gone | changed
        return torch.where(gone, -1, kx), alone


def _mapped(part: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return ``part``, dataclasses of dataclasses, tuples and tensors, with each of its tensors changed."""
    if isinstance(part, Tensor):
        return change(part)
    if isinstance(part, tuple):
        return tuple(_mapped(item, change) for item in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: _mapped(getattr(part, field.name), change) for field in fields(part)})
    return part


KEYS = ("texts_ids", "texts_mask")  # under which a batch may hold all of its texts joined
_WASTE = 1.25  # texts share one pass if padding them to one length costs at most a quarter


@dataclass(frozen=True)
class Encoded:
    """A kind of text: states (B, L, d) and vectors (B, d)."""

    states: Tensor
    vector: Tensor


def joined_texts(batch: Mapping[str, Tensor], names: Sequence[str], pad: int) -> dict[str, Tensor]:
    """Return ids and mask (B', L) of all texts called ``names``, one kind below the other, as :data:`KEYS`.

    Nothing where there are several kinds and their lengths are not alike.
    """
    ids, masks = ([batch[f"{name}_{part}"] for name in names] for part in ("ids", "mask"))
    longest, rows = max(part.shape[1] for part in ids), sum(map(len, ids))
    if rows * longest > _WASTE * sum(part.numel() for part in ids):
        return {}
    return {key: torch.cat([_widened(part, longest, fill) for part in parts])
            for key, parts, fill in zip(KEYS, (ids, masks), (pad, 0), strict=True)}


def _widened(values: Tensor, length: int, fill: int) -> Tensor:
    return F.pad(values, (0, length - values.shape[1]), value=fill) if values.shape[1] < length else values
