"""Mahalanobis distance of points to diagonal Gaussians."""

import torch
from torch import Tensor

from models.losses.reduction import at_least_float32


def mahalanobis(
    points: Tensor, mu: Tensor, logvar: Tensor, form: str = "inverse", sqrt: bool = False, per_dim: bool = False
) -> Tensor:
    """Distance of each point to its Gaussian, in units of the Gaussian's spread.

    In words: the squared differences of each dimension over the variance, summed.

    Args:
        points: points v (B, dz).
        mu, logvar: mean and log variance of the Gaussians (B, dz).
        form: ``inverse`` divides by the variance; ``printed`` multiplies, as the paper prints by mistake.
        sqrt: take the root, which makes it a distance in the strict sense.
        per_dim: mean over dimensions instead of the sum (``dist_norm: dim``), taken before the root; its
            expectation is 1 for a point drawn from the Gaussian.

    Returns:
        Distance per sample (B,). At v = mu it is exactly 0, with gradient 0 even under the root.

    Raises:
        ValueError: for an unknown form.

    References:
        HCL (ACL 2022) sect. 3.2.3; METHODS A.6.

    Degenerate batches:
        An empty batch gives an empty tensor.

    Example:
        >>> mahalanobis(torch.tensor([[3.0, 0.0]]), torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([9.])
    """
    points, mu, logvar = at_least_float32(points, mu, logvar)
    if form not in ("inverse", "printed"):
        raise ValueError(f"mahalanobis: form is {form!r}, expected 'inverse' or 'printed'")
    weight = torch.exp(-logvar if form == "inverse" else logvar)
    terms = (points - mu).square() * weight
    squared = terms.mean(-1) if per_dim else terms.sum(-1)
    return _safe_sqrt(squared) if sqrt else squared


def _safe_sqrt(squared: Tensor) -> Tensor:
    positive = squared > 0
    root = torch.where(positive, squared, torch.ones_like(squared)).sqrt()  # the root's slope at 0 is infinite
    return torch.where(positive, root, torch.zeros_like(root))
