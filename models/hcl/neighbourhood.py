"""What graph attention needs of the graph's structure for a batch of nodes: whole numbers, known before any weight.

Nodes are numbered so that those needed after a round come first among those needed before it, and edges by the number
of their receiver: what a later round needs is then the beginning of what the round before it had.
"""

from bisect import bisect_right
from dataclasses import dataclass

import torch
from torch import Tensor

from models.hcl.keyword_graph import KeywordGraph
from models.hcl.segments import Rows


@dataclass(frozen=True)
class Signs:
    """Edges by their sign: ``apart`` takes the positive ones first, ``together`` brings them back.

    Attributes:
        positive: how many are.
    """

    apart: Rows
    together: Rows
    positive: int


@dataclass(frozen=True)
class Block:
    """Edges (E,) of a run of receivers.

    Attributes:
        first, last: the receivers, among those of the round.
        start, stop: the edges, among those of the round.
        senders: the node that each edge comes from, among all nodes of the round.
        receivers: the one it goes to, among the block's.
        signs: None where one network serves both signs.
    """

    first: int
    last: int
    start: int
    stop: int
    senders: Rows
    receivers: Rows
    signs: Signs | None


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
    """

    nodes: Tensor
    rounds: tuple[Round, ...]


def neighbourhood(graph: KeywordGraph, seeds: Tensor, hops: int, limit: int, signed: bool
                  ) -> tuple[Neighbourhood, Tensor]:
    """Return the neighbourhood of ``seeds`` (S,), and the row of each of them among its nodes (S,).

    Nothing here depends on the size of the graph.

    Args:
        graph: on any device; reading sizes waits for a GPU, so a loader has a copy on the CPU.
        seeds: ids of nodes, in any order, repeated or not.
        hops: T, at least 1.
        limit: edges of a block; a receiver is never cut, however many edges it has.
        signed: whether edges are told apart by their sign.
    """
    levels = graph.levels(seeds, hops)[::-1]  # the seeds first
    nodes = torch.cat([levels[0], *(level[~torch.isin(level, inner)] for inner, level in zip(levels, levels[1:],
                                                                                             strict=False))])
    ascending, order = torch.sort(nodes)
    inner = nodes[: len(levels[-2])]  # all but those of the last hop receive
    numbers, counts = graph.edge_numbers(inner), graph.offsets[inner + 1] - graph.offsets[inner]
    into = torch.repeat_interleave(torch.arange(len(inner), device=nodes.device), counts)
    senders = order[torch.searchsorted(ascending, graph.source[numbers])]
    ends = counts.cumsum(0).tolist()  # edges into the receivers up to each
    sign = graph.sign[numbers] if signed else None
    rounds = tuple(_round(senders, into, sign, ends[: len(level)], len(outer), limit)
                   for level, outer in zip(levels[-2::-1], levels[:0:-1], strict=True))
    return Neighbourhood(nodes, rounds), order[torch.searchsorted(ascending, seeds)]


def block_of(senders: Tensor, into: Tensor, sign: Tensor | None, sending: int, receiving: int) -> Block:
    """Return the block of edges (E,) from ``sending`` nodes to ``receiving`` ones, sorted by receiver."""
    return Block(0, receiving, 0, len(into), Rows.of(senders, sending), Rows.of(into, receiving, ascending=True),
                 None if sign is None else _signs(sign))


def alone(count: int, iterations: int, signed: bool, device: torch.device) -> tuple[Round, ...]:
    """Return the rounds of ``count`` nodes each of which has its own loop, and no other edge."""
    numbers = torch.arange(count + 1, device=device)
    rows, signs = Rows(numbers[:-1], numbers), Signs(Rows(numbers[:-1], numbers), Rows(numbers[:-1], numbers), count)
    block = Block(0, count, 0, count, rows, rows, signs if signed else None)
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


def _round(senders: Tensor, into: Tensor, sign: Tensor | None, ends: list[int], sending: int, limit: int) -> Round:
    blocks = []
    for first, last, start, stop in cut(ends, limit):
        part = slice(start, stop)
        block = block_of(senders[part], into[part] - first, None if sign is None else sign[part], sending,
                         last - first)
        blocks.append(Block(first, last, start, stop, block.senders, block.receivers, block.signs))
    return Round(len(ends), ends[-1], tuple(blocks))


def _signs(sign: Tensor) -> Signs:
    apart = torch.argsort((sign < 0).to(torch.int8), stable=True)
    together, numbers = torch.argsort(apart), torch.arange(len(apart) + 1, device=sign.device)
    return Signs(Rows(apart, numbers, together), Rows(together, numbers, apart), int((sign > 0).sum()))
