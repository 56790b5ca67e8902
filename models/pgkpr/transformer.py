"""Transformer encoder-decoders over source words: what PGKPR builds on, and the plain baseline."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor, nn

from models.common.attention import Heads, masking
from models.common.decoding import BeamCache, CachedSteps, Decodable, project_in_full
from models.common.layers import Decoder, Embedder, Encoder, token_nll
from models.common.rows import RealTokens
from models.common.special import BOS, PAD
from models.pgkpr.base import Batch, Rewriter, RewriterConfig
from models.pgkpr.sequences import wrapped


class AttentiveRewriter(Rewriter):
    """A model whose decoder attends to encoder states; subclasses say what is encoded, and how it is decoded.

    One embedding serves all inputs, an output matrix of its own the scores. Symbols: d width, V vocabulary, (B, S)
    what an encoder reads, (B, T) what the decoder reads.
    """

    _supports_sdpa = True
    decoder: Decoder

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        self.embedder = Embedder(config.vocab_size, sizes.width, sizes.dropout)
        self.generator = nn.Linear(sizes.width, config.vocab_size)

    @abstractmethod
    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return what outputs are decoded from, a row per item; see :meth:`Decoder.forward`."""

    def decode(self, tokens: Tensor, given: Sequence[Tensor], cache: BeamCache | None = None,
               real: RealTokens | None = None) -> Tensor:
        """Return the states (B, T, d) that predict what follows tokens (B, T), given :meth:`memory`.

        With ``real``, tokens are its rows (M,), and so are the states (M, d).
        """
        return self.decoder(self.embedder, tokens, given, cache, real)

    def scores(self, states: Tensor) -> Tensor:
        """Return scores over the vocabulary (..., V) of states (..., d); not differentiable, float32 at least."""
        return project_in_full(states, self.generator.weight, self.generator.bias)

    def begin(self, batch: Batch, mask: Tensor | None, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`Rewriter.begin`."""
        given = self.memory(batch, mask)
        start = torch.full((len(given[0]),), BOS, device=given[0].device)
        return CachedSteps(self.decode, self.scores, given, slots), start

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of the targets' words, where there are targets."""
        if "y_out" not in batch or "y_real" in batch:
            return batch
        return {**batch, **RealTokens(batch["y_out"] != PAD).named("y")}

    def seen(self, tokens: RealTokens) -> tuple[Heads, Tensor]:
        """Return ``tokens`` as heads of attention, and what hides padding from them (B, 1, 1, S)."""
        return Heads(self.config.sizes.heads, tokens), masking(tokens.real, self.generator.weight)[:, None, None]

    def generation(self, batch: Batch, given: Sequence[Tensor]) -> Tensor:
        """Return -log p(y | x), summed over the tokens of all items, given :meth:`memory`."""
        real = RealTokens.given(self.planned(batch), "y")
        states = self.decode(real.rows(batch["y_in"]), given, real=real)
        return token_nll(self.generator, states, real.rows(batch["y_out"]), PAD)


class TransformerRewriter(AttentiveRewriter):
    """One encoder, and a decoder with attention to all of its states; subclasses say what the encoder reads."""

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(asdict(config.sizes))
        self.decoder = Decoder(asdict(config.sizes))

    def encode(self, ids: Tensor, places: Heads, bias: Tensor) -> Tensor:
        """Return encoder states (M, d) of tokens (M,), the rows of ``places``, of which ``bias`` hides padding."""
        return self.encoder(self.embedder, ids, bias, places)

    def remembered(self, states: Tensor, places: Heads, bias: Tensor) -> tuple[Tensor, ...]:
        """Return :meth:`memory` of encoder states (M, d)."""
        return (bias, *self.decoder.project(0, states, places))


class PlainTransformer(TransformerRewriter):
    """The Transformer baseline: the encoder reads the words of the source, nothing else.

    It differs from PGKPR without both of its losses in this input. With ``source.wrapped`` it reads them between <s>
    and </s>, as the released code has it.
    """

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        self.post_init()

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of the words of sources and targets."""
        if "x_real" in batch:
            return batch
        ids, lengths = batch["x_ids"], batch["x_lengths"]
        if self.config.source.wrapped:
            ids, lengths = wrapped(ids, lengths)
        tokens = RealTokens(torch.arange(int(lengths.max()), device=lengths.device) < lengths.unsqueeze(1))
        rows = tokens.rows(ids[:, :tokens.real.shape[1]])
        return {**super().planned(batch), **tokens.named("x"), "x_rows": rows}

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the memory of the source's words; ``mask`` is not read."""
        batch = self.planned(batch)
        seen = self.seen(RealTokens.given(batch, "x"))
        return self.remembered(self.encode(batch["x_rows"], *seen), *seen)

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sum of the generation loss."""
        batch = self.planned(batch)
        return {"generation": self.generation(batch, self.memory(batch, mask))}
