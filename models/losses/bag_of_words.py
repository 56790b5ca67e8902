"""Loss of a predicted bag of words, from which a latent bag of words model takes its memory."""

import torch
from torch import Tensor

from models.losses.reduction import at_least_float32

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
        Fu et al. 2019, sect. 3 and the released code, from which the 1e-6 under the logarithm and the one more word
        are; METHODS C.7.

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
