"""Rows of matrices that are taken, and added up, by index; both ways without sorting, and the same each time."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from models.common.losses import at_least_float32


@dataclass(frozen=True)
class Rows:
    """Which of n rows each of E others stands for or belongs to, and the way back.

    Attributes:
        index: numbers of rows (E,).
        offsets: where those of each row begin and end, put in order (n + 1,).
        order: brings ``index`` into ascending order (E,); None if it is.
    """

    index: Tensor
    offsets: Tensor
    order: Tensor | None = None

    @property
    def count(self) -> int:
        """Number n of rows."""
        return len(self.offsets) - 1

    @classmethod
    def of(cls, index: Tensor, count: int, ascending: bool = False) -> "Rows":
        """Return the rows of ``index`` (E,) among ``count``; ``ascending`` says that it is sorted."""
        offsets = index.new_zeros(count + 1)
        offsets[1:] = torch.bincount(index, minlength=count).cumsum(0)
        return cls(index, offsets, None if ascending else torch.argsort(index, stable=True))


def taken(values: Tensor, rows: Rows) -> Tensor:
    """Return the rows (E, ...) of ``values`` (n, ...)."""
    return _Taken.apply(values, rows)


def segment_sum(values: Tensor, rows: Rows) -> Tensor:
    """Sum of those of ``values`` (E, ...) that belong to each row (n, ...), in float32 at least."""
    return _Summed.apply(*at_least_float32(values), rows)


def weighted_mean(scores: Tensor, values: Tensor, rows: Rows, gaps: bool = False) -> Tensor:
    """Mean of those of ``values`` (E, d) that belong to each row, weighed by the softmax of ``scores`` (E,).

    In float32 at least, whatever precision they come in. With ``gaps`` there may be rows to which nothing belongs,
    which become zeros.
    """
    (scores,) = at_least_float32(scores)
    weights = torch.exp(scores - largest(scores.detach(), rows).index_select(0, rows.index))
    total = segment_sum(weights, rows)  # at least 1, the weight of the largest score, where there is any
    if gaps:
        total = total.clamp(min=1.0)
    return segment_sum(weights.unsqueeze(-1) * values, rows) / total.unsqueeze(-1)


def largest(scores: Tensor, rows: Rows) -> Tensor:
    """Return the largest score of each row (n,): a shift by it changes the range of exponentials only."""
    if scores.device.type == "cpu":
        return scores.new_full((rows.count,), -torch.inf).scatter_reduce(0, rows.index, scores, "amax")
    return torch.segment_reduce(_ascending(scores, rows), "max", offsets=rows.offsets, unsafe=True)


def _added(values: Tensor, rows: Rows) -> Tensor:
    """Add up without a graph; a GPU goes over segments side by side, where adding by index would sort first."""
    if values.device.type == "cpu":
        return values.new_zeros(rows.count, *values.shape[1:]).index_add_(0, rows.index, values)
    return torch.segment_reduce(_ascending(values, rows), "sum", offsets=rows.offsets, unsafe=True)


def _ascending(values: Tensor, rows: Rows) -> Tensor:
    return values.contiguous() if rows.order is None else values.index_select(0, rows.order)


class _Taken(torch.autograd.Function):
    """Rows by index; gradients are added up where they came from."""

    @staticmethod
    def forward(context: Any, values: Tensor, rows: Rows) -> Tensor:
        context.rows = rows
        return values.index_select(0, rows.index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _added(gradients[0], context.rows), None


class _Summed(torch.autograd.Function):
    """Sums of rows; each one's gradient is that of its sum."""

    @staticmethod
    def forward(context: Any, values: Tensor, rows: Rows) -> Tensor:
        context.rows = rows
        return _added(values, rows)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].index_select(0, context.rows.index), None
