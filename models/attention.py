"""Multi-head attention and the decoder layers of Transformers, with a key/value cache."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import EncoderDecoderCache

from models.decoding.cache import BeamCache
from models.rows import RealTokens

Activation = Callable[[Tensor], Tensor]
Cache = EncoderDecoderCache | BeamCache


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

    def keys_values(self, states: Tensor, tokens: RealTokens | None = None) -> tuple[Tensor, Tensor]:
        """Project states (B, S, d), or rows (N, d) of ``tokens``, to keys and values (B, H, S, d / H)."""
        return self._split(self.key(states), tokens), self._split(self.value(states), tokens)

    def before(self, prefix: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a key and a value (B, d) before keys and values (B, H, S, d / H)."""
        first = (self._split(part.to(keys.dtype).unsqueeze(1)) for part in prefix)  # (B, H, 1, d / H) each
        key, value = (torch.cat(pair, dim=2) for pair in zip(first, (keys, values), strict=True))
        return key, value

    def forward(self, hidden: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None,
                tokens: RealTokens | None = None) -> Tensor:
        """Attend from hidden (B, L, d), or rows (N, d) of ``tokens``; ``mask`` True where attending is allowed."""
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(
            self._split(self.query(hidden), tokens), keys, values, attn_mask=mask, dropout_p=dropout
        )  # (B, H, L, d / H)
        joined = heads.transpose(1, 2)
        return self.output(joined.reshape(hidden.shape) if tokens is None else tokens.rows(joined).flatten(1))

    def _split(self, states: Tensor, tokens: RealTokens | None = None) -> Tensor:
        states = states if tokens is None else tokens.padded(states)
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
        activation: of the feed-forward network.
    """

    def __init__(
        self, width: int, heads: int, feed_forward: int, dropout: float, number: int, activation: Activation = F.gelu
    ) -> None:
        super().__init__()
        self.number, self.activation = number, activation
        self.self_attention = Attention(width, heads, dropout)
        self.cross_attention = Attention(width, heads, dropout)
        self.widen = nn.Linear(width, feed_forward)
        self.narrow = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        hidden: Tensor,
        causal: Tensor | None,
        memory: Tensor,
        mask: Tensor,
        cache: Cache | None,
        prefix: tuple[Tensor, Tensor] | None = None,
        tokens: RealTokens | None = None,
        of_memory: RealTokens | None = None,
    ) -> Tensor:
        """Transform hidden (B, L, d) given memory (B, S, d), its mask (B, 1, 1, S) and a first key and value.

        With ``tokens`` hidden and the result are their rows (N, d); with ``of_memory`` memory is its rows.
        """
        normed = self.norms[0](hidden)
        keys, values = self.self_attention.keys_values(normed, tokens)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.number)
        if prefix is not None:
            keys, values = self.self_attention.before(prefix, keys, values)
        hidden = hidden + self.dropout(self.self_attention(normed, keys, values, causal, tokens))
        normed = self.norms[1](hidden)
        keys, values = self._of_memory(memory, cache, of_memory)
        hidden = hidden + self.dropout(self.cross_attention(normed, keys, values, mask, tokens))
        normed = self.norms[2](hidden)
        return hidden + self.dropout(self.narrow(self.activation(self.widen(normed))))

    def _of_memory(self, memory: Tensor, cache: Cache | None, tokens: RealTokens | None) -> tuple[Tensor, Tensor]:
        if cache is None:
            return self.cross_attention.keys_values(memory, tokens)
        if isinstance(cache, BeamCache):
            return cache.memory(self.number, lambda: self.cross_attention.keys_values(memory, tokens))
        if not cache.is_updated.get(self.number):
            cache.cross_attention_cache.update(*self.cross_attention.keys_values(memory, tokens), self.number)
            cache.is_updated[self.number] = True
        kept: Any = cache.cross_attention_cache.layers[self.number]
        return kept.keys, kept.values


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
