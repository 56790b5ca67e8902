"""Transformer encoder and decoder, normalised before each part (Vaswani et al. 2017)."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.attention import (
    Attention,
    DecoderLayer,
    DecoderStep,
    Heads,
    Projection,
    added,
    causal,
    joined_groups,
    masking,
    residual_noise,
)
from models.common.decoding import BeamCache
from models.common.losses import at_least_float32
from models.common.rows import RealTokens

Noise = Sequence[Tensor | None]
_TABLE = 256  # positions that a table of them begins with
_ALIGNED = 64  # words come in multiples of it, as matrix units of accelerators want them


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
        self._table: Tensor | None = None  # vectors of positions; not saved, since positions say what they are

    def forward(self, ids: Tensor, first: int = 0) -> Tensor:
        """Return vectors (B, L, d) of tokens (B, L) at the positions from ``first`` on."""
        return self._joined(ids, self._positions(first + ids.shape[1])[first:first + ids.shape[1]])

    def beams(self, ids: Tensor, position: int) -> Tensor:
        """Return vectors (B, W, d) of tokens (B, W), all at one position."""
        return self._joined(ids, self._positions(position + 1)[position])

    def rows(self, ids: Tensor, tokens: RealTokens) -> Tensor:
        """Return the vectors (M, d) of tokens (M,), the rows of ``tokens``."""
        return self._joined(ids, self._positions(tokens.real.shape[1]).index_select(0, tokens.columns))

    def _joined(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(torch.add(positions, self.words(ids), alpha=math.sqrt(self.words.embedding_dim)))

    def _positions(self, count: int) -> Tensor:
        """Return the vectors of at least ``count`` positions, kept on the device for the next batch."""
        weight, table = self.words.weight, self._table
        if table is None or len(table) < count or (table.device, table.dtype) != (weight.device, weight.dtype):
            size = max(_TABLE, 1 << (count - 1).bit_length())
            table = sinusoids(torch.arange(size, device=weight.device), weight.shape[1]).to(weight.dtype)
            self._table = table
        return table


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each normalised before.

    Args:
        width: d.
        heads: of the attention.
        feed_forward: width inside the feed-forward network.
        dropout: on attention weights and on what each part adds, in training.
        activation: inside the feed-forward network.
    """

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float,
                 activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.widen = nn.Linear(width, feed_forward)
        self.narrow = nn.Linear(feed_forward, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.activation = activation

    def forward(self, hidden: Tensor, projection: Projection, bias: Tensor, places: Heads, noise: Noise) -> Tensor:
        """Transform hidden (M, d), the rows of ``places``, of which ``bias`` hides padding.

        Args:
            hidden: rows.
            projection: to queries, keys and values.
            bias: see :class:`models.common.attention.Attention`.
            places: of the rows.
            noise: of both parts.
        """
        heads = places.split(F.linear(self.norms[0](hidden), *projection), 3)
        hidden = added(hidden, self.attention(*heads, bias, places), noise[0])
        return added(hidden, self.narrow(self.activation(self.widen(self.norms[1](hidden)))), noise[1])


class Encoder(nn.Module):
    """A stack of encoder layers with a final norm.

    Args:
        sizes: the block ``sizes``: ``width``, ``heads``, ``feed_forward``, ``dropout``, ``layers`` and perhaps
            ``inner_dropout``.
        layers: so many instead.
    """

    def __init__(self, sizes: Mapping[str, Any], layers: int | None = None) -> None:
        super().__init__()
        count = sizes["layers"] if layers is None else layers
        self.layers = nn.ModuleList(EncoderLayer(*layer_sizes(sizes)) for _ in range(count))
        self.norm = nn.LayerNorm(sizes["width"])
        self.dropout = sizes["dropout"]

    def forward(self, embedder: Embedder, ids: Tensor, bias: Tensor, places: Heads) -> Tensor:
        """Return the states (M, d) of tokens (M,), rows of ``places``, of which ``bias`` (B, 1, 1, S) hides padding."""
        tokens = places.tokens
        assert tokens is not None
        hidden = embedder.rows(ids, tokens)
        noise = residual_noise(hidden, self.dropout, 2 * len(self.layers), self.training)
        projections = joined_groups([cast(EncoderLayer, layer).attention.projections for layer in self.layers])
        for number, (layer, projection) in enumerate(zip(self.layers, projections, strict=True)):
            hidden = layer(hidden, projection, bias, places, noise[2 * number:])
        return self.norm(hidden)


class Decoder(nn.Module):
    """A stack of decoder layers over one memory or several, with a final norm.

    Args:
        sizes: the block ``sizes``.
        kind: of layers.
        layers: how many, whatever the block says.
    """

    def __init__(self, sizes: Mapping[str, Any], kind: type[DecoderLayer] = DecoderLayer,
                 layers: int | None = None) -> None:
        super().__init__()
        count = sizes["layers"] if layers is None else layers
        self.layers = nn.ModuleList(kind(*layer_sizes(sizes)) for _ in range(count))
        self.norm = nn.LayerNorm(sizes["width"])
        self.dropout, self.heads = sizes["dropout"], sizes["heads"]
        self.memories, self.additions = kind.memories, kind.additions

    def project(self, memory: int, states: Tensor, places: Heads) -> list[Tensor]:
        """Return keys and values (B, H, S, d / H) of every layer, in turn, of a memory's states (M, d)."""
        attentions: list[Attention] = [layer.to_memories()[memory] for layer in self.layers]  # type: ignore[operator]
        (projection,) = joined_groups([[part for one in attentions for part in (one.key, one.value)]])
        return list(places.split(F.linear(states, *projection), 2 * len(attentions)))

    def forward(self, embedder: Embedder, ids: Tensor, given: Sequence[Tensor], cache: BeamCache | None = None,
                tokens: RealTokens | None = None) -> Tensor:
        """Return the states (B, L, d) from which the next tokens are predicted, or the rows (M, d) of ``tokens``.

        Args:
            embedder: of the tokens.
            ids: tokens (B, L); with a cache, the next ones of as many beams, all at one position; with ``tokens``,
                their rows (M,).
            given: for each memory what hides its padding, then :meth:`project` of each.
            cache: keys and values of earlier tokens, extended in place.
            tokens: those of ``ids`` that are not padding; None: all of them.
        """
        hidden, own_bias = self._embedded(embedder, ids, cache, tokens)
        biases, count = given[:self.memories], 2 * len(self.layers)
        flat = [given[self.memories + number * count:][:count] for number in range(self.memories)]
        memories = [list(zip(parts[::2], parts[1::2], strict=True)) for parts in flat]
        noise = residual_noise(hidden, self.dropout, self.additions * len(self.layers), self.training)
        projections = self._projections(cache)
        step = DecoderStep(Heads(self.heads, tokens), projections, own_bias, memories, biases, noise, cache)
        for number, layer in enumerate(self.layers):
            hidden = layer(hidden, step, number)
        return self.norm(hidden)

    def _embedded(self, embedder: Embedder, ids: Tensor, cache: BeamCache | None,
                  tokens: RealTokens | None) -> tuple[Tensor, Tensor | None]:
        """Return the vectors of tokens, and what hides others from them."""
        if cache is not None:
            hidden, allowed = embedder.beams(ids, cache.steps), cache.allowed(ids.shape[1], ids.device)
            return hidden, None if allowed is None else masking(allowed, hidden)
        hidden = embedder(ids) if tokens is None else embedder.rows(ids, tokens)
        return hidden, causal((ids if tokens is None else tokens.real).shape[1], hidden)

    def _projections(self, cache: BeamCache | None) -> Sequence[Projection]:
        def made() -> list[Projection]:
            return joined_groups([cast(DecoderLayer, layer).self_attention.projections for layer in self.layers])

        return made() if cache is None else cache.once(made)


def layer_sizes(sizes: Mapping[str, Any]) -> tuple[int, int, int, float, Callable[[Tensor], Tensor]]:
    """Return width, heads, feed-forward width, dropout and activation of a layer, of the block ``sizes``.

    The activation is ReLU, with ``inner_dropout`` followed by dropout.
    """
    inner = nn.Sequential(nn.ReLU(), nn.Dropout(sizes["dropout"])) if sizes.get("inner_dropout") else F.relu
    return sizes["width"], sizes["heads"], sizes["feed_forward"], sizes["dropout"], inner


def token_nll(output: nn.Linear, states: Tensor, targets: Tensor, ignored: int, reduction: str = "sum") -> Tensor:
    """Return -log p of tokens, summed, or (M,) with ``reduction`` "none".

    The words are continued to a multiple of 64 by words of no probability.

    Args:
        output: from states (M, d) to unnormalised scores (M, V).
        states: of the tokens to predict alone (M, d), since words are most of the work.
        targets: these tokens (M,).
        ignored: token that costs nothing.
        reduction: "sum" or "none".
    """
    weight: Tensor = output.weight
    bias: Tensor = output.bias
    if lacking := -output.out_features % _ALIGNED:
        weight = torch.cat([weight, weight.new_zeros(lacking, weight.shape[1])])
        bias = torch.cat([bias, bias.new_full((lacking,), -torch.inf)])
    (logits,) = at_least_float32(F.linear(states, weight, bias))
    return F.cross_entropy(logits, targets, ignore_index=ignored, reduction=reduction)
