"""Transformer encoder and decoder, normalised before each part (Vaswani et al. 2017; METHODS C.5)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import Attention, DecoderLayer, places
from models.decoding import BeamCache
from models.losses import at_least_float32
from models.rows import RealTokens


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return the vectors (L, width) of ``positions`` (L,): sines and cosines in turn, of falling frequency."""
    frequencies = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width))
    angles = positions.unsqueeze(-1) * frequencies  # (L, ceil(width / 2))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :width]


class Embedder(nn.Module):
    """Token embeddings times sqrt(d), plus sinusoidal positions; encoder and decoder share one.

    Args:
        vocab_size: V.
        width: d.
        dropout: on the sum, in training.
    """

    def __init__(self, vocab_size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return vectors (B, L, d) of tokens (B, L) at ``positions`` (L,) or (1,); None: 0, 1, 2 and so on."""
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)
        return self._joined(ids, sinusoids(positions, self.words.embedding_dim))

    def rows(self, ids: Tensor, tokens: RealTokens) -> Tensor:
        """Return the vectors (N, d) of the rows of ``tokens``, whose ids are (B, L)."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        table = sinusoids(positions, self.words.embedding_dim)  # (L, d)
        return self._joined(tokens.rows(ids), table.index_select(0, tokens.columns()))

    def _joined(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.words(ids) * math.sqrt(self.words.embedding_dim) + positions)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each normalised before.

    Args:
        width: d.
        heads: of the attention.
        feed_forward: width inside the feed-forward network.
        dropout: on attention weights and on what each part adds, in training.
    """

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.widen = nn.Linear(width, feed_forward)
        self.narrow = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, tokens: RealTokens) -> Tensor:
        """Transform hidden, the rows (N, d) of ``tokens``."""
        normed = self.norms[0](hidden)
        attended = self.attention(normed, *self.attention.keys_values(normed, tokens), attendable(tokens.real), tokens)
        hidden = hidden + self.dropout(attended)
        return hidden + self.dropout(self.narrow(F.relu(self.widen(self.norms[1](hidden)))))


class Encoder(nn.Module):
    """A stack of encoder layers with a final norm.

    Args:
        sizes: the block ``sizes``: ``width``, ``heads``, ``feed_forward``, ``dropout`` and ``layers``.
        layers: so many instead.
    """

    def __init__(self, sizes: Mapping[str, Any], layers: int | None = None) -> None:
        super().__init__()
        count = sizes["layers"] if layers is None else layers
        self.layers = nn.ModuleList(EncoderLayer(*layer_sizes(sizes)) for _ in range(count))
        self.norm = nn.LayerNorm(sizes["width"])

    def forward(self, embedder: Embedder, ids: Tensor, real: Tensor) -> Tensor:
        """Return the states (B, S, d) of tokens (B, S); 0 where they are not ``real``."""
        tokens = RealTokens(real)
        hidden = embedder.rows(ids, tokens)
        for layer in self.layers:
            hidden = layer(hidden, tokens)
        return tokens.padded(self.norm(hidden))


class Decoder(nn.Module):
    """A stack of decoder layers over one memory, with a final norm.

    Args:
        sizes: the block ``sizes``.
    """

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(*layer_sizes(sizes), number, F.relu) for number in range(sizes["layers"])
        )
        self.norm = nn.LayerNorm(sizes["width"])

    def forward(
        self, embedder: Embedder, ids: Tensor, memory: Tensor, real: Tensor, cache: BeamCache | None = None,
        tokens: RealTokens | None = None
    ) -> Tensor:
        """Return the states (B, L, d) from which the next tokens are predicted, or the rows (N, d) of ``tokens``.

        Args:
            embedder: of the tokens.
            ids: tokens (B, L); with a cache, the next ones of as many beams, all at one position.
            memory: encoder states (B, S, d).
            real: True for its real places (B, S).
            cache: keys and values of earlier tokens, extended in place.
            tokens: those of ``ids`` that are not padding; None: all of them.
        """
        positions, causal = places(ids, cache)
        hidden = embedder(ids, positions) if tokens is None else embedder.rows(ids, tokens)
        memory, of_memory = memory_rows(memory, real, cache)
        for layer in self.layers:
            hidden = layer(hidden, causal, memory, attendable(real), cache, tokens=tokens, of_memory=of_memory)
        return self.norm(hidden)


def attendable(real: Tensor) -> Tensor:
    """Return the mask (B, 1, 1, S) of attention to the ``real`` (B, S) of a batch's places."""
    return real[:, None, None, :]


def memory_rows(memory: Tensor, real: Tensor, cache: BeamCache | None) -> tuple[Tensor, RealTokens | None]:
    """Return what layers project keys and values from: the rows (N, d) of what is ``real`` in memory (B, S, d).

    Later steps of a cache find it projected, so it is returned as it is, and None.
    """
    if cache is not None and cache.steps:
        return memory, None
    tokens = RealTokens(real)
    return tokens.rows(memory), tokens


def layer_sizes(sizes: Mapping[str, Any]) -> tuple[int, int, int, float]:
    """Return width, heads, feed-forward width and dropout of each layer, of the block ``sizes``."""
    return sizes["width"], sizes["heads"], sizes["feed_forward"], sizes["dropout"]


def token_nll(scores: nn.Module, states: Tensor, targets: Tensor) -> Tensor:
    """Return -log p of each of N tokens (N,).

    Args:
        scores: from states (N, d) to unnormalised scores (N, V).
        states: of the tokens to predict alone (N, d), since words are most of the work.
        targets: these tokens (N,).
    """
    (logits,) = at_least_float32(scores(states))
    return F.cross_entropy(logits, targets, reduction="none")
