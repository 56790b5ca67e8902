"""What every baseline of word pieces has in common, the Transformer (Vaswani et al. 2017), and Group-wise on top of it.

Group-wise contrastive learning (Cai et al. 2020, Group-wise Contrastive Learning for Neural Dialogue Generation): a
target model p_m learns on pairs by cross-entropy first; then a copy p_n of it is frozen, and p_m learns to raise,
against p_n, the probability of pairs that match, and to lower that of pairs that do not.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers import initialization as init

from models.common.decoding import BeamCache, CachedSteps, Decodable, Rules, beam_search, project_in_full
from models.common.losses import at_least_float32
from models.common.rows import RealTokens
from models.common.task import Step
from models.common.transformer import Decoder, DecoderLayer, Embedder, Encoder, Heads, masking

Batch = Mapping[str, Tensor]
_PRETRAINING = 5_000  # steps by likelihood alone, at most
_RISING = 7_000  # steps at speed 1 until the contrast has 0.999 of the loss


class PieceModel(ABC):
    """A mixin beside ``PreTrainedModel``: what the frame of training and decoding asks of a baseline.

    A batch is a dict of tensors: ``x_ids``, ``x_mask`` (B, Lx), a source between its marks; ``y_ids``, ``y_mask``
    (B, Ly), a target between the same; ``y_in``, ``y_out``, ``y_in_mask`` (B, T), the target behind the start token and
    before the end token; ``neg_*`` likewise of negatives; all padded at the right; and :meth:`inputs`. Decoding has
    ``x_*`` and :meth:`inputs` alone. Values of items are in nats and not divided by any length.

    Attributes:
        noise_size: size of ``eps`` (B, ``noise_size``), noise that a validation batch holds, fixed by example; 0: none.
        encoder_prefix: what the names of parameters begin with that learn at the encoder's rate; None for none.
    """

    noise_size = 0
    encoder_prefix: str | None = None

    def inputs(self, sources: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Return further tensors that the model reads of source texts, a row per text."""
        return {}

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with what follows from its numbers alone, for which a device would be waited for."""
        return batch

    @abstractmethod
    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x), or a bound above it, of each item (B,), summed over its tokens, end token included."""

    def validation(self, batch: Batch) -> dict[str, Tensor]:
        """Return what is watched on validation items, a value for each (B,); ``loss`` chooses the weights."""
        nll = self.nll(batch)
        return {"loss": nll, "reconstruction": nll}

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return what is minimised, ``loss``, and its parts, a value for each item (B,)."""
        return {"loss": self.nll(batch)}

    def settled(self, total: int) -> int:
        """Return from which of ``total`` steps on the objective is final: earlier epochs are not chosen."""
        return 0

    def trainee(self) -> nn.Module:
        """Return what is trained: itself, or a module around it, as its ``model``, with an ``objective`` of its own.

        What such a module keeps besides are persistent buffers: checkpoints hold them, saved models do not.
        """
        assert isinstance(self, nn.Module)
        return self

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; return the steps of decoding, ``slots`` tokens an item, and the first token of each (B,)."""
        raise NotImplementedError(f"{type(self).__name__} has a rewrite() of its own")

    @torch.no_grad()
    def rewrite(self, batch: Batch, rules: Rules, num_beams: int = 1, length_penalty: float = 1.0) -> Tensor:
        """Generate one output per source by beam search: tokens (B, L), the output, the end token, then padding."""
        steps, start = self.begin(batch, 1 + rules.max_length * num_beams)
        return beam_search(steps, start, rules, num_beams=num_beams, length_penalty=length_penalty)


class PieceConfig(PretrainedConfig):
    """Configuration of a baseline that is built here.

    Args:
        architecture: its name in the params.
        vocab_size: V, of the tokenizer.
        sizes: its block of the params, plain.
        mean_target_length: of the training targets, end token included.
        kwargs: ``pad_token_id``, ``bos_token_id`` (the start token) and ``eos_token_id``, among others.
    """

    model_type = "keycontrast-pieces"

    def __init__(self, architecture: str = "transformer", vocab_size: int = 30522,
                 sizes: Mapping[str, Any] | None = None, mean_target_length: float = 1.0, **kwargs: Any) -> None:
        self.architecture, self.vocab_size = architecture, vocab_size
        self.sizes, self.mean_target_length = dict(sizes or {}), mean_target_length
        super().__init__(**{**kwargs, "tie_word_embeddings": False})


class OwnPieceModel(PieceModel, PreTrainedModel):
    """A baseline that is built here, on a :class:`PieceConfig`; its weights are drawn from torch's generator."""

    config: PieceConfig
    config_class = PieceConfig
    base_model_prefix = "pieces"
    main_input_name = "x_ids"

    def forward(self, batch: Batch) -> Tensor:
        """Return :meth:`nll`."""
        return self.nll(batch)

    def planned(self, batch: Batch) -> Batch:
        """Return ``batch`` with the places of real tokens of sources and, where there are any, of targets."""
        found = {**batch}
        for name, mask in (("x", "x_mask"), ("y", "y_in_mask")):
            if mask in batch and f"{name}_real" not in batch:
                found |= RealTokens(batch[mask]).named(name)
        return found

    def first(self, batch: Batch) -> Tensor:
        """Return the first token of each output (B,)."""
        return torch.full((len(batch["x_ids"]),), int(self.config.bos_token_id), device=batch["x_ids"].device)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw matrices by Xavier's rule, and embeddings so that they are as long as positions; biases begin at 0."""
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim ** -0.5)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)


def item_sums(values: Tensor, tokens: RealTokens) -> Tensor:
    """Return the sums (B,) of values (M,), the rows of ``tokens``, over the tokens of each item."""
    return tokens.padded(values).masked_fill(~tokens.real, 0.0).sum(-1)


def piece_nll(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log p of tokens (M,) under unnormalised scores (M, V), in float32 at least."""
    (logits,) = at_least_float32(logits)
    return F.cross_entropy(logits, targets, reduction="none")


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


def pair_loss(advantage: Tensor, match: Tensor) -> Tensor:
    """Return -log(1/2 + s (sigmoid(G) - 1/2)) of pairs, which draws sigmoid(G) to 1 for s of 1, and to 0 for -1.

    ``advantage`` is G = log p_m(r | c) - log p_n(r | c), of sums over all tokens, ``match`` s in [-1, 1]; 0 teaches
    nothing.
    """
    # 1/2 + s (h - 1/2) = (1 + s) / 2 h + (1 - s) / 2 (1 - h), whose terms' logarithms are stable
    towards = torch.log((1 + match) / 2) + nn.functional.logsigmoid(advantage)
    away = torch.log((1 - match) / 2) + nn.functional.logsigmoid(-advantage)
    return -torch.logaddexp(towards, away)


def contrast_share(step: float, speed: float) -> float:
    """Return a, the share of the contrast in the loss, so many steps after the reference was frozen."""
    return min(1.0, max(0.0, (math.tanh((step * speed - 3500) / 1000) + 1) / 2))


class GroupWise(PieceTransformer):
    """The target model: a Transformer as it is used; it is trained within :class:`GroupWiseTraining`.

    ``sizes`` is a block :class:`stages.tracks.hcl.params.GroupWise`. Training batches hold pairs besides, C other
    contexts of each item's own response and C other responses to its own context: ``cand_x_ids``, ``cand_x_mask``
    (B, 2, C, Lx), ``cand_y_in``, ``cand_y_out``, ``cand_y_in_mask`` (B, 2, C, T) and ``cand_score`` (B, 2, C).
    """

    def settled(self, total: int) -> int:
        """Return the step from which the contrast has nearly its whole share: a > 0.999."""
        begin = self.pretraining(total)
        return begin + math.ceil(_RISING / self.speed(total)) if self.config.sizes["speed"] else total

    def pretraining(self, total: int) -> int:
        """Return the step at which the reference is frozen: after a share of all steps, or 5,000 if that is less."""
        return min(_PRETRAINING, round(self.config.sizes["pretrain_share"] * total))

    def speed(self, total: int) -> float:
        """Return the speed at which the contrast takes over; by default it has done so when the training ends."""
        speed: float | None = self.config.sizes["speed"]
        return speed or _RISING / (total - self.pretraining(total))

    def trainee(self) -> nn.Module:
        """Return the model with its reference."""
        return GroupWiseTraining(self)


class GroupWiseTraining(nn.Module):
    """The target model and its frozen reference, whose weights are buffers too, so that they survive in checkpoints."""

    def __init__(self, model: GroupWise) -> None:
        super().__init__()
        self.model, self.frozen = model, copy.deepcopy(model).requires_grad_(False)
        for name, parameter in self.frozen.named_parameters():
            self.register_buffer(f"reference_{name.replace('.', '/')}", parameter.data)  # one memory

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.model.device

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return (1 - a) NLL + a times the contrast, as long as an item, and both parts, after pretraining by NLL."""
        since = step.number - self.model.pretraining(step.total)
        if since < 0:
            return {"loss": self.model.nll(batch)}
        if since == 0:
            self.frozen.load_state_dict(self.model.state_dict())  # a copy of the target model as it is now
        nll, contrast = self.contrast(batch)
        share = contrast_share(since, self.model.speed(step.total))
        # the contrast is a value per pair, the likelihood one per token: losses are divided by tokens later
        whole = (1 - share) * nll + share * self.model.config.mean_target_length * contrast
        return {"loss": whole, "reconstruction": nll, "group_contrast": contrast}

    def contrast(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return -log p_m(y | x) of observed pairs (B,), and the mean of the pair losses of each and its draws (B,)."""
        found, score = drawn(batch, self.model.config.sizes["sample_k"])
        pairs = self.model.planned(found)   # once for both
        own, reference = -self.model.nll(pairs), self.reference(pairs)
        count = len(batch["x_ids"])  # the observed pairs first, then one draw for every item
        match = torch.cat([torch.ones_like(own[:count]), 2 * score - 1])
        return -own[:count], pair_loss(own - reference, match).view(-1, count).mean(0)

    @torch.no_grad()
    def reference(self, batch: Batch) -> Tensor:
        """Return log p_n(y | x) (B,), dropout off."""
        return -self.frozen.eval().nll(batch)


def drawn(batch: Batch, count: int) -> tuple[dict[str, Tensor], Tensor]:
    """Return the observed pairs and ``count`` draws for each item, (B + count B) rows, and the scores of the draws.

    A draw takes either side with a chance of 1/2 and one of its candidates; it is from torch's generator.
    """
    scores = batch["cand_score"]
    items, _, candidates = scores.shape
    rows = torch.arange(items, device=scores.device).repeat(count)  # (count B,)
    side = torch.randint(2, (count * items,), device=scores.device)
    which = torch.randint(candidates, (count * items,), device=scores.device)
    found = {}
    for name in ("x_ids", "x_mask", "y_in", "y_out", "y_in_mask"):
        own, taken = batch[name], batch[f"cand_{name}"][rows, side, which]
        length = max(own.shape[1], taken.shape[1])
        found[name] = torch.cat([nn.functional.pad(part, (0, length - part.shape[1])) for part in (own, taken)])
    return found, scores[rows, side, which]
