"""What graph attention needs of the graph's structure for a batch of nodes: whole numbers, known before any weight.

Nodes are numbered so that those needed after a round come first among those needed before it, and edges by the number
of their receiver: what a later round needs is then the beginning of what the round before it had.

A node that a training item sees otherwise than the whole graph has it stands beside the graph's own, as a copy, with
edges of its own. Nodes are therefore known by keys, ``view * n + node``; view 0 is the whole graph.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.hcl.keyword_graph import KeywordGraph
from models.hcl.segments import Rows
from models.hcl.views import Differences, Views, looked_up


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
        found = sight.into(parts[-1])
        into.append(replace(found, senders=sight.shared(found.senders, differing[step - 1])))
        senders = torch.unique(into[-1].senders)
        parts.append(senders[~torch.isin(senders, torch.cat(parts))])
    nodes, levels = torch.cat(parts), torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
    ascending, order = torch.sort(nodes)
    counts, senders = (torch.cat([getattr(part, name) for part in into]) for name in ("counts", "senders"))
    receivers = torch.repeat_interleave(torch.arange(len(counts), device=nodes.device), counts)
    senders = order[torch.searchsorted(ascending, senders)]
    ends = counts.cumsum(0).tolist()  # edges into the receivers up to each
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
    found = sight.into(of * graph.num_nodes + nodes)
    places, senders = torch.repeat_interleave(torch.arange(len(nodes)), found.counts), found.senders % graph.num_nodes
    other = senders != nodes[places]
    return senders[other], places[other]


@dataclass(frozen=True)
class _Into:
    """Edges into nodes, node by node: how many each has (n,), and the keys of their senders (E,)."""

    counts: Tensor
    senders: Tensor


@dataclass(frozen=True)
class _Sight:
    """The graph as the views of a batch have it."""

    graph: KeywordGraph
    differences: Differences | None = None

    def into(self, keys: Tensor) -> _Into:
        """Return the edges into the nodes ``keys``, whose senders are of the same view."""
        graph = self.graph
        nodes = keys if self.differences is None else keys % graph.num_nodes
        numbers, counts = graph.edge_numbers(nodes), graph.offsets[nodes + 1] - graph.offsets[nodes]
        senders = graph.source[numbers]
        if self.differences is None:
            return _Into(counts, senders)
        receivers = torch.repeat_interleave(torch.arange(len(keys)), counts)
        view = (keys // graph.num_nodes)[receivers]
        there = self.differences.sign_of(view * graph.num_edges + numbers, graph.sign[numbers]) != 0
        return _Into(torch.bincount(receivers[there], minlength=len(keys)), (view * graph.num_nodes + senders)[there])

    def differing(self, keys: Tensor, hops: int) -> list[Tensor]:
        """Return, for 0 to ``hops`` rounds, which nodes have another vector after them than in the whole graph.

        Of those alone that ``keys`` need; ascending.
        """
        if self.differences is None:
            return [keys[:0]] * (hops + 1)
        within = [torch.unique(keys[keys >= self.graph.num_nodes])]
        edges = [self.into(within[0])]
        for _ in range(hops - 1):
            within.append(torch.unique(edges[-1].senders))  # self loops keep the nodes
            edges.append(self.into(within[-1]))
        found = [self.differences.nodes]
        for nodes, near in zip(within[::-1], edges[::-1], strict=True):
            _, differs = looked_up(found[-1], near.senders)
            receivers = torch.repeat_interleave(torch.arange(len(nodes)), near.counts)
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

    A block has at most ``limit`` edges or one receiver.

    Args:
        ends: edges into the receivers up to each.
        limit: see above.
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
