"""Contrast between keywords: input and output keyword should be more alike than input and impostor."""

from torch import Tensor
from torch.nn.functional import softplus

from models.losses.reduction import at_least_float32


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
