"""Real tokens of a padded batch as rows, for what is computed token by token."""

from typing import Any

import torch
from torch import Tensor


class RealTokens:
    """Which places of a padded batch hold tokens; moves between (B, L, ...) and a row per token (N, ...).

    Projections, norms and feed-forward networks look at one token at a time: on rows they do no work for padding,
    which is a third of a batch of short texts. Attention alone needs the padded shape. A place is in one row, so both
    directions copy, forward and backward, and never add: the same bits on every device, without sorting.

    Args:
        real: True for tokens (B, L).

    Attributes:
        real: as given.
        index: places of the rows (N,) in the flat batch, ascending; None if every place is real.
    """

    def __init__(self, real: Tensor) -> None:
        self.real = real
        places = real.flatten().nonzero().squeeze(-1)
        self.index = places if len(places) < real.numel() else None

    def rows(self, padded: Tensor) -> Tensor:
        """Return the rows (N, ...) of ``padded`` (B, L, ...)."""
        flat = padded.flatten(0, 1)
        return flat if self.index is None else _Taken.apply(flat, self.index)

    def padded(self, rows: Tensor) -> Tensor:
        """Return (B, L, ...) with ``rows`` (N, ...) at their places, and 0 elsewhere."""
        flat = rows if self.index is None else _Placed.apply(rows, self.index, self.real.numel())
        return flat.unflatten(0, self.real.shape)

    def columns(self) -> Tensor:
        """Return the position in its text of each row (N,)."""
        places = torch.arange(self.real.numel(), device=self.real.device) if self.index is None else self.index
        return places % self.real.shape[1]


class _Taken(torch.autograd.Function):
    """Rows at distinct places; their gradients go back to these places."""

    @staticmethod
    def forward(context: Any, flat: Tensor, index: Tensor) -> Tensor:
        context.save_for_backward(index)
        context.places = len(flat)
        return flat.index_select(0, index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = context.saved_tensors
        return _spread(gradients[0], index, context.places), None


class _Placed(torch.autograd.Function):
    """Rows put at distinct places among zeros; gradients are those of these places."""

    @staticmethod
    def forward(context: Any, rows: Tensor, index: Tensor, places: int) -> Tensor:
        context.save_for_backward(index)
        return _spread(rows, index, places)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (index,) = context.saved_tensors
        return gradients[0].index_select(0, index), None, None


def _spread(rows: Tensor, index: Tensor, places: int) -> Tensor:
    return rows.new_zeros(places, *rows.shape[1:]).index_copy_(0, index, rows)
