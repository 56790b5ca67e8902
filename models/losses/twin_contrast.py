"""Contrast between dropout views: each text should be nearest to itself under another dropout mask."""

from torch import Tensor

from models.losses.pair_contrast import pair_contrast


def twin_contrast(h: Tensor, temperature: float = 0.05) -> Tensor:
    """InfoNCE of the first views against the second views of a batch, the mean over texts.

    In words: minus the log of the share that a text's own second view has among the second views of all texts, by
    cosine over a temperature. Labels are not read, so texts of one class are negatives of each other.

    Args:
        h: vectors (2M, d), in the order [first views, second views].
        temperature: 0.05 in SimCSE.

    Returns:
        A scalar; log M where all similarities are equal. In float32 for half precision, under autocast too.

    Raises:
        ValueError: an odd number of vectors.

    References:
        SimCSE (Gao et al. 2021) eq. 4, unsupervised. It is a training of its own there; beside a classifier, in the
        weights of CLLD eq. 9, it is ours (METHODS F).

    Degenerate batches:
        A single text has no negative: loss 0, without gradient.

    Example:
        >>> import torch
        >>> twin_contrast(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), temperature=1.0)
        tensor(0.3133)
    """
    if len(h) % 2:
        raise ValueError(f"twin_contrast: {len(h)} vectors are not two views of each text")
    first, second = h.chunk(2)
    return pair_contrast(first, second, temperature, "cosine").mean()
