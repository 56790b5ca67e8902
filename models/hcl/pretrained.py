"""The interface of every baseline of word pieces, and models of ``transformers`` as baselines: GPT-2 and T5."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.decoding import Decodable, Rules, beam_search
from models.common.losses import at_least_float32
from models.common.task import Step
from models.common.transformer import mean_pool

Batch = Mapping[str, Tensor]


class PieceModel(ABC):
    """A mixin beside ``PreTrainedModel``: the methods of a baseline that training and decoding call.

    A batch is a dict of tensors, padded at the right: ``x_ids``, ``x_mask`` (B, Lx), a source between its marks;
    ``y_ids``, ``y_mask`` (B, Ly), a target between the same; ``y_in``, ``y_out``, ``y_in_mask`` (B, T), the target
    after the start token and the target before the end token; ``neg_*`` likewise; and :meth:`inputs`. Decoding has
    ``x_*`` and :meth:`inputs` alone. Values of items are in nats and not divided by any length.
    """

    title: str  # in the model card
    noise_size = 0  # width of the noise eps (B, noise_size) in a validation batch, which is fixed by example
    encoder_prefix: str | None = None  # of the names of parameters that learn at the encoder's rate

    def inputs(self, sources: Sequence[str], tokenizer: transformers.PreTrainedTokenizerBase) -> dict[str, Tensor]:
        """Return further tensors that the model reads, a row per source text."""
        return {}

    @abstractmethod
    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x), or a bound above it, of each item (B,), summed over its tokens, end token included."""

    def likelihood(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,) as in generation, a latent variable at its prior's mean."""
        return self.nll(batch)

    def validation(self, batch: Batch) -> dict[str, Tensor]:
        """Return the values of validation items, (B,) each; ``loss`` selects the checkpoint."""
        nll = self.nll(batch)
        return {"loss": nll, "reconstruction": nll}

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return the training ``loss``, and its parts, of each item (B,)."""
        return {"loss": self.nll(batch)}

    def final_from_step(self, total: int) -> int:
        """Return the step of ``total`` from which the objective is final; earlier epochs are not selected."""
        return 0

    def trainee(self) -> nn.Module:
        """Return the module to train: the model, or one that contains it as ``model`` and has its own ``objective``."""
        assert isinstance(self, nn.Module)
        return self

    def begin(self, batch: Batch, slots: int) -> tuple[Decodable, Tensor]:
        """Encode sources; return the steps of decoding, ``slots`` tokens an item, and the first token of each (B,)."""
        raise NotImplementedError

    @torch.no_grad()
    def rewrite(self, batch: Batch, rules: Rules, num_beams: int = 1, length_penalty: float = 1.0) -> Tensor:
        """Generate one output per source by beam search: tokens (B, L), the output, the end token, then padding."""
        steps, start = self.begin(batch, 1 + rules.max_length * num_beams)
        return beam_search(steps, start, rules, num_beams=num_beams, length_penalty=length_penalty)


def item_nll(logits: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    """Return -log p of each item's targets (B,), summed over real tokens, from scores (B, T, V)."""
    (logits,) = at_least_float32(logits)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    return losses.masked_fill(~real, 0.0).sum(-1)


def left_padded(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return ids (B, L) and mask (B, L) with the padding, of any id, at the left."""
    places = torch.arange(ids.shape[1], device=ids.device) - (ids.shape[1] - mask.sum(1, keepdim=True))
    return ids.gather(1, places.clamp(min=0)), places >= 0


def positions(mask: Tensor) -> Tensor:
    """Return the position of each token among the real ones (B, L); 0 for padding at the left."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def generated(model: Any, rules: Rules, num_beams: int, length_penalty: float, **inputs: Tensor) -> Tensor:
    """Return tokens (B, L), without any prompt, by ``generate`` of transformers; lengths are of generated tokens."""
    if model.training:
        raise ValueError(f"{type(model).__name__}: call eval() before rewrite(), or dropout decides the output")
    start = getattr(model.config, "decoder_start_token_id", None)
    model.generation_config = transformers.GenerationConfig(
        do_sample=False, num_beams=num_beams, length_penalty=length_penalty, early_stopping=False,
        min_new_tokens=rules.min_length, max_new_tokens=rules.max_length + 1, forced_eos_token_id=rules.end,
        suppress_tokens=list(rules.banned) or None, eos_token_id=rules.end, pad_token_id=rules.pad,
        bos_token_id=rules.end, decoder_start_token_id=start)
    with torch.autocast(model.device.type, enabled=False):  # as ``project_in_full``
        tokens: Tensor = model.generate(**inputs)
    return tokens[:, 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]:]


class PromptedSteps:
    """A :class:`Decodable` of a decoder of ``transformers`` after ``ids`` (B, L), padded at the left under ``mask``."""

    def __init__(self, decoder: nn.Module, head: nn.Linear, ids: Tensor, mask: Tensor) -> None:
        self._decoder, self._head, self._mask = decoder, head, mask
        self._width, self._cache = 1, transformers.DynamicCache()
        if ids.shape[1]:
            self._run(ids, positions(mask))

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, W); return the states (B, W, d)."""
        self._width = tokens.shape[1]
        self._mask = F.pad(self._mask, (0, 1), value=True)
        return self._run(tokens.reshape(-1, 1), positions(self._mask)[:, -1:]).view(*tokens.shape, -1)

    def logits(self, states: Tensor) -> Tensor:
        """Return scores (..., V)."""
        with torch.autocast(states.device.type, enabled=False):  # as ``project_in_full``
            return self._head(states.to(self._head.weight.dtype))

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w a continuation of hypothesis ``parents[b, w]``."""
        first = torch.arange(len(parents), device=parents.device).unsqueeze(1) * self._width
        self._select((first + parents).flatten(), parents.shape[1])

    def keep(self, items: Tensor) -> None:
        """Remove all items but these rows."""
        beams = torch.arange(self._width, device=items.device)
        self._select((items.unsqueeze(1) * self._width + beams).flatten(), self._width)

    def _run(self, ids: Tensor, places: Tensor) -> Tensor:
        states: Tensor = self._decoder(input_ids=ids, attention_mask=self._mask.long(), position_ids=places,
                                       past_key_values=self._cache, use_cache=True).last_hidden_state
        return states

    def _select(self, rows: Tensor, width: int) -> None:
        self._cache.batch_select_indices(rows)
        self._mask, self._width = self._mask.index_select(0, rows), width


class DialoGpt(PieceModel, transformers.GPT2LMHeadModel):
    """GPT-2 of ``transformers`` over x <end> y <end>, with padding at the left; it is saved as a GPT-2."""

    title = "DialoGPT"

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        states, _ = self.states(batch)
        return self.of_targets(states, batch)

    def states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the last states (B, Lx + T - 1, d) of all tokens except the last <end>, and which are real."""
        prompt, real = left_padded(batch["x_ids"], batch["x_mask"])
        ids = torch.cat([prompt, batch["y_in"][:, 1:]], dim=1)  # the first of y_in is the <end> of x
        mask = torch.cat([real, batch["y_in_mask"][:, 1:]], dim=1)
        output = self.transformer(input_ids=ids, attention_mask=mask.long(), position_ids=positions(mask),
                                  use_cache=False)
        return output.last_hidden_state, mask

    def of_targets(self, states: Tensor, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,) from :meth:`states`."""
        logits = self.lm_head(states[:, batch["x_ids"].shape[1] - 1:])  # from the <end> of x on
        return item_nll(logits, batch["y_out"], batch["y_in_mask"])

    def begin(self, batch: Batch, slots: int) -> tuple[PromptedSteps, Tensor]:
        """Return the steps of decoding after x, and the <end> of x as the first token of each output (B,)."""
        prompt, real = left_padded(batch["x_ids"], batch["x_mask"])
        return PromptedSteps(self.transformer, self.lm_head, prompt[:, :-1], real[:, :-1]), prompt[:, -1]

    @torch.no_grad()
    def rewrite(self, batch: Batch, rules: Rules, num_beams: int = 1, length_penalty: float = 1.0) -> Tensor:
        """Return tokens (B, L) by ``generate`` of transformers."""
        prompt, real = left_padded(batch["x_ids"], batch["x_mask"])
        return generated(self, rules, num_beams, length_penalty, input_ids=prompt, attention_mask=real.long())


class SimCtg(DialoGpt):
    """DialoGPT's model with a contrast between tokens, times the mean target length because losses are sums."""

    title = "SimCTG"

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return the loss of each item (B,), and its parts."""
        config: Any = self.config
        states, real = self.states(batch)
        nll, contrast = self.of_targets(states, batch), token_contrast(states, real)
        return {"loss": nll + config.mean_target_length * contrast, "reconstruction": nll,
                "contrast": config.mean_target_length * contrast}


def token_contrast(states: Tensor, real: Tensor, margin: float = 0.5) -> Tensor:
    """Return the similarity (B,) of the states (B, L, d) of different tokens of a text (Su et al. 2022, eq. 2).

    It is the mean over ordered pairs of ``real`` tokens (B, L) of max(0, rho - 1 + cosine), rho the margin; 0 for one
    token.
    """
    (states,) = at_least_float32(states)
    with torch.autocast(states.device.type, enabled=False):
        directions = F.normalize(states, dim=-1)
        costs = (margin - 1 + directions @ directions.transpose(1, 2)).clamp(min=0)  # (B, L, L)
    pairs = real.unsqueeze(1) & real.unsqueeze(2) & ~torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
    return costs.masked_fill(~pairs, 0.0).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)


def t5_config(config: transformers.PretrainedConfig) -> transformers.T5Config:
    """Return ``config`` as a configuration of :class:`T5`; an mT5 does not scale its states."""
    if isinstance(config, transformers.T5Config):
        return config
    values = {name: value for name, value in config.to_dict().items() if name != "model_type"}
    return transformers.T5Config(**{**values, "tie_word_embeddings": False})


class T5(PieceModel, transformers.T5ForConditionalGeneration):
    """T5 of ``transformers``, also with weights of T5 1.1 and mT5."""

    title = "T5"

    def nll(self, batch: Batch) -> Tensor:
        """Return -log p(y | x) of each item (B,)."""
        _, states = self.states(batch)
        return item_nll(self.lm_head(states), batch["y_out"], batch["y_in_mask"])

    def states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the states (B, Lx, d) of the encoder, and those of the decoder that are scored, H (B, T, d)."""
        mask = batch["x_mask"].long()
        encoded = self.encoder(input_ids=batch["x_ids"], attention_mask=mask).last_hidden_state
        states = self.decoder(input_ids=batch["y_in"], attention_mask=batch["y_in_mask"].long(),
                              encoder_hidden_states=encoded, encoder_attention_mask=mask,
                              use_cache=False).last_hidden_state
        return encoded, states * self.model_dim ** -0.5 if self.config.scale_decoder_outputs else states

    @torch.no_grad()
    def rewrite(self, batch: Batch, rules: Rules, num_beams: int = 1, length_penalty: float = 1.0) -> Tensor:
        """Return tokens (B, L) by ``generate`` of transformers."""
        return generated(self, rules, num_beams, length_penalty, input_ids=batch["x_ids"],
                         attention_mask=batch["x_mask"].long())


class T5Claps(T5):
    """A T5 that is trained within :class:`Claps`; its configuration has ``mean_target_length``."""

    title = "T5-CLAPS"

    def trainee(self) -> nn.Module:
        """Return the model with a random projection, which its contrast reads."""
        config: Any = self.config
        return Claps(self, config.mean_target_length)


class Claps(nn.Module):
    """Objective of CLAPS: -log p(y | x) / |y| + (near + far) / 2, where |y| is the mean length of targets.

    H are the states from which words are scored. Their near view is H after a ``small`` step that raises the NLL; the
    far view is H after a ``large`` step away from the source, and a step back to the former prediction. Both are
    constants. Texts are compared by the cosine of z, the mean of ReLU(W . + b). The released code has no temperature in
    the second contrast.
    """

    temperature, small, large = 0.1, 1.0, 3.0

    def __init__(self, model: T5, mean_target_length: float) -> None:
        super().__init__()
        self.model, self.mean_target_length = model, mean_target_length
        self.projection = nn.Linear(model.config.d_model, model.config.d_model).to(model.device)

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return self.model.device

    def objective(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Return the loss of each item (B,), times |y|, and its parts."""
        encoded, states = self.model.states(batch)
        real = batch["y_in_mask"]
        nll = item_nll(self.model.lm_head(states), batch["y_out"], real)
        with torch.autocast(states.device.type, enabled=False):
            encoded, states = encoded.float(), states.float()
            source = self.pooled(encoded, batch["x_mask"])
            hard_negative, far = self.contrasts(source, states, *self.views(source, states, batch["y_out"], real), real)
        contrast = self.mean_target_length / 2 * (hard_negative + far)
        return {"loss": nll + contrast, "reconstruction": nll, "contrast": contrast}

    def pooled(self, states: Tensor, real: Tensor) -> Tensor:
        """Return z (B, d) of states (B, L, d)."""
        return mean_pool(F.relu(self.projection(states)), real)

    def contrasts(self, source: Tensor, states: Tensor, hard_negative: Tensor, far: Tensor,
                  real: Tensor) -> tuple[Tensor, Tensor]:
        """Return cross-entropies (B,) of the own target, or its far view, against other targets and the near view."""
        own = torch.arange(len(source), device=source.device)
        wrong = F.cosine_similarity(source, self.pooled(hard_negative, real)).unsqueeze(1)  # (B, 1)
        between = cosines(source, self.pooled(states, real))  # (B, B)
        beyond = torch.where(torch.eye(len(own), dtype=torch.bool, device=own.device),
                             F.cosine_similarity(source, self.pooled(far, real)).unsqueeze(1), between)
        logits = (torch.cat([scores, wrong], dim=1) for scores in (between, beyond))
        first, second = (F.cross_entropy(scores / self.temperature, own, reduction="none") for scores in logits)
        return first, second

    def views(self, source: Tensor, states: Tensor, targets: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return both views of H (B, T, d), the near one and the far one; constants."""
        with torch.enable_grad():
            fixed = states.detach()
            hard_negative = step_of(self.small, fixed, lambda h: self.nll(h, targets, real), real)
            away = step_of(self.large, fixed, lambda h: self.unlikeness(source.detach(), h, real), real)
            back = step_of(self.large, fixed + away, lambda h: self.divergence(fixed, h, real), real)
        return fixed + hard_negative, fixed + away - back

    def nll(self, states: Tensor, targets: Tensor, real: Tensor) -> Tensor:
        """Return -log p of ``targets`` (B, T) from H, over all items."""
        return item_nll(self.model.lm_head(states), targets, real).sum()

    def unlikeness(self, source: Tensor, states: Tensor, real: Tensor) -> Tensor:
        """Return L_cont, the cross-entropy of each source's own target, summed over all items."""
        scores = cosines(source, self.pooled(states, real)) / self.temperature
        return F.cross_entropy(scores, torch.arange(len(source), device=source.device), reduction="sum")

    def divergence(self, states: Tensor, moved: Tensor, real: Tensor) -> Tensor:
        """Return KL(p(. | H) || p(. | moved H)), over all real tokens."""
        before, after = (F.log_softmax(self.model.lm_head(part), dim=-1) for part in (states, moved))
        return F.kl_div(after, before, reduction="none", log_target=True).sum(-1).masked_fill(~real, 0.0).sum()


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """Return the cosine of each row of ``left`` (B, d) and each of ``right`` (C, d) -> (B, C)."""
    return F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T


def step_of(length: float, states: Tensor, value: Callable[[Tensor], Tensor], real: Tensor) -> Tensor:
    """Return the step (B, T, d) of a ``length`` per token in the direction in which ``value`` rises fastest."""
    at = states.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(value(at), at)
    gradient = gradient.masked_fill(~real.unsqueeze(-1), 0.0)
    gradient = gradient / gradient.abs().amax(-1, keepdim=True).clamp(min=1e-30)  # or small squares would vanish
    return length * F.normalize(gradient, dim=-1)
