"""Contrasts between the items of a batch: pairs of sentences, dropout views, classes."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from models.common.losses import at_least_float32, masked_mean


def positive_pairs(labels: Tensor) -> Tensor:
    """Return t (K, K), True where i and j are two vectors of one class.

    Args:
        labels: class of each vector (K,).

    References:
        CLLD eq. 6.

    Example:
        >>> positive_pairs(torch.tensor([0, 1, 0]))
        tensor([[False, False,  True],
                [False, False, False],
                [ True, False, False]])
    """
    return (labels.unsqueeze(1) == labels).fill_diagonal_(False)


def log_share_of_positives(scores: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of log q over the positives of each vector, q being the softmax of its scores to all others.

    In words: a vector is compared with every other, never with itself; of the logs of the shares that the softmax
    gives to its positives, the mean.

    Args:
        scores: of each pair (K, K), K >= 2, in float32 or wider; what stands on the diagonal is not read.
        positives: from :func:`positive_pairs` (K, K).

    Returns:
        The means (K,), and the number of positives |P(i)| of each vector (K,).

    Degenerate batches:
        A vector without a positive has mean 0, without gradient, and number 0; the caller leaves it out.
    """
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    # The mask comes after every product with the scores: a factor of 0 or below would bring self-pairs back.
    log_q = scores.masked_fill(own, -torch.inf).log_softmax(-1)  # (K, K), -inf on the diagonal
    counts = positives.sum(-1)
    # not a product: 0 * -inf is NaN, and so is its gradient
    sums = log_q.masked_fill(~positives, 0.0).sum(-1)
    return sums / counts.clamp(min=1), counts


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
        PGKPR (Findings of ACL 2022) eq. 3.

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
        weights of CLLD eq. 9, it is ours.

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


def supervised_contrast(h: Tensor, labels: Tensor, temperature: float = 0.05) -> Tensor:
    """Minus the mean log share of a vector's positives in the softmax over all others, the mean over vectors.

    In words: cosines over a temperature; of each vector, the logs of the shares of its positives, averaged (the sum
    over positives stands outside the log).

    With LDM = 1 and temperature t, ``label_distance_contrast`` is this at temperature 2 t, less the mean of log |P(i)|.

    Args:
        h: vectors of all views (V M, d), views one behind the other.
        labels: class of each vector (V M,).
        temperature: tau; 0.05 in SupCL-Seq.

    Returns:
        A scalar. In float32 for half precision, under autocast too.

    References:
        SupCL-Seq (Sedghamiz et al. 2021), after Khosla et al. 2020, eq. 2 (L_out). It trains the encoder by this
        alone, on views under several dropout rates, and then a linear classifier on the frozen encoder. Ours: both
        losses in one training, in the weights of CLLD eq. 9, so that rows differ in the contrast alone.

    Degenerate batches:
        A vector without a positive is left out of the mean. Without any, and for fewer than two vectors, the loss is
        0 and so is its gradient.

    Example:
        >>> h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
        >>> supervised_contrast(h, torch.tensor([0, 1, 0, 1]), temperature=1.0)
        tensor(0.5514)
    """
    (h,) = at_least_float32(h)
    if len(h) < 2:
        return 0.0 * h.sum()
    unit = F.normalize(h, dim=-1)
    with torch.autocast(h.device.type, enabled=False):
        scores = unit @ unit.t() / temperature  # (V M, V M)
    mean_log_q, counts = log_share_of_positives(scores, positive_pairs(labels))
    return masked_mean(-mean_log_q, counts > 0)


_SHORTEST = 1e-8  # xi of eq. 4: a zero vector has cosine 0 to everything


def label_distance_contrast(h: Tensor, labels: Tensor, ldm: Tensor, temperature: float = 1.0) -> Tensor:
    """Divergence of the softmax over all others from the equal shares of a vector's positives, the mean over vectors.

    In words: cosines rescaled to [0, 1] are multiplied by the distance of the two classes; the softmax of a vector's
    products with all others, itself excluded, is to give each vector of its own class the same share, and nothing to
    the rest. A distance above 1 makes a negative weigh more in that softmax, so it is pushed apart harder; with
    cosines below 0, which the rescaling rules out, it would be the reverse.

    Args:
        h: vectors of the contrastive head (2M, d), in the order [first views, second views].
        labels: class of each vector (2M,), 0 .. N - 1.
        ldm: label distance matrix LDM, d_ab of the classes a and b (N, N); never has a gradient.
        temperature: 1 is literal (the paper has none); smaller ones sharpen the softmax.

    Returns:
        L_s, a scalar >= 0; 0 only where every vector's shares are those of its positives. In float32 for half
        precision, under autocast too.

    References:
        CLLD eq. 4-8, 11-13.

    Degenerate batches:
        A vector without a positive, which the second view rules out, is left out of the mean. Without any, and for
        fewer than two vectors, the loss is 0 and so is its gradient.

    Example:
        >>> h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
        >>> label_distance_contrast(h, torch.tensor([0, 1, 0, 1]), torch.ones(2, 2))
        tensor(0.7944)
    """
    if len(h) < 2:
        return 0.0 * at_least_float32(h)[0].sum()
    cosines = _cosines(h)  # (2M, 2M)
    distance = ldm.detach().to(cosines.dtype)[labels][:, labels]  # LDMM = Y LDM Y^T (2M, 2M)
    distance = distance / (2 * temperature)  # with the halves of (cosine + 1) / 2
    scores = torch.addcmul(distance, distance, cosines)
    positives = positive_pairs(labels)
    mean_log_q, counts = log_share_of_positives(scores, positives)
    # z is 1/|P| on |P| places, so the sum of z log z is -log |P|; z = 0 adds nothing
    divergence = counts.clamp(min=1).to(mean_log_q.dtype).log() + mean_log_q  # -KL(z_i || q_i) (2M,)
    return -masked_mean(divergence, counts > 0)


def rescaled_cosine(h: Tensor) -> Tensor:
    """Return (cosine + 1) / 2 of all pairs of the vectors h (K, d), in [0, 1] up to rounding, (K, K) (eq. 4)."""
    return (_cosines(h) + 1) / 2


def _cosines(h: Tensor) -> Tensor:
    (h,) = at_least_float32(h)
    with torch.autocast(h.device.type, enabled=False):
        products = h @ h.t()
    norms = torch.linalg.vector_norm(h, dim=-1)  # (K,)
    return products / (norms.unsqueeze(1) * norms).clamp(min=_SHORTEST)
