"""Impostor keywords: plausible but wrong output keywords, made from negative neighbours (HCL sect. 3.2.2)."""

import math

import torch
from torch import Tensor, nn

from models.hcl.keyword_graph import KeywordGraph
from models.hcl.segments import Rows, taken, weighted_mean


def impostor_candidates(
    graph: KeywordGraph, output_nodes: Tensor, negative_nodes: Tensor, neighbours: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the nodes that each sample's impostor is made of.

    These are the negative neighbours of the output keyword; where it has none, the sample's own negative
    keyword, unless that is the output keyword; else the sample has no impostor.

    Args:
        graph: the keyword graph.
        output_nodes: node of the output keyword (B,); -1 for none.
        negative_nodes: node of the negative output's keyword (B,); -1 for none.
        neighbours: False looks at the own negative keyword only (the ablation without graph).

    Returns:
        Sample numbers (M,), sorted; candidate nodes (M,); mask (B,), True where there is an impostor.
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


class Impostor(nn.Module):
    """Combine a sample's candidates into one vector u_imp = sum_i W_i u_i.

    The paper leaves W open. ``attn`` weighs the candidates by their likeness to the output keyword, so that
    confusable ones count more; ``mean`` weighs them alike; ``linear`` maps their mean by a learned matrix.
    With ``attn`` and ``mean`` the result lies in the convex hull of the candidates.
    """

    def __init__(self, width: int, weight: str = "attn") -> None:
        super().__init__()
        if weight not in ("attn", "mean", "linear"):
            raise ValueError(f"Impostor: weight is {weight!r}, expected 'attn', 'mean' or 'linear'")
        self.weight = weight
        self.scale = 1.0 / math.sqrt(width)
        if weight == "attn":
            self.Wa, self.Wb = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        if weight == "linear":
            self.W = nn.Linear(width, width, bias=False)

    def forward(self, u_out: Tensor, candidates: Tensor, samples: Rows) -> Tensor:
        """Return u_imp (B, d); zeros for a sample without candidates.

        Args:
            u_out: vectors of the output keywords (B, d).
            candidates: vectors of the candidates (M, d).
            samples: the sample that each candidate belongs to, among B.
        """
        if self.weight == "attn":
            products = taken(self.Wa(u_out), samples) * self.Wb(candidates)
            scores = products.sum(-1, dtype=u_out.dtype) * self.scale  # (M,), in full precision under autocast
        else:
            scores = candidates.new_zeros(len(candidates))
        combined = weighted_mean(scores, candidates, samples, gaps=True)  # (B, d)
        return self.W(combined) if self.weight == "linear" else combined
