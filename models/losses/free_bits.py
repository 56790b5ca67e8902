"""KL with free bits, against posterior collapse."""

from torch import Tensor

from models.losses.reduction import at_least_float32


def free_bits_kl(kl_dims: Tensor, nats: float) -> Tensor:
    """KL of a batch in which every dimension may carry its share of ``nats`` at no cost.

    In words: average each dimension's KL over the batch, raise it to the free share ``nats / dz`` where it
    is below, and add up the dimensions.

    Args:
        kl_dims: KL per sample and dimension (B, dz).
        nats: free nats in all, shared evenly by the dimensions; 0 gives the plain mean KL.

    Returns:
        A scalar, at least ``nats``. Below its share a dimension has zero gradient.

    References:
        Kingma et al. 2016, sect. C.8; METHODS A.5.

    Degenerate batches:
        The mean is over the samples given: with micro-batches, the share is granted to each of them.

    Example:
        >>> import torch
        >>> free_bits_kl(torch.tensor([[0.0, 4.0]]), nats=2.0)
        tensor(5.)
    """
    (kl_dims,) = at_least_float32(kl_dims)
    return kl_dims.mean(0).clamp(min=nats / kl_dims.shape[-1]).sum()
