"""The HCL decoder as something that searches can take steps with."""

import torch
from torch import Tensor

from models.decoding import BeamCache, project
from models.hcl.network import HclNetwork


class CachedSteps:
    """Decoding with keys and values kept: each step runs the decoder on the newest tokens alone.

    The W hypotheses of an item stand where the tokens of a text stand otherwise, (B, W, d), so memory and z are not
    repeated.

    Args:
        model: the network, in evaluation mode.
        memory: what the decoder attends to (B, S, d).
        mask: True for its real slots (B, S).
        z: latent vectors (B, dz); None for the deterministic backbone.
        slots: tokens that will be tried per item.
    """

    def __init__(self, model: HclNetwork, memory: Tensor, mask: Tensor, z: Tensor | None, slots: int) -> None:
        self.model, self.memory, self.mask, self.z = model, memory, mask, z
        self.cache = BeamCache(slots)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        states = self.model.decode(tokens, self.memory, self.mask, self.z, self.cache)
        self.cache.advance(tokens.shape[1])
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V), in the precision of the weights under autocast too."""
        return _scores(self.model, states)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was ``parents[b, w]``."""
        self.cache.reorder(parents)

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows."""
        self.memory, self.mask = self.memory.index_select(0, items), self.mask.index_select(0, items)
        self.z = self.z.index_select(0, items) if self.z is not None else None
        self.cache.keep(items)


class WholeSteps:
    """Decoding without a cache: each step runs the decoder on whole hypotheses, memory and z repeated for each.

    Slow, and simple enough to check :class:`CachedSteps` by; arguments are the same.
    """

    def __init__(self, model: HclNetwork, memory: Tensor, mask: Tensor, z: Tensor | None) -> None:
        self.model, self.memory, self.mask, self.z = model, memory, mask, z
        self.tokens = torch.empty(len(memory), 1, 0, dtype=torch.int64, device=memory.device)  # (B, W, length)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        self.tokens = torch.cat([self.tokens, tokens.unsqueeze(-1)], dim=-1)
        items, width, length = self.tokens.shape
        memory, mask = (part.repeat_interleave(width, dim=0) for part in (self.memory, self.mask))
        z = self.z.repeat_interleave(width, dim=0) if self.z is not None else None
        states = self.model.decode(self.tokens.view(-1, length), memory, mask, z)  # (B W, length, d)
        return states[:, -1].view(items, width, -1)

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V), in the precision of the weights under autocast too."""
        return _scores(self.model, states)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was ``parents[b, w]``."""
        self.tokens = self.tokens.gather(1, parents.unsqueeze(-1).expand(-1, -1, self.tokens.shape[-1]))

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows."""
        self.memory, self.mask, self.tokens = self.memory[items], self.mask[items], self.tokens[items]
        self.z = self.z[items] if self.z is not None else None


def _scores(model: HclNetwork, states: Tensor) -> Tensor:
    words = model.get_input_embeddings().weight
    with torch.autocast(states.device.type, enabled=False):  # eight bits would make ties of most candidates
        return project(states.to(words.dtype), words, model.word_scores.bias)
