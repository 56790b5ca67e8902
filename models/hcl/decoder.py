"""Transformer decoder over a memory of encoder states and latent slots, with a key/value cache."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import EncoderDecoderCache

from models.decoding.cache import BeamCache
from models.hcl.config import HclConfig

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

    def keys_values(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Project states (B, S, d) to keys and values (B, H, S, d / H)."""
        return self._split(self.key(states)), self._split(self.value(states))

    def before(self, prefix: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a key and a value (B, d) before keys and values (B, H, S, d / H)."""
        first = (self._split(part.to(keys.dtype).unsqueeze(1)) for part in prefix)  # (B, H, 1, d / H) each
        key, value = (torch.cat(pair, dim=2) for pair in zip(first, (keys, values), strict=True))
        return key, value

    def forward(self, hidden: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from hidden (B, L, d) to keys and values; ``mask`` True where attending is allowed."""
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(
            self._split(self.query(hidden)), keys, values, attn_mask=mask, dropout_p=dropout
        )  # (B, H, L, d / H)
        return self.output(heads.transpose(1, 2).reshape(hidden.shape))

    def _split(self, states: Tensor) -> Tensor:
        batch, length, width = states.shape
        return states.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the memory and a feed-forward network, each normalised before.

    Args:
        config: model configuration.
        number: position in the stack, under which keys and values are cached.
    """

    def __init__(self, config: HclConfig, number: int) -> None:
        super().__init__()
        width, heads, dropout = config.hidden_size, config.num_attention_heads, config.decoder["dropout"]
        self.number = number
        self.self_attention = Attention(width, heads, dropout)
        self.cross_attention = Attention(width, heads, dropout)
        self.widen = nn.Linear(width, int(config.encoder["intermediate_size"]))
        self.narrow = nn.Linear(int(config.encoder["intermediate_size"]), width)
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
    ) -> Tensor:
        """Transform hidden (B, L, d) given memory (B, S, d), its mask (B, 1, 1, S) and a first key and value."""
        normed = self.norms[0](hidden)
        keys, values = self.self_attention.keys_values(normed)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.number)
        if prefix is not None:
            keys, values = self.self_attention.before(prefix, keys, values)
        hidden = hidden + self.dropout(self.self_attention(normed, keys, values, causal))
        normed = self.norms[1](hidden)
        hidden = hidden + self.dropout(self.cross_attention(normed, *self._of_memory(memory, cache), mask))
        normed = self.norms[2](hidden)
        return hidden + self.dropout(self.narrow(F.gelu(self.widen(normed))))

    def _of_memory(self, memory: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        if cache is None:
            return self.cross_attention.keys_values(memory)
        if isinstance(cache, BeamCache):
            return cache.memory(self.number, lambda: self.cross_attention.keys_values(memory))
        if not cache.is_updated.get(self.number):
            cache.cross_attention_cache.update(*self.cross_attention.keys_values(memory), self.number)
            cache.is_updated[self.number] = True
        kept: Any = cache.cross_attention_cache.layers[self.number]
        return kept.keys, kept.values


class Decoder(nn.Module):
    """A stack of decoder layers between embedded tokens and prediction states.

    Width, heads and feed-forward width follow the encoder (METHODS A.7).
    """

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.positions = nn.Embedding(int(config.encoder["max_position_embeddings"]), width)
        self.input_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.decoder["dropout"])
        self.layers = nn.ModuleList(DecoderLayer(config, number) for number in range(config.num_hidden_layers))
        self.output_norm = nn.LayerNorm(width)
        self.transform = nn.Linear(width, width)
        self.transform_norm = nn.LayerNorm(width)

    def forward(
        self,
        embedded: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        cache: Cache | None = None,
        prefixes: Sequence[tuple[Tensor, Tensor]] | None = None,
    ) -> Tensor:
        """Return the states (B, L, d) from which the next token is predicted.

        Args:
            embedded: token embeddings, with z added if there is one (B, L, d).
            memory: encoder states and further slots (B, S, d).
            memory_mask: True for real slots (B, S).
            cache: keys and values of earlier tokens, extended in place. With a :class:`BeamCache` the L tokens are
                the next ones of as many beams, all at one position.
            prefixes: a key and a value (B, d) for each layer, which every token may attend to; never cached.
        """
        numbers, causal = _places(embedded, cache)
        hidden = self.dropout(self.input_norm(embedded + self.positions(numbers)))
        mask = memory_mask[:, None, None, :].bool()
        if causal is not None and prefixes is not None:
            causal = F.pad(causal, (1, 0), value=True)
        for number, layer in enumerate(self.layers):
            hidden = layer(hidden, causal, memory, mask, cache, prefixes[number] if prefixes is not None else None)
        # as BERT's head for masked words: the embedding matrix, shared with the input, wants states of its own kind
        return self.transform_norm(F.gelu(self.transform(self.output_norm(hidden))))


def _places(embedded: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor | None]:
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
