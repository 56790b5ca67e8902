"""Which vectors of a batch belong together by their labels, and how much of a softmax falls on them."""

import torch
from torch import Tensor


def positive_pairs(labels: Tensor) -> Tensor:
    """Return t (K, K), True where i and j are two vectors of one class.

    Args:
        labels: class of each vector (K,).

    References:
        CLLD eq. 6; METHODS D.2.

    Example:
        >>> positive_pairs(torch.tensor([0, 1, 0]))
        tensor([[False, False,  True],
                [False, False, False],
                [ True, False, False]])
    """
    return (labels.unsqueeze(1) == labels).fill_diagonal_(False)


def log_share_of_positives(scores: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of log q over the positives of each vector, q being the softmax of its scores to all others.

    In words: a vector is compared with every other, never with itself; of the logs of the shares that the softmax
    gives to its positives, the mean.

    Args:
        scores: of each pair (K, K), K >= 2, in float32 or wider; what stands on the diagonal is not read.
        positives: from :func:`positive_pairs` (K, K).

    Returns:
        The means (K,), and the number of positives |P(i)| of each vector (K,).

    Degenerate batches:
        A vector without a positive has mean 0, without gradient, and number 0; the caller leaves it out.
    """
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    # The mask comes after every product with the scores: a factor of 0 or below would bring self-pairs back.
    log_q = scores.masked_fill(own, -torch.inf).log_softmax(-1)  # (K, K), -inf on the diagonal
    counts = positives.sum(-1)
    # not a product: 0 * -inf is NaN, and so is its gradient
    sums = log_q.masked_fill(~positives, 0.0).sum(-1)
    return sums / counts.clamp(min=1), counts
