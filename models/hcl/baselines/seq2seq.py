"""Seq2Seq with attention and a pointer (Bahdanau et al. 2015; See et al. 2017)."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from models.common.decoding import Decodable
from models.common.precision import recurrent
from models.common.rows import RealTokens
from models.hcl.baselines.base import Batch, OwnPieceModel, PieceConfig, item_sums
from models.hcl.baselines.recurrent import (
    AdditiveAttention,
    Given,
    PointerGenerator,
    RecurrentSteps,
    State,
    lengths_of,
    read,
)


class Pointing(OwnPieceModel):
    """An LSTM that writes words of the vocabulary or of the source; subclasses say what it attends to.

    ``decoder``, ``words`` and ``dropout`` are set by subclasses, which end with ``post_init()``. Symbols: s decoder
    outputs (B, T, d), x embeddings of the words that it reads (B, T, e). Contexts are not fed back into it, so that a
    target is read in one go.
    """

    decoder: nn.LSTM
    words: PointerGenerator
    dropout: nn.Dropout

    @property
    @abstractmethod
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written."""

    @abstractmethod
    def encode(self, batch: Batch) -> tuple[State, Given]:
        """Return the first hidden state and cell (B, 1, d), and what is decoded from, the source's tokens last."""

    @abstractmethod
    def features(self, embedded: Tensor, states: Tensor, given: Given) -> tuple[Tensor, Tensor]:
        """Return [s; contexts; x] (B, T, ...) of states s behind words x, and the attention to the source (B, T, S)."""

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        batch = self.planned(batch)
        tokens, (state, given) = RealTokens.given(batch, "y"), self.encode(batch)
        embedded = self.dropout(self.table(batch["y_in"]))
        states, _ = recurrent(self.decoder, embedded, tuple(part.transpose(0, 1).contiguous() for part in state))
        features, weights = self.features(embedded, states, given)
        same = batch["x_ids"].unsqueeze(1) == batch["y_out"].unsqueeze(-1)  # (B, T, S)
        matching = (weights * same).sum(-1)
        return item_sums(self.words.nll(tokens.rows(features), tokens.rows(matching), tokens.rows(batch["y_out"]),
                                        self.table.weight), tokens)

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`PieceModel.begin`."""
        return RecurrentSteps(self._advanced, self._scored, *self.encode(batch)), self.first(batch)

    def _advanced(self, tokens: Tensor, state: State, given: Given) -> tuple[Tensor, State]:
        embedded = self.table(tokens)  # (B, W, e)
        rows = embedded.flatten(0, 1).unsqueeze(1)
        states, last = recurrent(self.decoder, rows, tuple(part.flatten(0, 1).unsqueeze(0) for part in state))
        found, weights = self.features(embedded, states.view(*tokens.shape, -1), given)
        return torch.cat([found, weights.to(found.dtype)], dim=-1), tuple(
            part.view(*tokens.shape, -1) for part in last)

    def _scored(self, states: Tensor, given: Given) -> Tensor:
        x_ids = given[-1]
        features, weights = states[..., :-x_ids.shape[1]], states[..., -x_ids.shape[1]:]
        return self.words.scores(features, weights.float(), x_ids, self.table.weight)


class PointerSeq2Seq(Pointing):
    """A bidirectional LSTM reads the source; an LSTM writes, attends, and copies.

    ``sizes`` is a block :class:`stages.tracks.hcl.params.Seq2Seq`. The decoder attends to the encoder's outputs
    (B, S, 2 d), and starts from tanh(W [last forward; last backward state]) (our choice).
    """

    def __init__(self, config: PieceConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        width, embedding = sizes["width"], sizes["embedding"]
        self.embedding = nn.Embedding(config.vocab_size, embedding)
        self.dropout = nn.Dropout(sizes["dropout"])
        self.encoder = nn.LSTM(embedding, width, batch_first=True, bidirectional=True)
        self.bridge = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))  # to hidden and cell
        self.decoder = nn.LSTM(embedding, width, batch_first=True)
        self.attention = AdditiveAttention(2 * width, width, width)
        self.words = PointerGenerator(3 * width, embedding, config.vocab_size)
        self.post_init()

    @property
    def table(self) -> nn.Embedding:
        """Embeddings of the words that are read and written."""
        return self.embedding

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of target words, and the order in which sources are read."""
        found = {**super().planned(batch)}
        return found if "x_lengths" in found else {**found, **lengths_of(batch["x_mask"], "x")}

    def encode(self, batch: Batch) -> tuple[State, Given]:
        """Return the decoder's first states, and what is decoded from."""
        batch = self.planned(batch)
        embedded = self.dropout(self.embedding(batch["x_ids"]))
        memory, last = read(self.encoder, embedded, batch, "x")
        state = tuple(torch.tanh(layer(part)).unsqueeze(1) for layer, part in zip(self.bridge, last, strict=True))
        return state, (memory, self.attention.keys(memory), batch["x_mask"].bool(), batch["x_ids"])

    def features(self, embedded: Tensor, states: Tensor, given: Given) -> tuple[Tensor, Tensor]:
        """Return [s; c; x], and the attention."""
        contexts, weights = self.attention(states, *given[:3])
        return torch.cat([states, contexts, embedded], dim=-1), weights
