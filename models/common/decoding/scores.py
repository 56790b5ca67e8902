"""Scores over a vocabulary, and the best continuations by them."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@torch.no_grad()
def project_in_full(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return states (..., d) times weight (V, d) plus bias (V,) in the precision of the weights, under autocast too."""
    with torch.autocast(states.device.type, enabled=False):  # eight bits would make ties of most candidates
        return F.linear(states.to(weight.dtype), weight, bias)


@dataclass(frozen=True)
class Candidates:
    """The best continuations of each item, best first.

    Attributes:
        scores: sums of log probabilities (B, n); minus infinity where there are fewer than n.
        parents: hypothesis that each one continues (B, n).
        tokens: its last token (B, n).
    """

    scores: Tensor
    parents: Tensor
    tokens: Tensor

    def take(self, places: Tensor) -> "Candidates":
        """Return those at ``places`` (B, m) of each item."""
        return Candidates(*(part.gather(1, places) for part in (self.scores, self.parents, self.tokens)))


def full_precision(logits: Tensor) -> Tensor:
    """Return logits in float32 at least: sums of log probabilities do not bear fewer bits."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def best_continuations(logits: Tensor, scores: Tensor, forbidden: Tensor, count: int) -> Candidates:
    """Return the ``count`` best of all continuations of the W hypotheses of each item.

    Args:
        logits: (B, W, V).
        scores: sums of log probabilities so far (B, W).
        forbidden: tokens not to be chosen; they keep their share of the probability.
        count: continuations wanted.
    """
    # fused, this is faster than torch's logsumexp, which writes down two tables of this size
    chances = F.log_softmax(logits, dim=-1).index_fill_(-1, forbidden, -torch.inf)
    # of each hypothesis (B, W, m): no others can be among the best
    values, tokens = chances.topk(min(count, chances.shape[-1]), dim=-1)
    each = values.shape[-1]
    totals = (values + scores.unsqueeze(-1)).flatten(1)  # (B, W m)
    best, places = totals.topk(min(count, totals.shape[1]), dim=-1)
    lacking = count - best.shape[1]  # a vocabulary smaller than the beam
    return Candidates(
        F.pad(best, (0, lacking), value=-torch.inf),
        F.pad(places // each, (0, lacking)),
        F.pad(tokens.flatten(1).gather(1, places), (0, lacking)),
    )
