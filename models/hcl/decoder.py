"""Transformer decoder over a memory of encoder states and latent slots, with a key/value cache."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import EncoderDecoderCache

from models.hcl.config import HclConfig


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
        self, hidden: Tensor, causal: Tensor | None, memory: Tensor, mask: Tensor, cache: EncoderDecoderCache | None
    ) -> Tensor:
        """Transform hidden (B, L, d) given memory (B, S, d) and its mask (B, 1, 1, S)."""
        normed = self.norms[0](hidden)
        keys, values = self.self_attention.keys_values(normed)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.number)
        hidden = hidden + self.dropout(self.self_attention(normed, keys, values, causal))
        normed = self.norms[1](hidden)
        hidden = hidden + self.dropout(self.cross_attention(normed, *self._of_memory(memory, cache), mask))
        normed = self.norms[2](hidden)
        return hidden + self.dropout(self.narrow(F.gelu(self.widen(normed))))

    def _of_memory(self, memory: Tensor, cache: EncoderDecoderCache | None) -> tuple[Tensor, Tensor]:
        if cache is None:
            return self.cross_attention.keys_values(memory)
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
        self, embedded: Tensor, memory: Tensor, memory_mask: Tensor, cache: EncoderDecoderCache | None = None
    ) -> Tensor:
        """Return the states (B, L, d) from which the next token is predicted.

        Args:
            embedded: token embeddings, with z added if there is one (B, L, d).
            memory: encoder states and further slots (B, S, d).
            memory_mask: True for real slots (B, S).
            cache: keys and values of earlier tokens, extended in place.
        """
        past, length = (cache.get_seq_length() if cache is not None else 0), embedded.shape[1]
        numbers = torch.arange(past, past + length, device=embedded.device)
        hidden = self.dropout(self.input_norm(embedded + self.positions(numbers)))
        causal, mask = causal_mask(length, past, embedded.device), memory_mask[:, None, None, :].bool()
        for layer in self.layers:
            hidden = layer(hidden, causal, memory, mask, cache)
        # as BERT's head for masked words: the embedding matrix, shared with the input, wants states of its own kind
        return self.transform_norm(F.gelu(self.transform(self.output_norm(hidden))))


def causal_mask(length: int, past: int, device: torch.device) -> Tensor | None:
    """Return which of ``past + length`` keys each of ``length`` queries may see; None if it is all of them."""
    if length == 1:
        return None
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)
