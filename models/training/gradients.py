"""Gradients of one micro-batch after the other."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def add_gradients(outputs: Sequence[Tensor], weights: Sequence[Tensor | None], parameters: Sequence[nn.Parameter],
                  alone: bool) -> None:
    """Add the gradients of ``outputs`` to those that ``parameters`` have.

    A backward pass adds them parameter by parameter, one launch each on a GPU: a sixth of all that a micro-batch
    launches. Here all are added at once, for which they are all held for a moment; the sums are the same to the bit.

    Args:
        outputs: what is differentiated.
        weights: the gradient by each, None for a scalar's 1.
        parameters: all that are trained.
        alone: do it by a backward pass, which calls the hooks of the parameters.
    """
    if alone or all(parameter.grad is None for parameter in parameters):
        torch.autograd.backward(outputs, weights)
        return
    found = torch.autograd.grad(outputs, parameters, weights, allow_unused=True)
    sums, summands = [], []
    for parameter, gradient in zip(parameters, found, strict=True):
        if gradient is None:
            continue
        if parameter.grad is None:
            parameter.grad = gradient.clone(memory_format=torch.contiguous_format)  # it may share its memory
        else:
            sums.append(parameter.grad)
            summands.append(gradient)
    if sums:
        torch._foreach_add_(sums, summands)
