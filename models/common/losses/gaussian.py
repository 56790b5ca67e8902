"""Distances of diagonal Gaussians: Kullback-Leibler divergence, with and without free bits, and Mahalanobis."""

import torch
from torch import Tensor

from models.common.losses.reduction import at_least_float32


def gaussian_kl(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """KL(q || p) of diagonal Gaussians, summed over dimensions.

    In words: for each dimension half of the difference of log variances, plus the variance of q and the
    squared distance of the means in units of the variance of p, minus one; then the sum.

    Args:
        mu_q, logvar_q: mean and log variance of q (B, dz).
        mu_p, logvar_p: mean and log variance of p (B, dz).

    Returns:
        Divergence in nats per sample (B,), at least 0.

    References:
        HCL (ACL 2022) sect. 3.2.1; Zhao et al. 2017, eq. 3.

    Degenerate batches:
        An empty batch gives an empty tensor. Log variances should be bounded by the caller.

    Example:
        >>> one, zero = torch.ones(1, 1), torch.zeros(1, 1)
        >>> gaussian_kl(zero, zero, one, zero)
        tensor([0.5000])
    """
    return gaussian_kl_dims(mu_q, logvar_q, mu_p, logvar_p).sum(-1)


def gaussian_kl_dims(mu_q: Tensor, logvar_q: Tensor, mu_p: Tensor, logvar_p: Tensor) -> Tensor:
    """KL(q || p) of each dimension (B, dz), from which free bits are counted; see :func:`gaussian_kl`."""
    mu_q, logvar_q, mu_p, logvar_p = at_least_float32(mu_q, logvar_q, mu_p, logvar_p)
    # exp of a difference, so that two equal variances cancel exactly
    spread = torch.exp(logvar_q - logvar_p) + (mu_q - mu_p).square() * torch.exp(-logvar_p)
    return 0.5 * (logvar_p - logvar_q + spread - 1.0)


def free_bits_kl(kl_dims: Tensor, nats: float, by: str = "dimension") -> Tensor:
    """KL of a batch that may carry ``nats`` at no cost: each dimension its share of them, or all dimensions together.

    In words: average each dimension's KL over the batch. By ``dimension``, raise it to the free share ``nats / dz``
    where it is below, and add up the dimensions; in ``total``, add up and raise the sum to ``nats``.

    Args:
        kl_dims: KL per sample and dimension (B, dz).
        nats: free nats in all; 0 gives the plain mean KL.
        by: ``dimension`` or ``total``.

    Returns:
        A scalar, at least ``nats``. Below its share a dimension has zero gradient; in ``total`` all dimensions have
        theirs as soon as the sum is above, and none before.

    References:
        Kingma et al. 2016, sect. C.8.

    Degenerate batches:
        The mean is over the samples given: with micro-batches, the nats are granted to each of them.

    Example:
        >>> import torch
        >>> free_bits_kl(torch.tensor([[0.0, 4.0]]), nats=2.0)
        tensor(5.)
        >>> free_bits_kl(torch.tensor([[0.0, 4.0]]), nats=2.0, by="total")
        tensor(4.)
    """
    (kl_dims,) = at_least_float32(kl_dims)
    mean = kl_dims.mean(0)  # (dz,)
    return mean.sum().clamp(min=nats) if by == "total" else mean.clamp(min=nats / len(mean)).sum()


def mahalanobis(points: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Squared distance of each point to its Gaussian, in units of the Gaussian's spread.

    In words: the squared differences of each dimension over the variance; their mean, whose expectation is 1 for a
    point drawn from the Gaussian.

    Args:
        points: points v (B, dz).
        mu, logvar: mean and log variance of the Gaussians (B, dz).

    Returns:
        Distance per sample (B,).

    References:
        HCL (ACL 2022) section 3.2.3, with the inverse that is missing in print.

    Degenerate batches:
        An empty batch gives an empty tensor.

    Example:
        >>> mahalanobis(torch.tensor([[3.0, 0.0]]), torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([4.5000])
    """
    points, mu, logvar = at_least_float32(points, mu, logvar)
    return ((points - mu).square() * torch.exp(-logvar)).mean(-1)
