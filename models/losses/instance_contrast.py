"""Contrast between instances: the true output should be nearer to the prior than a wrong one."""

from torch import Tensor
from torch.nn.functional import softplus

from models.losses.reduction import at_least_float32


def instance_contrast(d_pos: Tensor, d_neg: Tensor, temperature: float) -> Tensor:
    """Instance-level contrastive loss on two distances.

    In words: minus the log of one minus the softmax weight of the positive's distance. Distances, not
    similarities, enter the softmax, so a large weight of the positive is bad. With one negative this is
    ``softplus((d_pos - d_neg) / temperature)``.

    Args:
        d_pos: distance of the posterior given the true output to the prior (B,).
        d_neg: distance of the posterior given the negative output to the prior (B,).
        temperature: t > 0; the smaller, the sooner the loss saturates.

    Returns:
        Loss per sample (B,); log 2 where both distances are equal.

    References:
        HCL (ACL 2022) sect. 3.2.1; METHODS A.6.

    Degenerate batches:
        Samples without a negative have no meaning here: mask them out with :func:`masked_mean`.

    Example:
        >>> import torch
        >>> instance_contrast(torch.tensor([2.0]), torch.tensor([1.0]), temperature=1.0)
        tensor([1.3133])
    """
    d_pos, d_neg = at_least_float32(d_pos, d_neg)
    return softplus((d_pos - d_neg) / temperature)
