"""IANet's aggregation model (Su et al. 2021, Keep the Primary, Rewrite the Secondary; METHODS C.7)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import Attention, places
from models.decoding import BeamCache
from models.rewriters.base import Batch
from models.rewriters.config import RewriterConfig
from models.rewriters.layers import Embedder, Encoder, attendable, layer_sizes, memory_rows
from models.rewriters.special import MASK, PAD
from models.rewriters.transformer import AttentiveRewriter
from models.rows import RealTokens

Tokens = tuple[Tensor, Tensor]  # ids and which of them are real, (B, S) each
Memory = tuple[Tensor, Tensor]  # states (B, S, d) and which of them are real (B, S)
Rows = tuple[Tensor, RealTokens | None]  # see memory_rows


def primary_secondary(x_ids: Tensor, mask: Tensor, lengths: Tensor) -> tuple[Tokens, Tokens]:
    """Return the primary and the secondary sequence of each text, in which one [MASK] stands for a run of the others.

    Read in order, one taking the other's next run at every [MASK], the two restore the text.

    >>> ids, mask = torch.tensor([[11, 12, 13, 14]]), torch.tensor([[True, False, False, True]])
    >>> (primary, _), (secondary, _) = primary_secondary(ids, mask, torch.tensor([4]))
    >>> primary, secondary
    (tensor([[11,  6, 14]]), tensor([[ 6, 12, 13,  6]]))

    Args:
        x_ids: words (B, L).
        mask: True for primary words (B, L).
        lengths: words of each text (B,), each at least 1.

    Returns:
        Ids and which of them are real, of either sequence; (B, S) each, S as the longest of the batch needs. A text
        without primary words, or without secondary ones, has [MASK] alone in that sequence.
    """
    real = torch.arange(x_ids.shape[1], device=x_ids.device) < lengths.unsqueeze(1)
    primary, secondary = real & mask.bool(), real & ~mask.bool()
    return _collapsed(x_ids, primary, secondary), _collapsed(x_ids, secondary, primary)


def _collapsed(ids: Tensor, kept: Tensor, others: Tensor) -> Tokens:
    """Return the words under ``kept`` (B, L) with one [MASK] for each run of ``others`` (B, L)."""
    starts = others & ~F.pad(others, (1, -1))  # first words of runs
    taken = kept | starts
    counts = taken.sum(-1, keepdim=True)  # (B, 1)
    # what is taken moves to the left in its order
    order = taken.byte().argsort(dim=-1, descending=True, stable=True)[:, : int(counts.max())]
    real = torch.arange(order.shape[1], device=ids.device) < counts
    return ids.masked_fill(starts, MASK).gather(1, order).masked_fill(~real, PAD), real


class AggregationLayer(nn.Module):
    """A decoder layer that attends to two memories from one state.

    Self-attention, normalised before; then, all from the state x that it leaves, x1 = x + attention(primary),
    x2 = x + attention(secondary), x = LayerNorm(x1 + x2); then a feed-forward network. Which norms stand before the
    other parts is ours: one before the attentions to the memories, and none before the feed-forward network, which
    reads what was just normalised.

    Args:
        width: d.
        heads: of all three attentions.
        feed_forward: width inside the feed-forward network.
        dropout: on attention weights and on what each part adds, in training.
        number: position in the stack, under which keys and values are cached.
    """

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float, number: int) -> None:
        super().__init__()
        self.number = number
        self.self_attention = Attention(width, heads, dropout)
        self.to_primary = Attention(width, heads, dropout)
        self.to_secondary = Attention(width, heads, dropout)
        self.widen, self.narrow = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.self_norm, self.cross_norm, self.joint_norm = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, hidden: Tensor, causal: Tensor | None, memories: Sequence[tuple[Rows, Tensor]], cache: BeamCache | None,
        tokens: RealTokens | None = None
    ) -> Tensor:
        """Transform hidden (B, T, d), or the rows (N, d) of ``tokens``, given two memories and their masks."""
        normed = self.self_norm(hidden)
        keys, values = self.self_attention.keys_values(normed, tokens)
        if cache is not None:
            keys, values = cache.update(keys, values, self.number)
        hidden = hidden + self.dropout(self.self_attention(normed, keys, values, causal, tokens))
        queries = self.cross_norm(hidden)
        one = hidden + self._attended(self.to_primary, queries, memories[0], cache, 2 * self.number, tokens)
        two = hidden + self._attended(self.to_secondary, queries, memories[1], cache, 2 * self.number + 1, tokens)
        hidden = self.joint_norm(one + two)
        return hidden + self.dropout(self.narrow(F.relu(self.widen(hidden))))

    def _attended(
        self, attention: Attention, queries: Tensor, memory: tuple[Rows, Tensor], cache: BeamCache | None, slot: int,
        tokens: RealTokens | None
    ) -> Tensor:
        rows, mask = memory
        project = partial(attention.keys_values, *rows)
        keys, values = project() if cache is None else cache.memory(slot, project)
        return self.dropout(attention(queries, keys, values, mask, tokens))


class AggregationDecoder(nn.Module):
    """A stack of aggregation layers, with a final norm.

    Args:
        sizes: the block ``sizes``.
        layers: how many, whatever the block says.
    """

    def __init__(self, sizes: Mapping[str, Any], layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(AggregationLayer(*layer_sizes(sizes), number) for number in range(layers))
        self.norm = nn.LayerNorm(sizes["width"])

    def forward(
        self, embedder: Embedder, ids: Tensor, memories: Sequence[Memory], cache: BeamCache | None = None,
        tokens: RealTokens | None = None
    ) -> Tensor:
        """Return the states (B, T, d) from which the next tokens are predicted, or the rows (N, d) of ``tokens``.

        Args:
            embedder: of the tokens.
            ids: tokens (B, T); with a cache, the next ones of as many beams, all at one position.
            memories: the primary one and the secondary one.
            cache: keys and values of earlier tokens, extended in place.
            tokens: those of ``ids`` that are not padding; None: all of them.
        """
        positions, causal = places(ids, cache)
        hidden = embedder(ids, positions) if tokens is None else embedder.rows(ids, tokens)
        given = [(memory_rows(*memory, cache), attendable(memory[1])) for memory in memories]
        for layer in self.layers:
            hidden = layer(hidden, causal, given, cache, tokens)
        return self.norm(hidden)


class IaNet(AttentiveRewriter):
    """IANet's aggregation model: one encoder for what is to be kept, one for what is to be rewritten.

    The mask of a source says which of its words are primary, by paired semantic importance. The primary and the
    secondary sequence are read by encoders of their own, embeddings are shared; the decoder attends to both in every
    layer. The same model serves IANet+X and IANet+S, which differ in the masks of test sources.
    """

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        layers = config.ianet
        self.encoders = nn.ModuleList(Encoder(config.sizes, layers["encoder_layers"]) for _ in range(2))
        self.decoder = AggregationDecoder(config.sizes, layers["decoder_layers"])
        self.post_init()

    @property
    def uses_keywords(self) -> bool:
        """Whether ``mask`` is read: always."""
        return True

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return states and which of them are real, of the primary and then of the secondary sequence."""
        if mask is None:
            raise ValueError("IaNet: give the primary words of the sources, mask (B, L)")
        sequences = primary_secondary(batch["x_ids"], mask, batch["x_lengths"])
        found: list[Tensor] = []
        for encoder, (ids, real) in zip(self.encoders, sequences, strict=True):
            found += [encoder(self.embedder, ids, real), real]
        return tuple(found)

    def decode(self, tokens: Tensor, given: Sequence[Tensor], cache: BeamCache | None = None,
               real: RealTokens | None = None) -> Tensor:
        """Return the states that predict what follows tokens; see :meth:`AttentiveRewriter.decode`."""
        primary, primary_real, secondary, secondary_real = given
        memories = [(primary, primary_real), (secondary, secondary_real)]
        return self.decoder(self.embedder, tokens, memories, cache, real)

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sum of the generation loss."""
        return {"generation": self.generation(batch, self.memory(batch, mask))}
