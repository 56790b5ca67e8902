"""Contrast between classes: texts of one class draw together, and confusable classes are pushed apart harder."""

import torch
from torch import Tensor

from models.losses.positive_pairs import log_share_of_positives, positive_pairs
from models.losses.reduction import at_least_float32, masked_mean

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
        CLLD eq. 4-8, 11-13; METHODS D.2.

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
    # LDMM = Y LDM Y^T (2M, 2M), with the halves of (cosine + 1) / 2 and the temperature
    distance = ldm.detach().to(cosines.dtype)[labels][:, labels] / (2 * temperature)
    positives = positive_pairs(labels)
    mean_log_q, counts = log_share_of_positives(torch.addcmul(distance, distance, cosines), positives)
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
