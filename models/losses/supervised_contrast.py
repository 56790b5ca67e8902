"""Supervised contrast: each vector against all others, the ones of its class as positives."""

import torch
from torch import Tensor
from torch.nn import functional as F

from models.losses.positive_pairs import log_share_of_positives, positive_pairs
from models.losses.reduction import at_least_float32, masked_mean


def supervised_contrast(h: Tensor, labels: Tensor, temperature: float = 0.05,
                        base_temperature: float | None = None) -> Tensor:
    """Minus the mean log share of a vector's positives in the softmax over all others, the mean over vectors.

    In words: cosines over a temperature; of each vector, the logs of the shares of its positives, averaged (the sum
    over positives stands outside the log).

    With LDM = 1 and temperature t, ``label_distance_contrast`` is this at temperature 2 t, less the mean of log |P(i)|.

    Args:
        h: vectors of all views (V M, d), views one behind the other.
        labels: class of each vector (V M,).
        temperature: tau; 0.05 in SupCL-Seq.
        base_temperature: the loss is multiplied by ``temperature`` over this; the released code of SupCL-Seq has
            0.07. None, as in its paper: no factor.

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
    factor = 1.0 if base_temperature is None else temperature / base_temperature
    return factor * masked_mean(-mean_log_q, counts > 0)
