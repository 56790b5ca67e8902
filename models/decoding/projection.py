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

    It is ``F.linear``, which on a CPU calls MKL. MKL keeps its fast paths for one maker's processors: on others the
    product of 128 states with 30,522 words takes 2.7 times as long as by oneDNN, which torch ships as well and which
    chooses by instruction set. So float32 on a CPU goes to oneDNN; sums differ in rounding only.
    """
    parts = (states, weight, bias)
    if _ONEDNN_LINEAR is None or any(part.device.type != "cpu" or part.dtype != torch.float32 for part in parts):
        return F.linear(states, weight, bias)
    if states.shape[:-1].numel() in _FEW:
        return torch.addmm(bias.unsqueeze(-1), weight, states.flatten(0, -2).t()).t().unflatten(0, states.shape[:-1])
    return _ONEDNN_LINEAR(states, weight, bias, "none", [], "")
