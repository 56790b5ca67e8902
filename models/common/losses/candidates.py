"""The contrasts of HCL, between a right and a wrong candidate for each sample."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from models.common.losses.reduction import at_least_float32

MULTI_NEG = ("infonce_negdist", "printed")


def instance_contrast(
    d_pos: Tensor,
    d_neg: Tensor,
    temperature: float,
    has_negative: Tensor | None = None,
    multi_neg: str = "infonce_negdist",
) -> Tensor:
    """Instance-level contrastive loss on the distances of a true and of one or several wrong outputs.

    In words: minus the log of one minus the softmax weight of the positive's distance. Distances, not
    similarities, enter the softmax, so a large weight of the positive is bad. With one negative this is
    ``softplus((d_pos - d_neg) / temperature)``, and InfoNCE on minus the distance is the same number.

    With several they differ. ``printed`` keeps to the formula of the paper and is content as soon as one
    negative is far, for the farthest dominates the sum of ``exp(d / t)``. ``infonce_negdist`` asks of every
    negative that it be farther than the positive; the nearest counts most.

    Args:
        d_pos: distance of the posterior given the true output to the prior (B,).
        d_neg: distances of the posteriors given the negative outputs to the prior (B,) or (B, K).
        temperature: t > 0; the smaller, the sooner the loss saturates.
        has_negative: which of several negatives are real (B, K); the others do not count. None: all.
        multi_neg: ``infonce_negdist`` or ``printed``; read for distances (B, K) alone.

    Returns:
        Loss per sample (B,); log 2 where two distances are equal.

    Raises:
        ValueError: for an unknown ``multi_neg``.

    References:
        HCL (ACL 2022) sect. 3.2.1; METHODS A.6.

    Degenerate batches:
        The value of a sample without a real negative is finite and has no meaning: mask it out with
        :func:`masked_mean`.

    Example:
        >>> instance_contrast(torch.tensor([2.0]), torch.tensor([1.0]), temperature=1.0)
        tensor([1.3133])
        >>> instance_contrast(torch.tensor([2.0]), torch.tensor([[1.0, 2.0]]), temperature=1.0)
        tensor([1.5514])
    """
    if multi_neg not in MULTI_NEG:
        raise ValueError(f"instance_contrast: multi_neg is {multi_neg!r}, expected one of {', '.join(MULTI_NEG)}")
    d_pos, d_neg = at_least_float32(d_pos, d_neg)
    if d_neg.dim() == 1:
        return softplus((d_pos - d_neg) / temperature)
    real = torch.ones_like(d_neg, dtype=torch.bool) if has_negative is None else has_negative.bool()
    real = real | ~real.any(-1, keepdim=True)  # a row of nothing but -inf would have NaN as its gradient
    gaps = (d_pos.unsqueeze(-1) - d_neg) / temperature  # (B, K)
    if multi_neg == "infonce_negdist":
        return softplus(torch.logsumexp(gaps.masked_fill(~real, -torch.inf), dim=-1))
    # log sum_all e^(d/t) - log sum_neg e^(d/t), with log sum_neg = d+/t + logsumexp(-gaps)
    return softplus(-torch.logsumexp((-gaps).masked_fill(~real, -torch.inf), dim=-1))


def keyword_contrast(s_pos: Tensor, s_imp: Tensor, temperature: float) -> Tensor:
    """Keyword-level contrastive loss on two similarities.

    In words: minus the log of the softmax weight of the positive pair's similarity, which for two
    candidates is ``softplus((s_imp - s_pos) / temperature)``.

    Args:
        s_pos: cosine of input and output keyword (B,).
        s_imp: cosine of the anchor and the impostor keyword (B,).
        temperature: t > 0.

    Returns:
        Loss per sample (B,); log 2 where both similarities are equal.

    References:
        HCL (ACL 2022) sect. 3.2.2, eq. 10; METHODS A.6.

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
