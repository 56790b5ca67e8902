"""The contrasts of HCL, between a right and a wrong candidate for each sample."""

from torch import Tensor
from torch.nn.functional import softplus

from models.common.losses.reduction import at_least_float32


def instance_contrast(d_pos: Tensor, d_neg: Tensor, temperature: float) -> Tensor:
    """Instance-level contrastive loss on the distances of a true and of a wrong output.

    In words: minus the log of one minus the softmax weight of the positive's distance, which for two candidates is
    ``softplus((d_pos - d_neg) / temperature)``. Distances, not similarities, enter the softmax, so a large weight of
    the positive is bad.

    Args:
        d_pos: distance of the posterior given the true output to the prior (B,).
        d_neg: distance of the posterior given the negative output to the prior (B,).
        temperature: t > 0; the smaller, the sooner the loss saturates.

    Returns:
        Loss per sample (B,); log 2 where the two distances are equal.

    References:
        HCL (ACL 2022) section 3.2.1.

    Degenerate batches:
        Samples without a negative are masked out by the caller with :func:`masked_mean`.

    Example:
        >>> import torch
        >>> instance_contrast(torch.tensor([2.0]), torch.tensor([1.0]), temperature=1.0)
        tensor([1.3133])
    """
    d_pos, d_neg = at_least_float32(d_pos, d_neg)
    return softplus((d_pos - d_neg) / temperature)


def keyword_contrast(s_pos: Tensor, s_imp: Tensor, temperature: float) -> Tensor:
    """Keyword-level contrastive loss on two similarities.

    In words: minus the log of the softmax weight of the positive pair's similarity, which for two
    candidates is ``softplus((s_imp - s_pos) / temperature)``.

    Args:
        s_pos: cosine of input and output keyword (B,).
        s_imp: cosine of input and impostor keyword (B,).
        temperature: t > 0.

    Returns:
        Loss per sample (B,); log 2 where both similarities are equal.

    References:
        HCL (ACL 2022) section 3.2.2, eq. 10.

    Degenerate batches:
        Samples without an impostor are masked out by the caller with :func:`masked_mean`.

    Example:
        >>> import torch
        >>> keyword_contrast(torch.tensor([1.0]), torch.tensor([0.0]), temperature=1.0)
        tensor([0.3133])
    """
    s_pos, s_imp = at_least_float32(s_pos, s_imp)
    return softplus((s_imp - s_pos) / temperature)


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
        HCL (ACL 2022) section 3.2.3, eq. 11.

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
