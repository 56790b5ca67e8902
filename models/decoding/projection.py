"""Scores over a vocabulary: the largest product of a decoding step, by the fastest kernel that torch ships."""

import torch
from torch import Tensor
from torch.nn import functional as F

# torch's own compiler calls this kernel for linear layers on CPUs. Its name is private, so it may be missing.
_ONEDNN_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None

_FEW = range(2, 7)  # states, such as the beams of one text, for which the words are better taken as rows


@torch.no_grad()
def project(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return states (..., d) times weight (V, d) plus bias (V,) -> (..., V); not differentiable.

    It is ``F.linear``, which on a CPU calls MKL where torch is built with it. On an AMD EPYC the product of 128
    states with 30,522 words takes MKL 2.5 times as long as oneDNN, which torch ships as well
    (``python -m benchmarks decoding``). So float32 on a CPU goes to oneDNN; sums differ in rounding only.
    """
    parts = (states, weight, bias)
    if _ONEDNN_LINEAR is None or any(part.device.type != "cpu" or part.dtype != torch.float32 for part in parts):
        return F.linear(states, weight, bias)
    if states.shape[:-1].numel() in _FEW:
        return torch.addmm(bias.unsqueeze(-1), weight, states.flatten(0, -2).t()).t().unflatten(0, states.shape[:-1])
    return _ONEDNN_LINEAR(states, weight, bias, "none", [], "")


@torch.no_grad()
def project_in_full(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return :func:`project` in the precision of the weights, under autocast too."""
    with torch.autocast(states.device.type, enabled=False):  # eight bits would make ties of most candidates
        return project(states.to(weight.dtype), weight, bias)
