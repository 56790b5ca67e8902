"""Impostor keywords: plausible but wrong output keywords, made from negative neighbours (HCL section 3.2.2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.losses import at_least_float32
from models.hcl.keyword_graph import KeywordGraph
from models.hcl.segments import Rows, largest, taken, weighted_mean


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


IMPOSTOR_WEIGHTS = ("cosine", "linear")

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
        if weight not in IMPOSTOR_WEIGHTS:
            raise ValueError(f"Impostor: weight is {weight!r}, expected one of {', '.join(IMPOSTOR_WEIGHTS)}")
        self.weight = weight
        if weight == "linear":
            self.W = nn.Linear(width, width, bias=False)

    def forward(self, u_out: Tensor, candidates: Tensor, samples: Rows) -> Tensor:
        """Return u_imp (B, d); zeros for a sample without candidates.

        Args:
            u_out: vectors of the output keywords (B, d).
            candidates: vectors of the candidates (M, d).
            samples: the sample that each candidate belongs to, among B.
        """
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
    """Return the cosines to u_out of impostor, hardest and easiest candidate (3, B); 0 for a sample without.

    Args:
        u_out, u_imp: vectors of output and impostor keyword (B, d).
        candidates: of the impostors (M, d).
        samples: the sample that each candidate belongs to, among B.
    """
    of_impostor, of_candidates = F.cosine_similarity(u_out, u_imp, dim=-1), cosines(u_out, candidates, samples)
    hardest, easiest = largest(of_candidates, samples), -largest(-of_candidates, samples)
    return torch.stack([of_impostor, hardest, easiest]).masked_fill(torch.isinf(hardest), 0.0)
