"""The texts of a batch in one pass of the encoder, where that costs little padding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

KEYS = ("texts_ids", "texts_mask")  # under which a batch may hold all of its texts joined
_WASTE = 1.25  # texts share one pass if padding them to one length costs at most a quarter


@dataclass(frozen=True)
class Encoded:
    """A kind of text: states (B, L, d), or (B K, L, d) of K negatives; vectors (B, d), or (B, K, d)."""

    states: Tensor
    vector: Tensor


def flat(values: Tensor) -> Tensor:
    """Return ids or mask with one text a row: (B, L) as it is, (B, K, L) as (B K, L)."""
    return values.flatten(0, -2)


def joined_texts(batch: Mapping[str, Tensor], names: Sequence[str], pad: int) -> dict[str, Tensor]:
    """Return ids and mask (B', L) of all texts called ``names``, one kind below the other, as :data:`KEYS`.

    Nothing where there are several kinds and their lengths are not alike.
    """
    ids, masks = ([flat(batch[f"{name}_{part}"]) for name in names] for part in ("ids", "mask"))
    longest, rows = max(part.shape[1] for part in ids), sum(map(len, ids))
    if rows * longest > _WASTE * sum(part.numel() for part in ids):
        return {}
    return {key: torch.cat([_widened(part, longest, fill) for part in parts])
            for key, parts, fill in zip(KEYS, (ids, masks), (pad, 0), strict=True)}


def _widened(values: Tensor, length: int, fill: int) -> Tensor:
    return F.pad(values, (0, length - values.shape[1]), value=fill) if values.shape[1] < length else values
