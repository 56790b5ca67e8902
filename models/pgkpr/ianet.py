"""IANet's aggregation model (Su et al. 2021, Keep the Primary, Rewrite the Secondary)."""

from collections.abc import Callable
from dataclasses import asdict
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.attention import Attention, DecoderLayer, DecoderStep
from models.common.layers import Decoder, Embedder, Encoder
from models.common.rows import RealTokens
from models.common.special import MASK, PAD
from models.pgkpr.base import Batch, RewriterConfig
from models.pgkpr.sequences import wrapped
from models.pgkpr.transformer import AttentiveRewriter

Tokens = tuple[Tensor, Tensor]  # ids and which of them are real, (B, S) each
_SEQUENCES = ("primary", "secondary")


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


class AggregationLayer(DecoderLayer):
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
        activation: inside the feed-forward network.
    """

    memories = 2
    additions = 4

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float,
                 activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        nn.Module.__init__(self)
        self.self_attention = Attention(width, heads, dropout)
        self.to_primary = Attention(width, heads, dropout)
        self.to_secondary = Attention(width, heads, dropout)
        self.widen, self.narrow = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.self_norm, self.cross_norm, self.joint_norm = (nn.LayerNorm(width) for _ in range(3))
        self.activation = activation

    def to_memories(self) -> list[Attention]:
        """Return the attentions to the primary memory and to the secondary one."""
        return [self.to_primary, self.to_secondary]

    def forward(self, hidden: Tensor, step: DecoderStep, number: int) -> Tensor:
        """Transform hidden, the vectors of ``step``, as layer ``number`` of a stack."""
        first = self.additions * number
        hidden = step.added(hidden, step.own(number, self.self_attention, self.self_norm(hidden)), first)
        one, two = (step.added(hidden, step.drawn(number, memory, attention, queries), first + 1 + memory)
                    for memory, (attention, queries) in enumerate(zip(self.to_memories(), self.asking(hidden),
                                                                      strict=True)))
        hidden = self.joint_norm(one + two)
        return step.added(hidden, self.narrow(self.activation(self.widen(self.fed(hidden)))), first + 3)

    def asking(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return what each attention to a memory reads of hidden."""
        queries = self.cross_norm(hidden)
        return queries, queries

    def fed(self, hidden: Tensor) -> Tensor:
        """Return what the feed-forward network reads of hidden."""
        return hidden


class SeparateNormsLayer(AggregationLayer):
    """An :class:`AggregationLayer` with the norms of the released code: one before each part, the feed-forward network
    among them, beside the one of the sum."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float,
                 activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__(width, heads, feed_forward, dropout, activation)
        self.secondary_norm, self.forward_norm = (nn.LayerNorm(width) for _ in range(2))

    def asking(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return what each attention to a memory reads of hidden."""
        return self.cross_norm(hidden), self.secondary_norm(hidden)

    def fed(self, hidden: Tensor) -> Tensor:
        """Return what the feed-forward network reads of hidden."""
        return self.forward_norm(hidden)


class IaNet(AttentiveRewriter):
    """IANet's aggregation model: one encoder for what is to be kept, one for what is to be rewritten.

    The mask of a source says which of its words are primary, by paired semantic importance. The primary and the
    secondary sequence are read by encoders of their own, embeddings are shared; the decoder attends to both in every
    layer. The same model serves IANet+X and IANet+S, which differ in the masks of test sources. In the released code
    each encoder has embeddings of its own (``ianet.embeddings: separate``), its layers other norms (``ianet.norms:
    separate``), and sequences stand between <s> and </s> (``source.wrapped``).
    """

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        layers = config.ianet
        self.encoders = nn.ModuleList(Encoder(asdict(config.sizes), layers.encoder_layers) for _ in range(2))
        kind = SeparateNormsLayer if layers.norms == "separate" else AggregationLayer
        self.decoder = Decoder(asdict(config.sizes), kind, layers.decoder_layers)
        if layers.embeddings == "separate":
            sizes = config.sizes
            self.source_embedders = nn.ModuleList(Embedder(config.vocab_size, sizes.width, sizes.dropout)
                                                  for _ in range(2))
        self.post_init()

    @property
    def uses_keywords(self) -> bool:
        """Whether ``mask`` is read: always, but for a batch that was planned."""
        return True

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of words, of sources if ``p`` leaves no doubt which of them are primary."""
        batch = super().planned(batch)
        primary = batch["p"] > 0 if "p" in batch else None
        if "primary_real" in batch or primary is None or not torch.equal(primary.to(batch["p"]), batch["p"]):
            return batch
        return {**batch, **self._sequences(batch, primary)}

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the memories of the primary and of the secondary sequence."""
        if mask is None:
            raise ValueError("IaNet: give the primary words of the sources, mask (B, L)")
        if "primary_real" not in batch:
            batch = {**batch, **self._sequences(batch, mask)}
        biases, projected = [], []
        for number, name in enumerate(_SEQUENCES):
            places, bias = self.seen(RealTokens.given(batch, name))
            states = self.encoders[number](self._embedder(number), batch[f"{name}_rows"], bias, places)
            biases.append(bias)
            projected += self.decoder.project(number, states, places)
        return (*biases, *projected)

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sum of the generation loss."""
        return {"generation": self.generation(batch, self.memory(batch, mask))}

    def _embedder(self, number: int) -> Embedder:
        """Return the embeddings of what encoder ``number`` reads."""
        if self.config.ianet.embeddings == "shared":
            return self.embedder
        return cast(Embedder, self.source_embedders[number])

    def _sequences(self, batch: Batch, primary: Tensor) -> dict[str, Tensor]:
        """Return both sequences as rows, and their places."""
        found: dict[str, Tensor] = {}
        for name, (ids, real) in zip(_SEQUENCES, primary_secondary(batch["x_ids"], primary, batch["x_lengths"]),
                                     strict=True):
            if self.config.source.wrapped:
                ids, lengths = wrapped(ids, real.sum(-1))
                real = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)
            tokens = RealTokens(real)
            found |= {**tokens.named(name), f"{name}_rows": tokens.rows(ids)}
        return found
