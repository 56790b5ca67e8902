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
from models.rewriters.special import IGNORE


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
        width = self.words.embedding_dim
        return self.dropout(self.words(ids) * math.sqrt(width) + sinusoids(positions, width))


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

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Transform hidden (B, S, d); ``mask`` (B, 1, 1, S) is True for real places."""
        normed = self.norms[0](hidden)
        attended = self.attention(normed, *self.attention.keys_values(normed), mask)
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

    def forward(self, embedded: Tensor, real: Tensor) -> Tensor:
        """Return states (B, S, d) of embedded tokens (B, S, d), of which those under ``real`` (B, S) are attended."""
        mask = real[:, None, None, :]
        for layer in self.layers:
            embedded = layer(embedded, mask)
        return self.norm(embedded)


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
        self, embedder: Embedder, ids: Tensor, memory: Tensor, real: Tensor, cache: BeamCache | None = None
    ) -> Tensor:
        """Return the states (B, L, d) from which the next tokens are predicted.

        Args:
            embedder: of the tokens.
            ids: tokens (B, L); with a cache, the next ones of as many beams, all at one position.
            memory: encoder states (B, S, d).
            real: True for its real places (B, S).
            cache: keys and values of earlier tokens, extended in place.
        """
        positions, causal = places(ids, cache)
        hidden, mask = embedder(ids, positions), real[:, None, None, :]
        for layer in self.layers:
            hidden = layer(hidden, causal, memory, mask, cache)
        return self.norm(hidden)


def layer_sizes(sizes: Mapping[str, Any]) -> tuple[int, int, int, float]:
    """Return width, heads, feed-forward width and dropout of each layer, of the block ``sizes``."""
    return sizes["width"], sizes["heads"], sizes["feed_forward"], sizes["dropout"]


def token_nll(scores: nn.Module, states: Tensor, targets: Tensor) -> Tensor:
    """Return -log p of every token that is to be predicted (N,), row by row.

    States at other places never meet the vocabulary, which is most of the work.

    Args:
        scores: from states (N, d) to unnormalised scores (N, V).
        states: (B, L, d).
        targets: tokens (B, L); ``IGNORE`` where nothing is to be predicted.
    """
    wanted = targets != IGNORE
    (logits,) = at_least_float32(scores(states[wanted]))
    return F.cross_entropy(logits, targets[wanted], reduction="none")
