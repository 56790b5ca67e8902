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


# Precision and reduction


def at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors with half precision raised to float32; every loss starts with this, under autocast too."""
    return tuple(tensor.float() if tensor.dtype in _HALF else tensor for tensor in tensors)


def products(device: str | torch.device, precision: str) -> torch.autocast:
    """Return the context in which matrix products on ``device`` are computed in ``precision``.

    That is ``fp32``, which leaves every operation as it is, or ``bf16`` (autocast). Weights, gradients and optimisers
    are fp32 whatever the products are.
    """
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16")


def masked_mean(values: Tensor, mask: Tensor, count: Tensor | float | None = None) -> Tensor:
    """Return the mean of the values (B,) under ``mask``; 0 with zero gradient where there is none.

    A masked value contributes nothing, not even when it is infinite or NaN. ``count`` is what to divide by instead of
    the number of values: that of the whole batch, of which ``values`` is one micro-batch, so that the means of the
    micro-batches add up to that of the batch.

    >>> masked_mean(torch.tensor([1.0, 3.0, 50.0]), torch.tensor([True, True, False]))
    tensor(2.)
    """
    (values,) = at_least_float32(values)
    total = values.masked_fill(~mask, 0.0).sum()
    if count is None or isinstance(count, Tensor):
        return total / (mask.sum() if count is None else count).to(values.dtype).clamp(min=1.0)
    return total / max(1.0, count)  # a number of the host's: no copy to a GPU


# Gaussians and bags of words


def gaussian_kl(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """Return KL(q || p) of diagonal Gaussians (B, dz) in nats, summed over dimensions (B,).

    HCL section 3.2.1; Zhao et al. 2017, eq. 3. The caller bounds log variances.

    >>> one, zero = torch.ones(1, 1), torch.zeros(1, 1)
    >>> gaussian_kl(zero, zero, one, zero)
    tensor([0.5000])
    """
    return gaussian_kl_dims(mu_q, logvar_q, mu_p, logvar_p).sum(-1)


def gaussian_kl_dims(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """Return KL(q || p) of each dimension (B, dz), from which free bits are counted; see :func:`gaussian_kl`."""
    mu_q, logvar_q, mu_p, logvar_p = at_least_float32(mu_q, logvar_q, mu_p, logvar_p)
    # exp of a difference, so that two equal variances cancel exactly
    spread = torch.exp(logvar_q - logvar_p) + (mu_q - mu_p).square() * torch.exp(-logvar_p)
    return 0.5 * (logvar_p - logvar_q + spread - 1.0)


def bow_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Return the negative log-likelihood of the target's words, all predicted at once and without order (B,).

    The sum over real tokens, where ``mask`` (B, L) is True, in nats, from one distribution per sample, scores (B, V)
    (Zhao et al. 2017, section 3.3).
    """
    (logits,) = at_least_float32(logits)
    log_probs = torch.log_softmax(logits, dim=-1).gather(-1, targets)  # (B, L)
    return -torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum(-1)


def bag_of_words(bag: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """Return how much of a target's words a bag of expected counts lacks (B,), in nats.

    The sum of -log(entry + 1e-6) over the words, divided by one more than their number, as in the released code of
    Fu et al. 2019 (section 3). It is negative where the bag (B, V), at least 0 and not normalised, holds more than one
    of the words (B, K), which are distinct; ``mask`` (B, K) is True for real ones.
    """
    (bag,) = at_least_float32(bag)
    costs = -torch.log(bag.gather(-1, words) + _FLOOR)  # (B, K)
    return costs.masked_fill(~mask, 0.0).sum(-1) / (mask.sum(-1) + 1)


# Contrasts between the items of a batch


def pair_contrast(anchor: Tensor, positive: Tensor, temperature: float, similarity: Similarity,
                  groups: Tensor | None = None, others: Tensor | None = None) -> Tensor:
    """Return the InfoNCE loss of each anchor (B, d) with its own positive (B, d), (B,).

    Minus the log of the share that its positive has in the sum of exp(similarity / t) over the positive and the
    negatives. Negatives of item i are the positives, and the ``others`` (B, d), of items j that are not of its group;
    its own among the ``others`` is never one. ``groups`` (B,) are equal for items that mean the same, such as captions
    of one image. An item without negatives has loss 0 and no gradient. ``dot`` saturates for long vectors.
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
