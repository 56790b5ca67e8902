"""Scores over a vocabulary, and the best continuations by them."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

# torch's own compiler calls this kernel for linear layers on CPUs. Its name is private, so it may be missing.
_ONEDNN_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None

_FEW = range(2, 7)  # states, such as the beams of one text, for which the words are better taken as rows


@torch.no_grad()
def project(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return states (..., d) times weight (V, d) plus bias (V,) -> (..., V); not differentiable.

    It is ``F.linear``, which on a CPU calls MKL where torch is built with it. On an AMD EPYC the product of 128
    states with 30,522 words takes MKL 2.5 times as long as oneDNN, which torch ships as well
    (measured with 30,522 words). So float32 on a CPU goes to oneDNN; sums differ in rounding only.
    """
    parts = (states, weight, bias)
    if _ONEDNN_LINEAR is None or any(part.device.type != "cpu" or part.dtype != torch.float32 for part in parts):
        return F.linear(states, weight, bias)
    if states.shape[:-1].numel() in _FEW:
        return torch.addmm(bias.unsqueeze(-1), weight, states.flatten(0, -2).t()).t().unflatten(0, states.shape[:-1])
    return _ONEDNN_LINEAR(states, weight, bias, "none", [], "")


@torch.no_grad()
def project_in_full(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return :func:`project` in the precision of the weights, under autocast too."""
    with torch.autocast(states.device.type, enabled=False):  # eight bits would make ties of most candidates
        return project(states.to(weight.dtype), weight, bias)


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
