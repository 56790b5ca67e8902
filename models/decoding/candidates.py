"""From logits to the best continuations."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

_BLOCK = 64


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
    values, tokens = largest(chances, count)  # of each hypothesis (B, W, m): no others can be among the best
    each = values.shape[-1]
    totals = (values + scores.unsqueeze(-1)).flatten(1)  # (B, W m)
    best, places = totals.topk(min(count, totals.shape[1]), dim=-1)
    lacking = count - best.shape[1]  # a vocabulary smaller than the beam
    return Candidates(
        F.pad(best, (0, lacking), value=-torch.inf),
        F.pad(places // each, (0, lacking)),
        F.pad(tokens.flatten(1).gather(1, places), (0, lacking)),
    )


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of values (..., V), largest first, and their places; all of them if V is less.

    In two rounds, for speed: they lie in the ``count`` blocks with the largest maxima, since anything outside is
    exceeded or equalled by those ``count`` maxima.
    """
    length = values.shape[-1]
    blocks = length // _BLOCK
    if blocks <= 2 * count:
        return values.topk(min(count, length), dim=-1)
    body, rest = values[..., : blocks * _BLOCK].unflatten(-1, (blocks, _BLOCK)), values[..., blocks * _BLOCK :]
    chosen = body.amax(-1).topk(count, dim=-1).indices  # (..., count)
    some = body.gather(-2, chosen.unsqueeze(-1).expand(*chosen.shape, _BLOCK)).flatten(-2)
    found, places = torch.cat([some, rest], dim=-1).topk(count, dim=-1)
    block = chosen.gather(-1, (places // _BLOCK).clamp(max=count - 1))
    in_rest = places - count * _BLOCK  # from 0 on in the part behind the last whole block
    return found, torch.where(in_rest < 0, block * _BLOCK + places % _BLOCK, in_rest + blocks * _BLOCK)
