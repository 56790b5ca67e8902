"""PGKPR: paraphrasing with keyword and part-of-speech reconstruction (Findings of ACL 2022), and the plain Transformer.

Symbols: B items, L words of a source, d width, V vocabulary, M real tokens of a batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel
from transformers import initialization as init

from models.common import BOS, EOS, IGNORE, NOK, PAD, SEP, filled
from models.common.decoding import BeamCache, CachedSteps, Decodable, Rules, beam_search, best_outputs, project_in_full
from models.common.losses import at_least_float32, pair_contrast
from models.common.transformer import Decoder, Embedder, Encoder, Heads, RealTokens, masking, token_nll
from models.pgkpr import settings

Batch = Mapping[str, Tensor]

GROUPS = tuple(group.name for group in fields(settings.RewriterSettings)[1:])


class RewriterConfig(PretrainedConfig):
    """Configuration of every :class:`Rewriter`; ``groups`` are plain values of those of :class:`RewriterSettings`."""

    model_type = "keycontrast-rewriter"
    reconstruction: settings.Reconstruction
    contrast: settings.PairContrast
    sizes: settings.Sizes
    residual_lstm: settings.ResidualLstmSettings
    latent_bow: settings.LatentBowSettings
    ianet: settings.IaNetSettings

    def __init__(self, architecture: str = "pgkpr", vocab_size: int = 8000, **groups: Any) -> None:
        self.architecture, self.vocab_size = architecture, vocab_size
        given = {name: groups.pop(name) for name in GROUPS if groups.get(name) is not None}
        values = filled(settings.RewriterSettings(), given)
        for name in GROUPS:
            setattr(self, name, getattr(values, name))
        groups.update(pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, tie_word_embeddings=False)
        super().__init__(**groups)

    @classmethod
    def from_params(cls, values: Mapping[str, Any], vocab_size: int) -> "RewriterConfig":
        """Build the configuration from the params block ``train_pgkpr`` as nested plain values."""
        groups = {name: values[name] for name in GROUPS if name in values}
        return cls(values["architecture"], vocab_size, **groups)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the groups nested."""
        return super().to_dict() | {name: asdict(getattr(self, name)) for name in GROUPS}


class Rewriter(PreTrainedModel, ABC):
    """Rewrites a source x as a target y; subclasses are the architectures, see :func:`load_rewriter`.

    A batch is a dict of int64 tensors, padded at the right with 0: ``x_ids``, ``x_tags`` (B, L) and ``x_lengths`` (B,),
    words and tags of sources; ``t_ids``, ``t_tags`` (B, Lt) and ``t_lengths`` (B,) of targets; ``y_in``, ``y_out`` (B,
    T), the target after <s> and the target before </s>; ``group`` (B,), equal for texts that mean the same; for
    latent_bow ``bow_ids`` (B, K). Decoding reads the source alone. ``mask`` (B, L) is True for keywords (or primary
    words).
    """

    config: RewriterConfig
    config_class = RewriterConfig
    base_model_prefix = "rewriter"
    main_input_name = "x_ids"
    uses_keywords = False  # whether ``mask`` is read
    contrasts = False  # whether a part of the loss contrasts the items of a batch, by without_contrast() and contrast()

    def without_contrast(self, batch: Batch, mask: Tensor | None) -> tuple[dict[str, Tensor], Tensor]:
        """Return :meth:`sums` without ``contrast``, and the vectors (B, W) that the contrast reads."""
        raise NotImplementedError

    def contrast(self, vectors: Tensor, groups: Tensor) -> Tensor:
        """Return ``contrast`` of :meth:`sums` from the vectors (B, W) of items and their ``group`` (B,)."""
        raise NotImplementedError

    @abstractmethod
    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return sums over the micro-batch, scalars with a graph, of each part of the loss that is not switched off:

        - ``generation``: -log p(y | x), over the tokens of ``y_out``;
        - ``reconstruction``: over tokens (``token_mean``), or over items of the mean over an item's tokens;
        - ``contrast``, ``bow``: over items.
        """

    @abstractmethod
    def begin(self, batch: Batch, mask: Tensor | None, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; return the steps of decoding, ``slots`` tokens per item, and the first token of each (B,)."""

    @torch.no_grad()
    def rewrite(self, batch: Batch, mask: Tensor | None, rules: Rules, num_beams: int = 1,
                count: int | None = None) -> Tensor:
        """Generate one output per source (B, L), or the ``count`` best (B, count, L), by a beam; 1 is greedy."""
        if self.training:
            raise ValueError(f"{type(self).__name__}: call eval() before rewrite(), or dropout decides the output")
        steps, start = self.begin(batch, mask, 1 + rules.max_length * num_beams)
        if count is None:
            return beam_search(steps, start, rules, num_beams=num_beams)
        return best_outputs(steps, start, rules, count, num_beams=num_beams)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw matrices, embeddings among them, by Xavier's rule; biases are 0 at first."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)


# TS_s (PGKPR section 4): sequences ``<s> part 1 <sep> part 2 </s>`` of each text


def perturbed(x_ids: Tensor, x_tags: Tensor, mask: Tensor, lengths: Tensor,
              width: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return TS_s of each text (B, W), the targets of its reconstruction, and which places are real.

    Part 1 has keywords as words and other words as tags, part 2 the reverse. Targets are the tags of part 1, the
    keywords of part 2 and [NOK] where part 2 has a word; <s>, <sep> and </s> are their own targets, padding ``IGNORE``.

    >>> ids, tags = torch.tensor([[21, 22]]), torch.tensor([[11, 12]])
    >>> perturbed(ids, tags, torch.tensor([[True, False]]), torch.tensor([2]))[:2]
    (tensor([[ 2, 21, 12,  4, 11, 22,  3]]), tensor([[ 2, 11, 12,  4, 21,  5,  3]]))
    """
    (words, tags, keywords), first, second, special, real = _laid_out((x_ids, x_tags, mask.bool()), lengths, width)
    targets = torch.where(first, tags, torch.where(keywords, words, NOK))
    ids = torch.where(keywords == first, words, tags)
    return (torch.where(first | second, ids, special),
            torch.where(first | second, targets, special).masked_fill(~real, IGNORE), real)


def counterpart(ids: Tensor, tags: Tensor, lengths: Tensor, order: str,
                width: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the unperturbed pair sequence of each text for the contrast, and which places are real (B, W)."""
    (words, labels), first, second, special, real = _laid_out((ids, tags), lengths, width)
    has_tags = first if order == "pos_sent" else second
    return torch.where(first | second, torch.where(has_tags, labels, words), special), real


def _laid_out(parts: Sequence[Tensor], lengths: Tensor,
              width: int | None) -> tuple[list[Tensor], Tensor, Tensor, Tensor, Tensor]:
    """Return ``parts`` (B, L) at the places (B, W) of both parts of sequences ``<s> part 1 <sep> part 2 </s>``.

    Also return the places of part 1, and of part 2; the ids of <s>, <sep>, </s> and padding; and the real places.
    """
    place = torch.arange(width or 2 * int(lengths.max()) + 3, device=lengths.device).unsqueeze(0)  # (1, W)
    length = lengths.unsqueeze(1)  # (B, 1)
    first = (place > 0) & (place <= length)
    second = (place > length + 1) & (place <= 2 * length + 1)
    real = place <= 2 * length + 2
    word = torch.where(first, place - 1, place - length - 2).clamp(0, parts[0].shape[1] - 1)
    special = torch.where(place == 0, BOS, torch.where(place == length + 1, SEP, torch.where(real, EOS, PAD)))
    return [part.gather(1, word) for part in parts], first, second, special, real


class AttentiveRewriter(Rewriter):
    """A model whose decoder attends to encoder states; one embedding reads all words, another matrix scores them."""

    _supports_sdpa = True
    decoder: Decoder

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        sizes = config.sizes
        self.embedder = Embedder(config.vocab_size, sizes.width, sizes.dropout)
        self.generator = nn.Linear(sizes.width, config.vocab_size)

    @abstractmethod
    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the tensors that outputs are decoded from, a row per item; see :meth:`Decoder.forward`."""

    def decode(self, tokens: Tensor, given: Sequence[Tensor], cache: BeamCache | None = None,
               real: RealTokens | None = None) -> Tensor:
        """Return the states (B, T, d) that predict the next tokens of (B, T); with ``real``, rows (M, ...) of both."""
        return self.decoder(self.embedder, tokens, given, cache, real)

    def scores(self, states: Tensor) -> Tensor:
        """Return scores over the vocabulary (..., V) of states (..., d); not differentiable, float32 at least."""
        return project_in_full(states, self.generator.weight, self.generator.bias)

    def begin(self, batch: Batch, mask: Tensor | None, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; see :meth:`Rewriter.begin`."""
        given = self.memory(batch, mask)
        start = torch.full((len(given[0]),), BOS, device=given[0].device)
        return CachedSteps(self.decode, self.scores, given, slots), start

    def attended(self, tokens: RealTokens) -> tuple[Heads, Tensor]:
        """Return the converter of ``tokens`` to heads of attention, and the mask of their padding (B, 1, 1, S)."""
        return Heads(self.config.sizes.heads, tokens), masking(tokens.real, self.generator.weight)[:, None, None]

    def generation(self, batch: Batch, given: Sequence[Tensor]) -> Tensor:
        """Return L_gen = -log p(y | x), summed over the tokens of all items, given :meth:`memory`."""
        real = RealTokens(batch["y_out"] != PAD)
        states = self.decode(real.rows(batch["y_in"]), given, real=real)
        return token_nll(self.generator, states, real.rows(batch["y_out"]), PAD)  # eq. 4

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sum of the generation loss."""
        return {"generation": self.generation(batch, self.memory(batch, mask))}


class TransformerRewriter(AttentiveRewriter):
    """One encoder, and a decoder with attention to all of its states; subclasses choose the encoder's input."""

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(asdict(config.sizes))
        self.decoder = Decoder(asdict(config.sizes))

    def memory_of(self, states: Tensor, places: Heads, bias: Tensor) -> tuple[Tensor, ...]:
        """Return :meth:`memory` of encoder states (M, d)."""
        return (bias, *self.decoder.project(0, states, places))


class PlainTransformer(TransformerRewriter):
    """The Transformer baseline: PGKPR without both of its losses, whose encoder reads the words of the source."""

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        self.post_init()

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the memory of the source's words; ``mask`` is not read."""
        lengths = batch["x_lengths"]
        tokens = RealTokens(torch.arange(int(lengths.max()), device=lengths.device) < lengths.unsqueeze(1))
        ids, attended = tokens.rows(batch["x_ids"][:, :tokens.real.shape[1]]), self.attended(tokens)
        return self.memory_of(self.encoder(self.embedder, ids, *attended), *attended)


class ReconstructionHead(nn.Module):
    """Scores of the reconstruction targets of each token of TS_s: dense, GELU, LayerNorm, linear."""

    def __init__(self, width: int, vocab_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocab_size)

    def read(self, states: Tensor) -> Tensor:
        """Return the features (N, d) that ``output`` scores."""
        return self.norm(F.gelu(self.dense(states)))


class Pgkpr(TransformerRewriter):
    """PGKPR as it is trained, saved and used: the encoder reads TS_s, the decoder attends to all of its states.

    L_rec is reconstruction of tags and keywords from encoder states, L_con a contrast of e_s, the mean encoding of
    TS_s, with e_t, that of the unperturbed pair sequence of the target, against other sentences of the batch. A loss of
    weight 0 is not computed; its modules exist, so that all rows start from the same weights.
    """

    uses_keywords = True

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__(config)
        self.contrasts = config.contrast.weight > 0
        self.reconstruction = ReconstructionHead(config.sizes.width, config.vocab_size)
        self.post_init()

    def memory(self, batch: Batch, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return the memory of TS_s."""
        tokens, ids, _ = self._perturbed(batch, mask)
        attended = self.attended(tokens)
        return self.memory_of(self.encoder(self.embedder, ids, *attended), *attended)

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the sums of generation and, if their weights are not 0, of reconstruction and contrast."""
        parts, vectors = self.without_contrast(batch, mask)
        return {**parts, "contrast": self.contrast(vectors, batch["group"])} if self.contrasts else parts

    def without_contrast(self, batch: Batch, mask: Tensor | None) -> tuple[dict[str, Tensor], Tensor]:
        """Return the sums without the contrast, and e_s, e_t and any further encoding of each item, joined."""
        sides, others, rows = self._sides(), [], []
        width: int | None = None
        if self._in_one_pass():  # all sequences have one width
            width = 2 * max(int(batch[f"{side}_lengths"].max()) for side in ("x", *sides)) + 3
        tokens, ids, targets = self._perturbed(batch, mask, width)
        for side in sides:
            words, tags, lengths = (batch[f"{side}_{part}"] for part in ("ids", "tags", "lengths"))
            plain, real = counterpart(words, tags, lengths, self.config.contrast.order, width)
            others.append(RealTokens(real))
            rows.append(others[-1].rows(plain))
        if width is not None:
            stacked = self.attended(RealTokens.stacked([tokens, *others]))
            all_states = self.encoder(self.embedder, torch.cat([ids, *rows]), *stacked)
            states, *contrasted = all_states.split([len(ids), *map(len, rows)])
        else:
            states, contrasted = self.encoder(self.embedder, ids, *self.attended(tokens)), []
        parts = {"generation": self.generation(batch, self.memory_of(states, *self.attended(tokens)))}
        if self.config.reconstruction.weight > 0:
            parts["reconstruction"] = self._reconstruction(states, targets, tokens)
        # Last on a CPU: the other terms then draw the same dropout and have the same bits, contrast or not.
        contrasted = contrasted or [self.encoder(self.embedder, state, *self.attended(of))
                                    for state, of in zip(rows, others, strict=True)]
        pooled = [_pooled(state, of) for state, of in zip([states, *contrasted], [tokens, *others], strict=True)]
        return parts, torch.cat(pooled, dim=-1)

    def contrast(self, vectors: Tensor, groups: Tensor) -> Tensor:
        """Return the contrast of the vectors (B, W) of :meth:`without_contrast`, summed over items."""
        anchor, positive, *others = vectors.split(self.config.sizes.width, dim=-1)
        similarity = self.config.contrast.sim
        temperature = 0.1 if similarity == "cosine" else 1.0  # eq. 3 has none
        return pair_contrast(anchor, positive, temperature, similarity, groups, *others).sum()

    def _in_one_pass(self) -> bool:
        """Whether all sequences are encoded in one pass, which saves kernel launches, but no time on a CPU."""
        return self.device.type != "cpu"

    def _sides(self) -> list[str]:
        """Return the sides whose unperturbed sequences are encoded: targets, and sources if these are negatives too."""
        if not self.contrasts:
            return []
        return ["t", "x"] if self.config.contrast.neg == "all" else ["t"]

    def _perturbed(self, batch: Batch, mask: Tensor | None,
                   width: int | None = None) -> tuple[RealTokens, Tensor, Tensor]:
        """Return the tokens of TS_s, and as rows (M,) their ids and targets."""
        if mask is None:
            raise ValueError("Pgkpr: give the keywords of the sources, mask (B, L)")
        ids, targets, real = perturbed(batch["x_ids"], batch["x_tags"], mask, batch["x_lengths"], width)
        tokens = RealTokens(real)
        return tokens, tokens.rows(ids), tokens.rows(targets)

    def _reconstruction(self, states: Tensor, targets: Tensor, tokens: RealTokens) -> Tensor:
        """Return L_rec of states (M, d), summed over tokens, or over items of the mean over an item's tokens."""
        head, by_token = self.reconstruction, self.config.reconstruction.reduction == "token_mean"
        # eq. 2, read as a cross-entropy (M,)
        losses = token_nll(head.output, head.read(states), targets, IGNORE, "sum" if by_token else "none")
        if by_token:
            return losses
        counts = tokens.real.sum(-1, keepdim=True).expand_as(tokens.real)  # (B, S)
        return (losses / tokens.rows(counts)).sum()


def _pooled(states: Tensor, tokens: RealTokens) -> Tensor:
    """Return the mean over real places (B, d) of states (M, d), in float32 under autocast too."""
    (states,) = at_least_float32(states)
    weights = (tokens.real / tokens.real.sum(-1, keepdim=True)).to(states.dtype).unsqueeze(1)  # (B, 1, S)
    with torch.autocast(states.device.type, enabled=False):
        return (weights @ tokens.padded(states)).squeeze(1)
