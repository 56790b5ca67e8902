"""Precision and reduction shared by all losses."""

import torch
from torch import Tensor

_HALF = (torch.float16, torch.bfloat16)


def at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors with half precision raised to float32; float32 and float64 stay as they are.

    Exponentials of distances overflow half precision, so every loss starts with this, under autocast too.
    """
    return tuple(tensor.float() if tensor.dtype in _HALF else tensor for tensor in tensors)


def masked_mean(values: Tensor, mask: Tensor, count: Tensor | float | None = None) -> Tensor:
    """Mean of the samples that take part; 0 with zero gradient when none does.

    In words: the sum of the values under the mask, divided by the number of them.

    Args:
        values: per-sample losses (B,).
        mask: True for the samples that take part (B,).
        count: divide by this instead: the number that take part in the whole batch, of which ``values`` is
            one micro-batch, so that the means of the micro-batches add up to that of the batch.

    Returns:
        A scalar. A masked value contributes nothing, not even when it is infinite or NaN.

    Degenerate batches:
        All masked: 0, not NaN, and the gradient of ``values`` is 0.

    Example:
        >>> masked_mean(torch.tensor([1.0, 3.0, 50.0]), torch.tensor([True, True, False]))
        tensor(2.)
    """
    (values,) = at_least_float32(values)
    total = values.masked_fill(~mask, 0.0).sum()
    if count is None or isinstance(count, Tensor):
        return total / (mask.sum() if count is None else count).to(values.dtype).clamp(min=1.0)
    return total / max(1.0, count)  # a number of the host's: no copy to a GPU
