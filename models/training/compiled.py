"""Compiling the layers of a model for the length of a training."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def compiled(module: nn.Module, wanted: bool) -> Iterator[None]:
    """Have the layers of ``module`` compiled by ``torch.compile`` while the block lasts, if ``wanted``.

    The kernels differ and sum in another order, so results agree with those of the layers as written up to rounding.
    So do those of a training that was killed and went on: what torch compiles depends on the sizes that it sees first.
    Layers of a kind share their code, and sizes are symbols in it: batches of any length, as of buckets, run through
    the same kernels once two of them have been seen; torch compiles anew for a size of 1 and between training and
    evaluation, and says so on its log if it gives up (``recompile_limit``). What stands between layers, and recurrent
    layers, stay as they are.

    Raises:
        ValueError: there is no layer to compile.
    """
    if not wanted:
        yield
        return
    layers = layers_of(module)
    if not layers:
        raise ValueError(f"compile: {type(module).__name__} has no layers that torch.compile could make faster; set it "
                         f"to false for this model")
    for layer in layers:
        # fallback_random: dropout draws what it draws without compiling
        found = torch.compile(layer.forward, dynamic=True, options={"fallback_random": True})
        layer.forward = found  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # of the instance; that of its class is left


def layers_of(module: nn.Module) -> list[nn.Module]:
    """Return the outermost members of the lists of ``module`` that are made of several modules, none recurrent."""
    if isinstance(module, nn.ModuleList):
        return [part for part in module if list(part.children()) and not _recurrent(part)]
    return [layer for part in module.children() for layer in layers_of(part)]


def _recurrent(module: nn.Module) -> bool:
    return any(isinstance(part, nn.RNNBase) for part in module.modules())
