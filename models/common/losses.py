"""Losses as pure functions of tensors: per-sample values unless stated, in float32 at least."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Similarity = Literal["cosine", "dot"]
_HALF = (torch.float16, torch.bfloat16)
_FLOOR = 1e-6       # under the logarithm of a bag's entry


def at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors, those of half precision as float32; every loss starts with this, under autocast too."""
    return tuple(tensor.float() if tensor.dtype in _HALF else tensor for tensor in tensors)


def products(device: str | torch.device, precision: str) -> torch.autocast:
    """Return the context in which matrix products have a ``precision``: fp32, or bf16 by autocast."""
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16")


def masked_mean(values: Tensor, mask: Tensor, count: float | None = None) -> Tensor:
    """Return the mean of the values (B,) under ``mask``; 0 with zero gradient without any.

    For the values of a micro-batch, ``count`` is the number of values of the whole batch.
    """
    (values,) = at_least_float32(values)
    total = values.masked_fill(~mask, 0.0).sum()
    if count is None:
        return total / mask.sum().to(values.dtype).clamp(min=1.0)
    return total / max(1.0, count)


def gaussian_kl(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """Return KL(q || p) of diagonal Gaussians (B, dz) in nats, summed over dimensions (B,) (Zhao et al. 2017, 3)."""
    return gaussian_kl_dims(mu_q, logvar_q, mu_p, logvar_p).sum(-1)


def gaussian_kl_dims(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """Return KL(q || p) of each dimension (B, dz)."""
    mu_q, logvar_q, mu_p, logvar_p = at_least_float32(mu_q, logvar_q, mu_p, logvar_p)
    # exp of a difference, so that two equal variances cancel exactly
    spread = torch.exp(logvar_q - logvar_p) + (mu_q - mu_p).square() * torch.exp(-logvar_p)
    return 0.5 * (logvar_p - logvar_q + spread - 1.0)


def bow_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Return the sum (B,) of -log p of targets (B, L) under ``mask``, all from one distribution by logits (B, V)."""
    (logits,) = at_least_float32(logits)
    log_probs = torch.log_softmax(logits, dim=-1).gather(-1, targets)  # (B, L)
    return -torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum(-1)


def bag_of_words(bag: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """Return the loss (B,) of a target's distinct words (B, K) under a bag of expected counts (B, V) >= 0.

    As in the released code of Fu et al. 2019: the sum of -log(entry + 1e-6), divided by one more than their number.
    """
    (bag,) = at_least_float32(bag)
    costs = -torch.log(bag.gather(-1, words) + _FLOOR)  # (B, K)
    return costs.masked_fill(~mask, 0.0).sum(-1) / (mask.sum(-1) + 1)


def pair_contrast(anchor: Tensor, positive: Tensor, temperature: float, similarity: Similarity,
                  groups: Tensor | None = None, others: Tensor | None = None) -> Tensor:
    """Return the InfoNCE loss (B,) of each anchor (B, d) with its own positive (B, d); 0 without negatives.

    Negatives of an item are the positives, and the ``others`` (B, d), of items of other groups; ``groups`` (B,) are
    equal for items that mean the same. ``dot`` saturates for long vectors. Similarities are computed outside autocast,
    because their exponentials overflow half precision.
    """
    parts = [anchor, positive] if others is None else [anchor, positive, others]
    vectors = torch.cat(at_least_float32(*parts))
    if similarity == "cosine":
        vectors = F.normalize(vectors, dim=-1)
    anchor, candidates = vectors.split([len(anchor), len(vectors) - len(anchor)])  # (B, d), (C, d)
    with torch.autocast(anchor.device.type, enabled=False):
        scores = anchor @ candidates.t() / temperature  # (B, C)
    own = torch.arange(len(anchor), device=anchor.device)
    names = own if groups is None else groups
    same = names.unsqueeze(1) == names  # (B, B)
    hidden = same.clone().fill_diagonal_(False)
    if others is not None:
        hidden = torch.cat([hidden, same], dim=-1)  # (B, C)
    return F.cross_entropy(scores.masked_fill(hidden, -torch.inf), own, reduction="none")  # PGKPR eq. 3
