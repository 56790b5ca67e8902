"""Keys and values of earlier tokens for W hypotheses of each item, which are never moved."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
Made = TypeVar("Made")


class BeamCache:
    """Keys and values of every token that was ever tried, and which hypothesis descends from which of them.

    Each step writes W new slots per item. A change of beams moves no key and no value: only the table of ancestors
    (B, W, slots) changes, and it is the mask of self-attention. So the W hypotheses of an item attend, as W queries,
    to the slots of that item in one product, and to its memory, which is projected once, in another.

    It stands where ``transformers`` has an ``EncoderDecoderCache``: layers call ``self_attention_cache.update``.

    Args:
        slots: tokens that will be tried per item, all steps and hypotheses together.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.steps = 0  # tokens of each hypothesis
        self._used = 0  # slots written before the step in progress
        self._ancestors: Tensor | None = None  # (B, W, slots so far); None as long as every slot is everyone's ancestor
        self._kept: dict[int, Pair] = {}  # by layer, (B, H, slots, d / H) each
        self._memory: dict[int, Pair] = {}  # by layer, (B, H, S, d / H) each
        self._once: Any = None

    @property
    def self_attention_cache(self) -> "BeamCache":
        """The part that holds earlier tokens."""
        return self

    def get_seq_length(self) -> int:
        """Return the number of tokens that each hypothesis holds."""
        return self.steps

    def allowed(self, width: int, device: torch.device) -> Tensor | None:
        """Open a step, whose tokens all stand at position ``steps``: return what they may attend to.

        Args:
            width: W, hypotheses per item.
            device: where it is needed.

        Returns:
            The mask (B, 1, W, slots so far and W new ones), True for ancestors and for the token itself; None where
            there is nothing to hide.

        Raises:
            ValueError: several hypotheses at the first step, which share nothing.
        """
        if self._ancestors is None:
            if width > 1:
                raise ValueError(f"BeamCache: {width} hypotheses, but reorder() has made none of the first one")
            return None
        batch = len(self._ancestors)
        own = torch.eye(width, dtype=torch.bool, device=device).expand(batch, width, width)
        self._ancestors = torch.cat([self._ancestors, own], dim=-1)
        return self._ancestors.unsqueeze(1)

    def once(self, make: Callable[[], Made]) -> Made:
        """Return what ``make`` made at the first step."""
        if self._once is None:
            self._once = make()
        return self._once

    def update(self, keys: Tensor, values: Tensor, layer: int) -> Pair:
        """Write keys and values (B, H, W, d / H) of this step; return those of all slots so far."""
        if layer not in self._kept:
            batch, heads, _, width = keys.shape
            shape = (batch, heads, self.slots, width)
            self._kept[layer] = keys.new_empty(shape), values.new_empty(shape)
        end = self._used + keys.shape[2]
        for kept, new in zip(self._kept[layer], (keys, values), strict=True):
            kept[:, :, self._used : end] = new
        all_keys, all_values = self._kept[layer]
        return all_keys[:, :, :end], all_values[:, :, :end]

    def memory(self, layer: int, project: Callable[[], Pair]) -> Pair:
        """Return keys and values of what a layer decodes from, projected at its first step."""
        if layer not in self._memory:
            self._memory[layer] = project()
        return self._memory[layer]

    def advance(self, width: int) -> None:
        """Close a step in which every layer has written ``width`` slots."""
        self._used += width
        self.steps += 1

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was hypothesis ``parents[b, w]`` (B, W)."""
        if self._ancestors is None:
            if parents.shape[1] > 1:
                self._ancestors = torch.ones(*parents.shape, self._used, dtype=torch.bool, device=parents.device)
            return
        self._ancestors = self._ancestors.gather(1, parents.unsqueeze(-1).expand(-1, -1, self._used))

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows (n,)."""
        for table in (self._kept, self._memory):
            for layer, (keys, values) in table.items():
                table[layer] = keys.index_select(0, items), values.index_select(0, items)
        if self._ancestors is not None:
            self._ancestors = self._ancestors.index_select(0, items)
