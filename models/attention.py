"""Multi-head attention and the decoder layers of Transformers, with a key/value cache."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import EncoderDecoderCache

from models.bert import joined
from models.decoding.cache import BeamCache, Pair

Cache = EncoderDecoderCache | BeamCache
# What each query may see: under a tensor of booleans, or of numbers added to scores; True: none that comes later
Visible = Tensor | bool | None


class Attention(nn.Module):
    """Multi-head attention with separate projections, deterministic without dropout.

    Args:
        width: d.
        heads: number of heads H; d must be a multiple of it.
        dropout: on attention weights, in training.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)

    def keys_values(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Project states (B, S, d) to keys and values (B, H, S, d / H)."""
        return self._split(self.key(states)), self._split(self.value(states))

    def before(self, prefix: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a key and a value (B, d) before keys and values (B, H, S, d / H)."""
        first = (self._split(part.to(keys.dtype).unsqueeze(1)) for part in prefix)  # (B, H, 1, d / H) each
        key, value = (torch.cat(pair, dim=2) for pair in zip(first, (keys, values), strict=True))
        return key, value

    def of_itself(self, states: Tensor, weights: Pair | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Project states (B, L, d) to queries, keys and values (B, H, L, d / H).

        In one product by ``weights`` and biases of :attr:`projections`, joined; without them in three.
        """
        if weights is None:
            return self._split(self.query(states)), *self.keys_values(states)
        all_three = F.linear(states, *weights)  # (B, L, 3 d)
        query, key, value = all_three.unflatten(-1, (3, self.heads, -1)).unbind(2)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    @property
    def projections(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        """The layers of queries, keys and values."""
        return self.query, self.key, self.value

    def forward(self, hidden: Tensor, keys: Tensor, values: Tensor, mask: Visible) -> Tensor:
        """Attend from hidden (B, L, d); ``mask`` True where attending is allowed."""
        return self.attend(self._split(self.query(hidden)), keys, values, mask)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Visible) -> Tensor:
        """Attend with queries (B, H, L, d / H); returns (B, L, d)."""
        heads = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask if isinstance(mask, Tensor) else None,
            dropout_p=self.dropout if self.training else 0.0, is_causal=mask is True
        )  # (B, H, L, d / H)
        return self.output(heads.transpose(1, 2).flatten(-2))

    def _split(self, states: Tensor) -> Tensor:
        batch, length, width = states.shape
        return states.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the memory and a feed-forward network, each normalised before.

    Args:
        width: d.
        heads: of both attentions.
        feed_forward: width inside the feed-forward network.
        dropout: on attention weights and on what each part adds, in training.
        number: position in the stack, under which keys and values are cached.
    """

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float, number: int) -> None:
        super().__init__()
        self.number = number
        self.self_attention = Attention(width, heads, dropout)
        self.cross_attention = Attention(width, heads, dropout)
        self.widen = nn.Linear(width, feed_forward)
        self.narrow = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        hidden: Tensor,
        causal: Visible,
        memory: Tensor | Pair,
        mask: Tensor,
        cache: Cache | None,
        prefix: tuple[Tensor, Tensor] | None = None,
        weights: Pair | None = None,
    ) -> Tensor:
        """Transform hidden (B, L, d) given memory (B, S, d), its mask (B, 1, 1, S) and a first key and value.

        Memory may be keys and values already; see :func:`memory_keys_values`. ``weights`` are those of self-attention's
        projections, joined.
        """
        query, keys, values = self.self_attention.of_itself(self.norms[0](hidden), weights)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.number)
        if prefix is not None:
            keys, values = self.self_attention.before(prefix, keys, values)
        hidden = hidden + self.dropout(self.self_attention.attend(query, keys, values, causal))
        normed = self.norms[1](hidden)
        keys, values = self._of_memory(memory, cache)
        hidden = hidden + self.dropout(self.cross_attention(normed, keys, values, mask))
        normed = self.norms[2](hidden)
        return hidden + self.dropout(self.narrow(F.gelu(self.widen(normed))))

    def _of_memory(self, memory: Tensor | Pair, cache: Cache | None) -> Pair:
        if isinstance(memory, tuple):
            return memory
        if cache is None:
            return self.cross_attention.keys_values(memory)
        if isinstance(cache, BeamCache):
            return cache.memory(self.number, lambda: self.cross_attention.keys_values(memory))
        if not cache.is_updated.get(self.number):
            cache.cross_attention_cache.update(*self.cross_attention.keys_values(memory), self.number)
            cache.is_updated[self.number] = True
        kept: Any = cache.cross_attention_cache.layers[self.number]
        return kept.keys, kept.values


def memory_keys_values(layers: Sequence[DecoderLayer], memory: Tensor) -> list[Pair]:
    """Project memory (B, S, d) to the keys and values of all layers in one product."""
    attentions = [layer.cross_attention for layer in layers]
    weights = joined([part for attention in attentions for part in (attention.key, attention.value)])
    together = F.linear(memory, *weights)  # (B, S, 2 n d)
    parts = together.unflatten(-1, (2 * len(attentions), attentions[0].heads, -1)).unbind(2)
    found = [part.transpose(1, 2) for part in parts]  # (B, H, S, d / H) each
    return list(zip(found[::2], found[1::2], strict=True))


def places(embedded: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor | None]:
    """Return the positions of the tokens and which keys each may see; None if it is all of them."""
    length, device = embedded.shape[1], embedded.device
    if isinstance(cache, BeamCache):
        return cache.places(length, device)
    past = past_length(cache)
    return torch.arange(past, past + length, device=device), causal_mask(length, past, device)


def past_length(cache: Cache | None) -> int:
    """Return the number of tokens whose keys and values ``cache`` holds."""
    return int(cache.get_seq_length()) if cache is not None else 0


def causal_mask(length: int, past: int, device: torch.device) -> Tensor | None:
    """Return which of ``past + length`` keys each of ``length`` queries may see; None if it is all of them."""
    if length == 1:
        return None
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)
