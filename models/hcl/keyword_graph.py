"""The keyword graph as constant tensors."""

import torch
from torch import Tensor, nn


class KeywordGraph(nn.Module):
    """Keyword nodes with constant vectors h0 and signed directed edges, in rows by receiving node.

    Nothing here is learned: all tensors are buffers, so that a saved model carries its graph. Edges are
    held as compressed rows: those into node i are ``offsets[i]`` to ``offsets[i + 1]``. Every node has
    exactly one self loop, of positive sign, so that no softmax over neighbours is empty.

    Use :meth:`from_edges` to fill one; the constructor alone makes the empty frame that loading fills.

    Args:
        num_nodes: nodes n.
        num_edges: edges E, self loops included.
        width: width d of the vectors.
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
        """Build the graph from the columns of ``nodes`` and ``edges``.

        Args:
            vectors: initial vector of each node (n, d), in the order of node ids.
            target, source: node ids of each edge (E',).
            sign: +1 or -1 (E',). Self loops among the edges are dropped; one per node is added.

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

    def edge_numbers(self, nodes: Tensor) -> Tensor:
        """Return the numbers of all edges into ``nodes``, node by node (sorted if the nodes are)."""
        starts = self.offsets[nodes]
        counts = self.offsets[nodes + 1] - starts
        ends = counts.cumsum(0)
        ranks = torch.arange(int(counts.sum()), device=nodes.device)
        return torch.repeat_interleave(starts - (ends - counts), counts) + ranks

    def negative_neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative neighbours of a batch of nodes.

        Args:
            nodes: node ids (B,); -1 for none.

        Returns:
            Sample numbers (M,), sorted, and the neighbours' node ids (M,).
        """
        known = torch.nonzero(nodes >= 0).squeeze(-1)
        starts = self.offsets[nodes[known]]
        counts = self.offsets[nodes[known] + 1] - starts
        sample = torch.repeat_interleave(known, counts)
        numbers = self.edge_numbers(nodes[known])
        negative = self.sign[numbers] < 0
        return sample[negative], self.source[numbers][negative]


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
