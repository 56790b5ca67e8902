"""What a search needs of a model, what every output must satisfy, and a decoder that searches can take steps with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from models.common.decoding.cache import BeamCache


class Decodable(Protocol):
    """A batch of items that is being decoded: for each of B items, W hypotheses (beams or candidates) of one length.

    A model starts it from what it decodes from (encoder states, a latent vector) with one empty hypothesis per item;
    a search then takes steps. The items stay one row each, whatever the number of hypotheses: what an item is
    decoded from is projected once and never copied per beam.
    """

    def step(self, tokens: Tensor) -> Tensor:
        """Append a token to every hypothesis (B, W) and return the states (B, W, d) that predict the next ones."""
        ...

    def logits(self, states: Tensor) -> Tensor:
        """Return unnormalised scores (..., V) of the next token, at least float32; the search may overwrite them."""
        ...

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w of item b continue what was its hypothesis ``parents[b, w]``; (B, W'), W' may differ."""
        ...

    def keep(self, items: Tensor) -> None:
        """Go on with the items at these rows (n,) alone."""
        ...


@dataclass(frozen=True)
class Rules:
    """What every output satisfies.

    Attributes:
        end: token that ends an output.
        pad: token that fills the rows after it.
        min_length, max_length: bounds on the number of tokens, the end token not counted: it is forbidden before,
            and forced after, at no cost to the score (as ``transformers`` forces it).
        banned: tokens that no output holds. They keep their share of the probability: scores are those of the
            model's own distribution, as in ``transformers``.

    Raises:
        ValueError: the bounds contradict each other, or the end token is banned.
    """

    end: int
    pad: int
    min_length: int
    max_length: int
    banned: Sequence[int] = field(default=())

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length:
            raise ValueError(
                f"decoding: min_length {self.min_length} and max_length {self.max_length} must satisfy 0 <= min <= max"
            )
        if self.end in self.banned:
            raise ValueError(f"decoding: the end token {self.end} is banned, so no output could end")

    def forbidden(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the tokens forbidden before ``min_length`` and those forbidden from then on."""
        banned = sorted(set(self.banned))
        return torch.tensor([*banned, self.end], device=device), torch.tensor(banned, dtype=torch.int64, device=device)


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
