"""Kullback-Leibler divergence of diagonal Gaussians."""

import torch
from torch import Tensor

from models.common.losses import at_least_float32


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
