"""Bag-of-words auxiliary loss, against posterior collapse."""

import torch
from torch import Tensor

from models.losses.reduction import at_least_float32


def bow_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Negative log-likelihood of the target's words, all predicted at once and without order.

    In words: one distribution over the vocabulary per sample; add up minus its log at every target token.

    Args:
        logits: scores over the vocabulary (B, V).
        targets: target tokens (B, L).
        mask: True for real tokens (B, L).

    Returns:
        Sum over the tokens of each sample, in nats (B,). Invariant to the order of the tokens.

    References:
        Zhao et al. 2017, sect. 3.3; METHODS A.5.

    Degenerate batches:
        A sample without real tokens has loss 0.

    Example:
        >>> bow_loss(torch.zeros(1, 4), torch.tensor([[1, 3]]), torch.tensor([[True, True]]))
        tensor([2.7726])
    """
    (logits,) = at_least_float32(logits)
    log_probs = torch.log_softmax(logits, dim=-1).gather(-1, targets)  # (B, L)
    return -torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum(-1)
