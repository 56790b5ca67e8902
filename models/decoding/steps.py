"""A decoder over what it decodes from as something that searches can take steps with."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from models.decoding.cache import BeamCache

Decode = Callable[[Tensor, Sequence[Tensor], BeamCache | None], Tensor]
Score = Callable[[Tensor], Tensor]


class CachedSteps:
    """Decoding with keys and values kept: each step runs the decoder on the newest tokens alone.

    The W hypotheses of an item stand where the tokens of a text stand otherwise, (B, W, d), so what it is decoded
    from is not repeated.

    Args:
        decode: returns the states (B, W, d) of tokens (B, W), given ``given`` and the cache of earlier tokens.
        score: returns scores over the vocabulary (..., V) of states (..., d).
        given: what is decoded from, a row per item: memory, its mask, and the like.
        slots: tokens that will be tried per item.
    """

    def __init__(self, decode: Decode, score: Score, given: Sequence[Tensor], slots: int) -> None:
        self._decode, self._score, self._given = decode, score, tuple(given)
        self.cache = BeamCache(slots)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        states = self._decode(tokens, self._given, self.cache)
        self.cache.advance(tokens.shape[1])
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V)."""
        return self._score(states)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was ``parents[b, w]``."""
        self.cache.reorder(parents)

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows."""
        self._given = tuple(part.index_select(0, items) for part in self._given)
        self.cache.keep(items)


class WholeSteps:
    """Decoding without a cache: each step runs the decoder on whole hypotheses, with ``given`` repeated for each.

    Slow, and simple enough to check :class:`CachedSteps` by; arguments are the same. ``decode`` gets tokens
    (B W, L) and no cache, and returns (B W, L, d).
    """

    def __init__(self, decode: Decode, score: Score, given: Sequence[Tensor]) -> None:
        self._decode, self._score, self._given = decode, score, tuple(given)
        first = self._given[0]
        self.tokens = torch.empty(len(first), 1, 0, dtype=torch.int64, device=first.device)  # (B, W, length)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        self.tokens = torch.cat([self.tokens, tokens.unsqueeze(-1)], dim=-1)
        items, width, length = self.tokens.shape
        given = tuple(part.repeat_interleave(width, dim=0) for part in self._given)
        states = self._decode(self.tokens.view(-1, length), given, None)  # (B W, length, d)
        return states[:, -1].view(items, width, -1)

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V)."""
        return self._score(states)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w continue what was ``parents[b, w]``."""
        self.tokens = self.tokens.gather(1, parents.unsqueeze(-1).expand(-1, -1, self.tokens.shape[-1]))

    def keep(self, items: Tensor) -> None:
        """Keep the items at these rows."""
        self._given, self.tokens = tuple(part[items] for part in self._given), self.tokens[items]
