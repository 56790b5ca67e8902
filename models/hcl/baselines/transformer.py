"""Transformer (Vaswani et al. 2017) over word pieces."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.decoding import BeamCache, CachedSteps, Decodable, project_in_full
from models.common.rows import RealTokens
from models.common.transformer import Decoder, DecoderLayer, Embedder, Encoder, Heads, masking
from models.hcl.baselines.base import Batch, OwnPieceModel, PieceConfig, item_sums, piece_nll


class PieceTransformer(OwnPieceModel):
    """Encoder and decoder share one table of embeddings, which scores the words too (the paper's 3.4).

    ``sizes`` is a block :class:`stages.tracks.common.params.Sizes`. Symbols: d width, V vocabulary.
    """

    _supports_sdpa = True

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        self.embedder = Embedder(config.vocab_size, sizes["width"], sizes["dropout"])
        self.encoder, self.decoder = Encoder(sizes), Decoder(sizes, DecoderLayer)
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
