"""What of the keyword graph is out of sight of some training items, so that no prior reads what they contributed.

Items that share what they must not see share a view. A view is kept as its differences from the whole graph: edges
that are gone or whose sign turns, nodes whose h^0 lacks some texts, and nodes that are gone altogether.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Views:
    """The differences of G views from the whole graph, on the CPU; those of a view stand together, ascending.

    View 0 is the whole graph and has no difference.

    Attributes:
        edge_offsets: where the edges of each view begin and end (G + 2,).
        edges: numbers of edges (C,) as :class:`models.hcl.keyword_graph.KeywordGraph` counts them.
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
        edges, of_edge = _runs(self.edge_offsets, views)
        nodes, of_node = _runs(self.node_offsets, views)
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


def _runs(offsets: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places of all that belongs to ``chosen``, run by run, and to which of them each belongs."""
    starts = offsets[chosen]
    counts = offsets[chosen + 1] - starts
    ends = counts.cumsum(0)
    places = torch.repeat_interleave(starts - (ends - counts), counts) + torch.arange(int(counts.sum()))
    return places, torch.repeat_interleave(chosen, counts)
