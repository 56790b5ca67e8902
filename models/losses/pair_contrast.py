"""Contrast between sentences of a batch: an encoding should be nearest to that of its own counterpart."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from models.losses.reduction import at_least_float32

Similarity = Literal["cosine", "dot"]


def pair_contrast(
    anchor: Tensor,
    positive: Tensor,
    temperature: float,
    similarity: Similarity,
    groups: Tensor | None = None,
    others: Tensor | None = None,
) -> Tensor:
    """InfoNCE loss of each anchor with its own positive against the candidates of all other items.

    In words: minus the log of the share that its positive has in the sum of exp(similarity / t) over the positive
    and the negatives. Negatives of item i are the positives, and the ``others``, of items j that are not of its
    group; its own among the ``others`` is never one.

    Args:
        anchor: encodings e_s of the perturbed sources (B, d).
        positive: encodings e_t of the targets (B, d).
        temperature: t > 0.
        similarity: ``cosine``, or ``dot``, which saturates for long vectors.
        groups: equal numbers for items that mean the same (B,), such as captions of one image; None: all differ.
        others: one more candidate of each item (B, d), such as the encoding of its unperturbed source.

    Returns:
        Loss per item (B,); log(1 + number of negatives) where all similarities are equal.

    Raises:
        ValueError: for an unknown ``similarity``.

    References:
        PGKPR (Findings of ACL 2022) eq. 3; METHODS C.4.

    Degenerate batches:
        An item without negatives (B = 1, or everything of one group) has loss 0 and no gradient.

    Example:
        >>> pair_contrast(torch.eye(2), torch.eye(2), temperature=1.0, similarity="dot")
        tensor([0.3133, 0.3133])
    """
    if similarity not in ("cosine", "dot"):
        raise ValueError(f"pair_contrast: similarity is {similarity!r}, expected 'cosine' or 'dot'")
    parts = [anchor, positive] if others is None else [anchor, positive, others]
    vectors = torch.cat(at_least_float32(*parts))
    if similarity == "cosine":
        vectors = F.normalize(vectors, dim=-1)
    anchor, candidates = vectors.split([len(anchor), len(vectors) - len(anchor)])  # (B, d), (C, d)
    with torch.autocast(anchor.device.type, enabled=False):
        scores = anchor @ candidates.t() / temperature  # (B, C)
    own = torch.arange(len(anchor), device=anchor.device)
    names = own if groups is None else groups
    same = names.unsqueeze(1) == names  # (B, B), the diagonal among them
    hidden = same.clone().fill_diagonal_(False)
    if others is not None:
        hidden = torch.cat([hidden, same], dim=-1)  # (B, C)
    return F.cross_entropy(scores.masked_fill(hidden, -torch.inf), own, reduction="none")
