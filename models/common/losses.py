"""Losses as pure functions of tensors: per-sample values unless stated, in float32 at least.

Several functions count the *positives* of a vector: the other vectors of its class. Similarities are computed outside
autocast, since exponentials of distances overflow half precision.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Similarity = Literal["cosine", "dot"]
_HALF = (torch.float16, torch.bfloat16)
_FLOOR = 1e-6       # under the logarithm of a bag's entry


def at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors with half precision raised to float32; every loss starts with this, under autocast too."""
    return tuple(tensor.float() if tensor.dtype in _HALF else tensor for tensor in tensors)


def products(device: str | torch.device, precision: str) -> torch.autocast:
    """Return the context in which matrix products are in ``precision``: fp32, or bf16 by autocast; all else is fp32."""
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16")


def masked_mean(values: Tensor, mask: Tensor, count: Tensor | float | None = None) -> Tensor:
    """Return the mean of the values (B,) under ``mask``; 0 with zero gradient where there is none, or ``count`` is 0.

    ``count``, of a whole batch of which ``values`` is one micro-batch, replaces the number under the mask.
    """
    (values,) = at_least_float32(values)
    total = values.masked_fill(~mask, 0.0).sum()
    if count is None or isinstance(count, Tensor):
        return total / (mask.sum() if count is None else count).to(values.dtype).clamp(min=1.0)
    return total / max(1.0, count)  # a number of the host's: no copy to a GPU


def gaussian_kl(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """Return KL(q || p) of diagonal Gaussians (B, dz) in nats, summed over dimensions (B,) (Zhao et al. 2017, 3)."""
    return gaussian_kl_dims(mu_q, logvar_q, mu_p, logvar_p).sum(-1)


def gaussian_kl_dims(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """Return KL(q || p) of each dimension (B, dz); the caller bounds log variances."""
    mu_q, logvar_q, mu_p, logvar_p = at_least_float32(mu_q, logvar_q, mu_p, logvar_p)
    # exp of a difference, so that two equal variances cancel exactly
    spread = torch.exp(logvar_q - logvar_p) + (mu_q - mu_p).square() * torch.exp(-logvar_p)
    return 0.5 * (logvar_p - logvar_q + spread - 1.0)


def bow_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Return -log p of targets (B, L) under ``mask``, all of one distribution, scores (B, V), and summed (B,)."""
    (logits,) = at_least_float32(logits)
    log_probs = torch.log_softmax(logits, dim=-1).gather(-1, targets)  # (B, L)
    return -torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum(-1)


def bag_of_words(bag: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """Return how much of a target's distinct words (B, K) a bag of expected counts (B, V) >= 0 lacks (B,), in nats.

    As in the released code of Fu et al. 2019: the sum of -log(entry + 1e-6), divided by one more than their number.
    """
    (bag,) = at_least_float32(bag)
    costs = -torch.log(bag.gather(-1, words) + _FLOOR)  # (B, K)
    return costs.masked_fill(~mask, 0.0).sum(-1) / (mask.sum(-1) + 1)


def pair_contrast(anchor: Tensor, positive: Tensor, temperature: float, similarity: Similarity,
                  groups: Tensor | None = None, others: Tensor | None = None) -> Tensor:
    """Return the InfoNCE loss of each anchor (B, d) with its own positive (B, d), (B,); 0 for one without negatives.

    Negatives of item i are the positives, and the ``others`` (B, d), of items j that are not of its group; ``groups``
    (B,) are equal for items that mean the same. ``dot`` saturates for long vectors.
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
    same = names.unsqueeze(1) == names  # (B, B), the diagonal among them
    hidden = same.clone().fill_diagonal_(False)
    if others is not None:
        hidden = torch.cat([hidden, same], dim=-1)  # (B, C)
    return F.cross_entropy(scores.masked_fill(hidden, -torch.inf), own, reduction="none")  # PGKPR eq. 3
