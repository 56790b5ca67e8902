"""The precision of matrix products: said in one place for trainings and everything else; recurrent layers stay out.

Weights, gradients and optimisers are fp32 whatever the products are, and losses see to it that they are
(:func:`models.common.losses.at_least_float32`).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

PRECISIONS = ("fp32", "bf16")


def products(device: str | torch.device, precision: str) -> torch.autocast:
    """Return the context in which matrix products on ``device`` are computed in ``precision``.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:0``.
        precision: ``fp32``, which leaves every operation as it is, or ``bf16`` (autocast).

    Raises:
        ValueError: another precision.

    Example:
        >>> with products("cpu", "bf16"):
        ...     (torch.eye(2) @ torch.eye(2)).dtype
        torch.bfloat16
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be {' or '.join(map(repr, PRECISIONS))}, found {precision!r}")
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16")


def recurrent(layer: nn.Module, inputs: Tensor | PackedSequence,
              state: Tensor | tuple[Tensor, ...] | None = None) -> Any:
    """Return what the recurrent ``layer(inputs, state)`` does, in the precision of its weights, under autocast too.

    Under autocast torch gives cuDNN's recurrent layers float16, even where bfloat16 was asked for, and float16
    gradients need a scaler: they would vanish without an error.
    """
    weight = next(layer.parameters())
    with torch.autocast(weight.device.type, enabled=False):
        if isinstance(state, tuple):
            return layer(inputs.to(weight.dtype), tuple(part.to(weight.dtype) for part in state))
        return layer(inputs.to(weight.dtype), None if state is None else state.to(weight.dtype))
