"""Contrast between levels: the output keyword should be nearer to the true instance than the impostor."""

from torch import Tensor
from torch.nn.functional import softplus

from models.losses.reduction import at_least_float32


def mahalanobis_contrast(d_out: Tensor, d_imp: Tensor, temperature: float) -> Tensor:
    """Instance-keyword contrastive loss on two Mahalanobis distances.

    In words: minus the log of one minus the softmax weight of the output keyword's distance, which for two
    candidates is ``softplus((d_out - d_imp) / temperature)``.

    Args:
        d_out: distance of the output keyword to the posterior of the true pair (B,).
        d_imp: distance of the impostor keyword to the same posterior (B,).
        temperature: t > 0.

    Returns:
        Loss per sample (B,); log 2 where both distances are equal.

    References:
        HCL (ACL 2022) sect. 3.2.3; METHODS A.6.

    Degenerate batches:
        Samples without an impostor are masked out by the caller with :func:`masked_mean`. The loss can also
        fall by a shrinking variance, which scales both distances: watch the mean spread.

    Example:
        >>> import torch
        >>> mahalanobis_contrast(torch.tensor([1.0]), torch.tensor([2.0]), temperature=0.5)
        tensor([0.1269])
    """
    d_out, d_imp = at_least_float32(d_out, d_imp)
    return softplus((d_out - d_imp) / temperature)
