"""Gradients integrated along the straight line from a reference to a text (integrated gradients).

M. Sundararajan, A. Taly, Q. Yan: Axiomatic Attribution for Deep Networks (2017), equation 1: the attribution of
coordinate i is (e_i - r_i) times the integral over a in [0, 1] of df/de_i at r + a (e - r). The attributions sum
to f(e) - f(r).
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.attribution.outputs import pulled_back
from models.attribution.points import BlockOutput, Lookup

ROWS = 64  # rows of a forward pass where the caller names none

# From the network's output and the text of each of its rows: what is pulled back, and the cotangent.
Pull = Callable[[Any, Tensor], tuple[Tensor, Tensor]]


def integrated(point: Lookup | BlockOutput, inputs: Mapping[str, Tensor], reference_ids: Tensor, pull: Pull,
               steps: int, rows: int | None = None) -> Tensor:
    """Return the signed attribution of every word piece, (B, L) float64 on the CPU.

    The integral is a Gauss-Legendre sum. The B * ``steps`` points go through the network ``rows`` at a time, those
    of a text beside each other, so memory does not grow with ``steps``.

    Args:
        point: where the network is differentiated.
        inputs: the texts, each (B, L).
        reference_ids: where the paths begin (B, L); where it equals ``input_ids`` the attribution is 0.
        pull: what is differentiated.
        steps: points of a path.
        rows: rows of one forward pass; by default those of the batch, and 64 if it has fewer.
    """
    end = point.value(inputs)  # (B, L, d)
    begin = point.value({**inputs, "input_ids": reference_ids})
    way = end - begin
    places, weights = (torch.from_numpy(array).to(end.device) for array in nodes(steps))
    count = len(end) * steps
    size = rows or max(len(end), ROWS)
    total = torch.zeros(end.shape[:2], dtype=torch.float64, device=end.device)
    for first in range(0, count, size):
        flat = torch.arange(first, min(first + size, count), device=end.device)
        text, step = flat // steps, flat % steps
        leaf = torch.addcmul(begin[text], way[text], places[step, None, None].to(end.dtype)).requires_grad_()
        result, cotangent = pull(point.run({name: value[text] for name, value in inputs.items()}, leaf), text)
        gradient, factor = pulled_back(result, cotangent, leaf)
        share = torch.einsum("bld,bld->bl", gradient, way[text]).double() * factor * weights[step, None]
        total.index_add_(0, text, share)
    return total.cpu()


@cache
def nodes(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places in (0, 1) and weights, which sum to 1, of the Gauss-Legendre sum of ``steps`` terms.

    It is exact for polynomials of degree 2 ``steps`` - 1.

    Raises:
        ValueError: no steps.
    """
    if steps < 1:
        raise ValueError(f"steps: a path needs at least one point, not {steps}")
    places, weights = np.polynomial.legendre.leggauss(steps)
    return (places + 1) / 2, weights / 2
