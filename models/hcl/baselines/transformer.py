"""Transformer (Vaswani et al. 2017) over word pieces (METHODS B3)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.attention import DecoderLayer, DecoderStep, Heads, Projection, added, masking
from models.common.decoding import BeamCache, CachedSteps, Decodable, project_in_full
from models.common.layers import Decoder, Embedder, Encoder, EncoderLayer, Noise, layer_sizes
from models.common.rows import RealTokens
from models.hcl.baselines.base import Batch, OwnPieceModel, PieceConfig, item_sums, piece_nll


class PostNormEncoderLayer(EncoderLayer):
    """Self-attention and a feed-forward network, each normalised behind its addition, as the paper has it."""

    def forward(self, hidden: Tensor, projection: Projection, bias: Tensor, places: Heads, noise: Noise) -> Tensor:
        """Transform hidden (M, d); see :class:`EncoderLayer`."""
        heads = places.split(F.linear(hidden, *projection), 3)
        hidden = self.norms[0](added(hidden, self.attention(*heads, bias, places), noise[0]))
        return self.norms[1](added(hidden, self.narrow(self.activation(self.widen(hidden))), noise[1]))


class PostNormDecoderLayer(DecoderLayer):
    """The same with attention to a memory in between."""

    def forward(self, hidden: Tensor, step: DecoderStep, number: int) -> Tensor:
        """Transform hidden; see :class:`DecoderLayer`."""
        first = self.additions * number
        hidden = self.norms[0](step.added(hidden, step.own(number, self.self_attention, hidden), first))
        hidden = self.norms[1](step.added(hidden, step.drawn(number, 0, self.cross_attention, hidden), first + 1))
        return self.norms[2](step.added(hidden, self.narrow(self.activation(self.widen(hidden))), first + 2))


class PieceTransformer(OwnPieceModel):
    """Encoder and decoder share one table of embeddings, which scores the words too (the paper's 3.4).

    ``sizes`` is a block :class:`stages.tracks.hcl.params.PieceTransformer`. Symbols: d width, V vocabulary.
    """

    _supports_sdpa = True

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        self.embedder = Embedder(config.vocab_size, sizes["width"], sizes["dropout"])
        after = sizes["norm"] == "post"
        self.encoder, self.decoder = Encoder(sizes), Decoder(sizes, PostNormDecoderLayer if after else DecoderLayer)
        if after:  # what leaves a layer is normalised already
            layers = (PostNormEncoderLayer(*layer_sizes(sizes)) for _ in range(sizes["layers"]))
            self.encoder.layers = nn.ModuleList(layers)
            for stack in (self.encoder, self.decoder):
                stack.register_module("norm", nn.Identity())
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.post_init()

    def memory(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return what outputs are decoded from, a row per item; see :meth:`Decoder.forward`."""
        tokens = RealTokens.given(self.planned(batch), "x")
        places = Heads(self.config.sizes["heads"], tokens)
        bias = masking(tokens.real, self.bias)[:, None, None]
        states = self.encoder(self.embedder, tokens.rows(batch["x_ids"]), bias, places)
        return (bias, *self.decoder.project(0, states, places))

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        batch = self.planned(batch)
        tokens = RealTokens.given(batch, "y")
        states = self.decoder(self.embedder, tokens.rows(batch["y_in"]), self.memory(batch), None, tokens)
        logits = F.linear(states, self.embedder.words.weight, self.bias)
        return item_sums(piece_nll(logits, tokens.rows(batch["y_out"])), tokens)

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`PieceModel.begin`."""
        return CachedSteps(self._decoded, self._scored, self.memory(batch), slots), self.first(batch)

    def _decoded(self, tokens: Tensor, given: Sequence[Tensor], cache: BeamCache | None) -> Tensor:
        return self.decoder(self.embedder, tokens, given, cache)

    def _scored(self, states: Tensor) -> Tensor:
        return project_in_full(states, self.embedder.words.weight, self.bias)
