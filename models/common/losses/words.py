"""Losses of bags of words."""

import torch
from torch import Tensor

from models.common.losses import at_least_float32


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
        Zhao et al. 2017, sect. 3.3.

    Degenerate batches:
        A sample without real tokens has loss 0.

    Example:
        >>> bow_loss(torch.zeros(1, 4), torch.tensor([[1, 3]]), torch.tensor([[True, True]]))
        tensor([2.7726])
    """
    (logits,) = at_least_float32(logits)
    log_probs = torch.log_softmax(logits, dim=-1).gather(-1, targets)  # (B, L)
    return -torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum(-1)


_FLOOR = 1e-6


def bag_of_words(bag: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """How much of a target's words is missing from a bag that says how often each word is expected.

    In words: add up minus the log of the bag's entry at every word of the target, and divide by one more than the
    number of these words.

    Args:
        bag: expected counts, at least 0 and not normalised (B, V).
        words: distinct words of the target (B, K).
        mask: True for real words (B, K).

    Returns:
        Loss per sample (B,), in nats; negative where the bag holds more than one of the words.

    References:
        Fu et al. 2019, sect. 3 and the released code (1e-6 under the logarithm; one more word).

    Degenerate batches:
        A sample without real words has loss 0. A word that the bag lacks altogether costs no more than
        -log(1e-6) = 13.8.

    Example:
        >>> bag_of_words(torch.tensor([[0.0, 1.0, 1.0, 0.0]]), torch.tensor([[3, 0]]), torch.tensor([[True, False]]))
        tensor([6.9078])
    """
    (bag,) = at_least_float32(bag)
    costs = -torch.log(bag.gather(-1, words) + _FLOOR)  # (B, K)
    return costs.masked_fill(~mask, 0.0).sum(-1) / (mask.sum(-1) + 1)
