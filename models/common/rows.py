"""Real tokens of a padded batch as rows, for what is computed token by token."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor


class RealTokens:
    """Which places of a padded batch hold tokens; moves between (B, L, ...) and a row per token (M, ...).

    Projections, norms and feed-forward networks look at one token at a time: on rows they do no work for padding,
    which is a third of a batch of short texts. Attention alone needs the padded shape. If there is any padding, one
    more row, the last, stands for all of it. So both directions are gathers, forward and backward, which neither add
    nor sort: the same bits on every device.

    The last row holds numbers that mean nothing. A loss must not read it, and attention must not look at padding: then
    its gradient is 0 at every layer, and what it stands for has no part in any other.

    Args:
        real: True for tokens (B, L).
        index: places of the rows (M,) in the flat batch, ascending, then one of padding; None to find them, for which
            a device is waited for.
        inverse: row of each place (B L,), given with ``index``.
    """

    def __init__(self, real: Tensor, index: Tensor | None = None, inverse: Tensor | None = None) -> None:
        self.real = real
        if index is None or inverse is None:
            index, inverse = _packed(real.flatten())
        self.index, self.inverse = index, inverse

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """Return the tokens of several batches of one length as those of one; rows stand as in the parts."""
        index, inverse, places, rows = [], [], 0, 0
        for part in parts:
            index.append(part.index + places)
            inverse.append(part.inverse + rows)
            places, rows = places + len(part.inverse), rows + len(part.index)
        return cls(torch.cat([part.real for part in parts]), torch.cat(index), torch.cat(inverse))

    @classmethod
    def given(cls, batch: Mapping[str, Tensor], name: str) -> Self:
        """Return what :meth:`named` put into a batch."""
        return cls(*(batch[f"{name}_{part}"] for part in ("real", "index", "inverse")))

    def named(self, name: str) -> dict[str, Tensor]:
        """Return the tensors by which :meth:`given` knows it, to be computed where batches are loaded."""
        return {f"{name}_real": self.real, f"{name}_index": self.index, f"{name}_inverse": self.inverse}

    def rows(self, padded: Tensor) -> Tensor:
        """Return the rows (M, ...) of ``padded`` (B, L, ...)."""
        return gathered(padded.flatten(0, 1), self.index, self.inverse)

    def padded(self, rows: Tensor) -> Tensor:
        """Return (B, L, ...) with ``rows`` (M, ...) at their places, and the last of them at padding."""
        return gathered(rows, self.inverse, self.index).unflatten(0, self.real.shape)

    @cached_property
    def columns(self) -> Tensor:
        """The position in its text of each row (M,)."""
        return self.index % self.real.shape[1]


class HostTensor(Tensor):
    """A tensor that stays in the host's memory when its batch goes to a device: what is needed to launch its work."""

    @classmethod
    def of(cls, values: Tensor) -> "HostTensor":
        """Return ``values``, which are on the CPU, as such a tensor."""
        return values.as_subclass(cls)

    def to(self, *args: Any, **kwargs: Any) -> "HostTensor":  # type: ignore[override]
        """Return itself."""
        return self

    def pin_memory(self, *args: Any, **kwargs: Any) -> "HostTensor":  # type: ignore[override]
        """Return itself: it is not copied anywhere."""
        return self

    @property
    def plain(self) -> Tensor:
        """The same as an ordinary tensor."""
        return self.as_subclass(Tensor)


def gathered(flat: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    """Return the rows ``index`` (M,) of ``flat`` (N, ...); gradients are gathered by ``inverse`` (N,).

    That is the gradient where rows which share a place in ``index`` or in ``inverse`` have none; see the class.
    """
    return _Gathered.apply(flat, index, inverse)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, flat: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        context.save_for_backward(inverse)
        return flat.index_select(0, index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = context.saved_tensors
        return gradients[0].index_select(0, inverse), None, None


def _packed(real: Tensor) -> tuple[Tensor, Tensor]:
    """Return index and inverse of the places ``real`` (N,)."""
    places, padding = real.nonzero().squeeze(-1), (~real).nonzero().squeeze(-1)
    inverse = torch.where(real, real.cumsum(0) - 1, len(places))
    return torch.cat([places, padding[:1]]), inverse
