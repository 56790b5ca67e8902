"""HCL, "Keywords and Instances" (ACL 2022), in the order of the paper: latent variable, contrasts, decoder, loss.

The graph and its attention (eq. 4-9) are in ``graph``, the whole network in ``model``. Symbols: x input, y+ output, y-
negative output; u_in, u_out, u_imp keyword vectors of input, output and impostor; B samples, L tokens, d width, dz
size of z.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, PretrainedConfig

from models.common import filled, transformer
from models.common.decoding import BeamCache, Pair
from models.common.encoders import portable
from models.common.losses import at_least_float32, gaussian_kl, gaussian_kl_dims, masked_mean
from models.hcl.settings import CONTRASTS, GROUPS, HclSettings

LOGVAR_RANGE = (-8.0, 8.0)
_SMALLEST_SQUARE = 1e-12  # added to a mean square, so that a zero vector stays finite
VANISHED_LOSS = 0.01  # a contrast below it teaches nothing
IMPOSTOR_COSINES = ("impostor_cosine", "impostor_hardest", "impostor_easiest")  # rows of KeywordOutput.cosines
_LATENT_SCALE = 0.15  # initial length of We z, z being noise, in units of the word embeddings that it is added to
_ANNEALING_SHARE = 0.2  # largest share of all steps that annealing takes


class HclConfig(PretrainedConfig):
    """Configuration of :class:`models.hcl.model.HclModel`; ``kwargs`` are the groups of :class:`HclSettings`, plain.

    ``encoder`` is BERT's configuration as a dict, ``special_ids`` are token ids by role: ``pad``, ``bos`` ([CLS]),
    ``eos`` ([SEP]), ``unk``, ``mask``. Edges are directed and include self loops. ``mean_target_length``, the mean
    number of predicted tokens per training target, divides the sums over a sentence.
    """

    model_type = "keycontrast-hcl"

    def __init__(self, encoder: Mapping[str, Any] | None = None, special_ids: Mapping[str, int] | None = None,
                 num_nodes: int = 0, num_edges: int = 0, mean_target_length: float = 1.0, **kwargs: Any) -> None:
        self.encoder = portable(encoder if encoder is not None else BertConfig().to_dict())
        if self.encoder.get("model_type", "bert") != "bert":
            raise ValueError(f"HclConfig: encoder is of type {self.encoder['model_type']!r}; HCL is built on BERT "
                             f"encoders")
        groups = {name: values for name in GROUPS if (values := kwargs.pop(name, None)) is not None}
        settings: HclSettings = filled(HclSettings(), groups)
        self.graph, self.keyword, self.latent = settings.graph, settings.keyword, settings.latent
        self.contrasts, self.decoder = settings.contrasts, settings.decoder
        self.num_nodes, self.num_edges, self.mean_target_length = num_nodes, num_edges, mean_target_length
        self.special_ids = dict(special_ids or {"pad": 0, "bos": 101, "eos": 102, "unk": 100, "mask": 103})
        super().__init__(**{**kwargs, "tie_word_embeddings": True, "is_encoder_decoder": True,
                            "pad_token_id": self.special_ids["pad"], "bos_token_id": self.special_ids["bos"],
                            "eos_token_id": self.special_ids["eos"],
                            "decoder_start_token_id": self.special_ids["bos"]})

    @classmethod
    def from_params(cls, block: Mapping[str, Any], encoder: PretrainedConfig, special_ids: Mapping[str, int],
                    num_nodes: int, num_edges: int, mean_target_length: float) -> Self:
        """Build the configuration from the plain values of the params block ``train_hcl``."""
        return cls(encoder.to_dict(), special_ids, num_nodes, num_edges, mean_target_length,
                   **{name: block[name] for name in GROUPS if name in block})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the groups nested."""
        return {**super().to_dict(), **{name: asdict(getattr(self, name)) for name in GROUPS}}

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Self:
        """Return this configuration; the library would otherwise return the group ``decoder``."""
        return self

    @property
    def hidden_size(self) -> int:
        """Width d of encoder, graph and decoder."""
        return int(self.encoder["hidden_size"])

    @property
    def vocab_size(self) -> int:
        """Number of word pieces."""
        return int(self.encoder["vocab_size"])

    @property
    def uses_keyword(self) -> bool:
        """Whether the prior or the decoder's memory reads the input keyword."""
        return bool(self.keyword.condition) and (self.latent.enabled or self.decoder.kw_memory)

    @property
    def contrasts_used(self) -> list[str]:
        """The contrasts that are part of the objective, in its order."""
        inputs = {"latent": self.latent.enabled, "keyword": self.uses_keyword}
        return [name for name, needed in CONTRASTS.items() if getattr(self.contrasts, name).weight > 0
                and all(inputs[part] for part in needed)]


# The latent variable (section 3.1)


@dataclass(frozen=True)
class Gaussian:
    """Diagonal Gaussians of a batch: mean and log variance (B, dz) each, or (B, K, dz) for K texts per item."""

    mu: Tensor
    logvar: Tensor

    def of_text(self, number: int) -> "Gaussian":
        """Return the Gaussian of each item's text ``number`` (B, dz), out of (B, K, dz)."""
        return Gaussian(self.mu[:, number], self.logvar[:, number])

    def sample(self, eps: Tensor) -> Tensor:
        """Return z = mu + sigma * eps (B, dz); gradients pass (reparameterisation)."""
        return self.mu + torch.exp(0.5 * self.logvar) * eps


@dataclass(frozen=True)
class LatentOutput:
    """Distributions over z, p(z|x,u), q(z|x,y+) and q(z|x,y-), and the distances between them."""

    prior: Gaussian
    posterior: Gaussian
    negative: Gaussian | None
    kl_dims: Tensor  # KL(q+ || p) by dimension (B, dz)
    d_pos: Tensor  # KL(q+ || p) in the contrast, a mean over dimensions (B,)
    d_neg: Tensor | None  # KL(q- || p) likewise
    has_negative: Tensor | None  # which samples have a negative output (B,)

    @property
    def kl(self) -> Tensor:
        """KL(q+ || p), summed over dimensions (B,)."""
        return self.kl_dims.sum(-1)


def in_full(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply ``layer`` in the precision of its weights, under autocast too."""
    with torch.autocast(values.device.type, enabled=False):
        return layer(values.to(layer.weight.dtype))


def unit_scale(vectors: Tensor) -> Tensor:
    """Return ``vectors`` (..., d) scaled to a root mean square of 1, in float32 at least."""
    (vectors,) = at_least_float32(vectors)
    return vectors * torch.rsqrt(vectors.square().mean(-1, keepdim=True) + _SMALLEST_SQUARE)


def free_bits_kl(kl_dims: Tensor, nats: float) -> Tensor:
    """Return the KL of a batch (B, dz), summed over dimensions, mean over samples, and at least ``nats``."""
    (kl_dims,) = at_least_float32(kl_dims)
    return kl_dims.mean(0).sum().clamp(min=nats)


class GaussianNetwork(nn.Module):
    """MLP([h_x ; v]) -> mu, log variance: the prior with v = u_in, the posterior with v = h_y.

    One tanh layer of width max(2 dz, 100), as in Zhao et al. 2017, in the precision of its weights under autocast too.
    The two halves of its input matrix are two layers, so that the ablation without keyword leaves one out. ``scaled``
    reads both vectors at a root mean square of 1, because keyword vectors are three times as long as text vectors.
    """

    def __init__(self, width: int, size: int, scaled: bool = False) -> None:
        super().__init__()
        self.scaled, hidden = scaled, max(2 * size, 100)
        self.of_text = nn.Linear(width, hidden)
        self.of_condition = nn.Linear(width, hidden, bias=False)
        self.output = nn.Linear(hidden, 2 * size)

    def forward(self, h_x: Tensor, condition: Tensor | None) -> Gaussian:
        """Return the Gaussian given ``h_x`` and ``condition``, (B, d) or (B, K, d) each; None is left out."""
        if self.scaled:
            h_x, condition = unit_scale(h_x), None if condition is None else unit_scale(condition)
        hidden = in_full(self.of_text, h_x)
        if condition is not None:
            hidden = hidden + in_full(self.of_condition, condition)
        mu, logvar = in_full(self.output, torch.tanh(hidden)).chunk(2, dim=-1)  # (B, dz) each
        return Gaussian(mu, logvar.clamp(*LOGVAR_RANGE))


# The contrasts (section 3.2): a right and a wrong candidate for each sample


@dataclass(frozen=True)
class KeywordOutput:
    """Keyword vectors of a batch."""

    u_in: Tensor  # of the input's keyword (B, d)
    u_out: Tensor  # of the output's keyword (B, d)
    u_imp: Tensor  # of the impostor (B, d)
    mask: Tensor  # samples with an output keyword and an impostor (B,)
    cosines: Tensor  # to u_out, of the impostor, its hardest and its easiest candidate; no gradient (3, B)


@dataclass(frozen=True)
class Contrasted:
    """A contrast between a right and a wrong candidate for each sample of a batch."""

    right: Tensor  # distance or similarity of the right candidate (B,)
    wrong: Tensor  # the same of the wrong candidate (B,)
    loss: Tensor  # of each sample (B,); log 2 where the two are equal
    mask: Tensor  # samples that take part (B,); the other tensors are valid for these alone
    points: Tensor | None = None  # right and wrong candidate, if they are points of the latent space (B, 2, dz)

    @classmethod
    def of_distances(cls, right: Tensor, wrong: Tensor, temperature: float, mask: Tensor,
                     points: Tensor | None = None) -> Self:
        """Return the contrast -log(1 - softmax) of the right distance: softplus((right - wrong) / t)."""
        right, wrong = at_least_float32(right, wrong)
        return cls(right, wrong, F.softplus((right - wrong) / temperature), mask, points)

    @classmethod
    def of_similarities(cls, right: Tensor, wrong: Tensor, temperature: float, mask: Tensor) -> Self:
        """Return the contrast -log softmax of the right similarity: softplus((wrong - right) / t)."""
        right, wrong = at_least_float32(right, wrong)
        return cls(right, wrong, F.softplus((wrong - right) / temperature), mask)


def mahalanobis(points: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Return the mean over dimensions of (v - mu)^2 / sigma^2 (...) of points v (..., dz).

    The paper's formula lacks the inverse of the variance.
    """
    points, mu, logvar = at_least_float32(points, mu, logvar)
    return ((points - mu).square() * torch.exp(-logvar)).mean(-1)


# The decoder: its layers over a memory of encoder states and slots, how z enters it, and its scores of words


class Decoder(nn.Module):
    """A stack of decoder layers between embedded tokens and prediction states, as wide as the encoder."""

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        width, dropout, self.heads = config.hidden_size, config.decoder.dropout, config.encoder["num_attention_heads"]
        self.positions = nn.Embedding(int(config.encoder["max_position_embeddings"]), width)
        self.input_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        inner = int(config.encoder["intermediate_size"])
        self.layers = nn.ModuleList(transformer.DecoderLayer(width, self.heads, inner, dropout, F.gelu)
                                    for _ in range(config.decoder.layers))
        self.output_norm = nn.LayerNorm(width)
        self.transform = nn.Linear(width, width)
        self.transform_norm = nn.LayerNorm(width)

    def forward(self, embedded: Tensor, memory: Tensor, memory_mask: Tensor,
                cache: BeamCache | None = None) -> Tensor:
        """Return the states (B, L, d) from which next tokens are predicted, of embedded tokens (B, L, d).

        With a cache the L tokens are those of L hypotheses. ``memory_mask`` is True for real slots (B, S)
        of ``memory`` (B, S, d), or numbers to add (B, 1, 1, S).
        """
        visible: transformer.Visible = True
        if cache is None:
            positions = self.positions.weight[:embedded.shape[1]]
        else:  # the tokens of all hypotheses have one position
            positions = self.positions.weight[cache.steps]
            visible = cache.allowed(embedded.shape[1], embedded.device)
        hidden = self.dropout(self.input_norm(embedded + positions))
        if memory_mask.dim() < 4:
            memory_mask = transformer.masking(memory_mask.bool(), embedded)[:, None, None]
        heads, layers = transformer.Heads(self.heads), [cast(transformer.DecoderLayer, layer) for layer in self.layers]
        memories = [memory_keys_values(layers, memory, heads, cache)]
        parts = [layer.self_attention.projections for layer in layers]
        projections: Sequence[Pair | None] = (transformer.joined_by_layer(parts) if cache is None
                                              else cache.once(lambda: transformer.joined_groups(parts)))
        step = transformer.DecoderStep(heads, projections, visible, memories, [memory_mask], self.dropout, cache)
        for number, layer in enumerate(layers):
            hidden = layer(hidden, step, number)
        # as in BERT's head for masked words: states are transformed before the matrix shared with the input scores them
        return self.transform_norm(F.gelu(self.transform(self.output_norm(hidden))))


def memory_keys_values(layers: Sequence[transformer.DecoderLayer], memory: Tensor, heads: transformer.Heads,
                       cache: BeamCache | None) -> list[Pair]:
    """Return the keys and values (B, H, S, d / H) of memory (B, S, d) for each layer, from one product or the cache."""
    attentions = [layer.cross_attention for layer in layers]
    if cache is None:
        (weights,) = transformer.joined_groups([[part for layer in attentions for part in (layer.key, layer.value)]])
        parts = heads.split(F.linear(memory, *weights), 2 * len(attentions))
        return list(zip(parts[::2], parts[1::2], strict=True))

    def projected(number: int) -> Pair:
        return heads.split(attentions[number].key(memory), 1)[0], heads.split(attentions[number].value(memory), 1)[0]

    return [cache.memory(number, partial(projected, number)) for number in range(len(layers))]


class TiedOutput(nn.Module):
    """Scores over the vocabulary by the input embedding matrix, with a bias; rows that pad the matrix score -inf."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """Score states (..., d) against embeddings (V, d) -> (..., V)."""
        missing = len(embeddings) - len(self.bias)
        bias = F.pad(self.bias, (0, missing), value=-torch.inf) if missing else self.bias
        return F.linear(states, embeddings, bias)


class LatentEntry(nn.Module):
    """Learned maps of z (B, dz) into the decoder: a slot of the memory, [Wm z ; H_x], and We z added to every word."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.slot = nn.Linear(size, width)  # Wm
        self.embedding = nn.Linear(size, width, bias=False)  # We

    @torch.no_grad()
    def scale_init(self, words: Tensor) -> None:
        """Scale We to the word embeddings (V, d): otherwise z, noise at the start, would be longer than the words."""
        weight = self.embedding.weight
        weight.mul_(_LATENT_SCALE * words.std() / (weight.std() * weight.shape[1] ** 0.5))


# The outputs of a batch, and the loss


@dataclass(frozen=True)
class HclOutput:
    """Per-sample parts of a batch, before any weighting; a part that the configuration leaves out is None."""

    hidden: Tensor  # encoder states of the input (B, Lx, d)
    reconstruction: Tensor  # -log p(y+ | x, z), summed over the target's tokens (B,)
    latent: LatentOutput | None
    keyword: KeywordOutput | None
    contrasts: dict[str, Contrasted]  # by name; those whose inputs model and batch have


@dataclass(frozen=True)
class BatchTotals:
    """Sizes of a whole batch, by which sums are divided: samples, those with a negative output, with an impostor."""

    items: int
    negatives: int
    impostors: int

    @classmethod
    def of(cls, output: HclOutput) -> "BatchTotals":
        """Return the sizes of the batch that gave ``output``."""
        has_negative = None if output.latent is None else output.latent.has_negative
        return cls(items=len(output.reconstruction),
                   negatives=0 if has_negative is None else int(has_negative.sum()),
                   impostors=0 if output.keyword is None else int(output.keyword.mask.sum()))

    def of_contrast(self, name: str) -> int:
        """Return how many samples take part in a contrast: those with a negative, or with an impostor."""
        return self.impostors if "keyword" in CONTRASTS[name] else self.negatives


def annealed_by(steps: int, total: int) -> int:
    """Return the step from which beta is 1: ``steps`` (``latent.annealing_steps``), or a fifth of ``total`` if less."""
    return min(steps, round(_ANNEALING_SHARE * total))


def kl_weight(step: int, annealing_steps: int) -> float:
    """Return beta after ``step`` steps: it rises from 0 to 1 over ``annealing_steps`` (Bowman et al. 2016)."""
    return 1.0 if annealing_steps <= 0 else min(1.0, step / annealing_steps)


def objective(output: HclOutput, config: HclConfig, kl_weight: float,
              totals: BatchTotals | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the training loss of a batch, or a micro-batch's share in it, and its parts, detached and unweighted.

    Eq. 3 and the contrasts of section 3.2: L = (L_rec + beta * KL) / mean target length + sum of weighted
    contrasts, which ``added_to: sentence`` divides too. ``totals`` are the sizes of the whole batch if ``output`` is a
    part of it; shares then add up, except for the free bits.
    """
    totals = totals or BatchTotals.of(output)
    share = len(output.reconstruction) / totals.items
    parts = {"reconstruction": output.reconstruction.sum() / totals.items}
    elbo = parts["reconstruction"]
    if output.latent is not None:
        parts["kl"] = output.latent.kl.sum() / totals.items
        elbo = elbo + share * _kl_term(output.latent, config, kl_weight)
    loss = elbo / config.mean_target_length
    divisor = config.mean_target_length if config.contrasts.added_to == "sentence" else 1.0
    for name in config.contrasts_used:
        if (contrasted := output.contrasts.get(name)) is not None:
            parts[name] = masked_mean(contrasted.loss, contrasted.mask, totals.of_contrast(name))
            loss = loss + getattr(config.contrasts, name).weight / divisor * parts[name]
    return loss, {name: value.detach() for name, value in {"loss": loss, **parts}.items()}


def _kl_term(latent: LatentOutput, config: HclConfig, beta: float) -> Tensor:
    """Return beta KL, mean over samples, above its free bits.

    Where these are for the posterior alone, prior and posterior each have a loss in which the other is a constant
    (DreamerV2, Hafner et al. 2021).
    """
    settings, (q, p) = config.latent, (latent.posterior, latent.prior)
    if settings.free_bits_for == "both":
        return beta * free_bits_kl(latent.kl_dims, settings.free_bits)
    dims = gaussian_kl_dims(q.mu, q.logvar, p.mu.detach(), p.logvar.detach())
    of_prior = gaussian_kl(q.mu.detach(), q.logvar.detach(), p.mu, p.logvar).mean()
    return beta * free_bits_kl(dims, settings.free_bits) + of_prior - of_prior.detach()


def validation_loss(output: HclOutput, config: HclConfig) -> Tensor:
    """Return the loss that selects checkpoints, per sample (B,): (L_rec + KL) / mean target length, for all rows."""
    total = output.reconstruction if output.latent is None else output.reconstruction + output.latent.kl
    return total / config.mean_target_length


def training_monitors(output: HclOutput, totals: BatchTotals) -> dict[str, Tensor | float]:
    """Return a micro-batch's shares in the monitors of its batch, which has the sizes ``totals``.

    ``_masked`` is the share of samples that take no part in a contrast, ``_vanished`` the share of the others whose
    loss is below 0.01.
    """
    shares: dict[str, Tensor | float] = {}
    if output.latent is not None:
        logvar = output.latent.posterior.logvar.detach()  # (B, dz)
        shares["mean_log_sigma"] = 0.5 * logvar.sum() / (totals.items * logvar.shape[-1])
    if output.keyword is not None:
        cosines = (output.keyword.cosines * output.keyword.mask).sum(1) / max(1, totals.impostors)  # (3,)
        shares |= dict(zip(IMPOSTOR_COSINES, cosines.unbind(), strict=True))
    part = len(output.reconstruction) / totals.items
    for name, contrasted in output.contrasts.items():
        count = totals.of_contrast(name)
        vanished = (contrasted.loss.detach() < VANISHED_LOSS) & contrasted.mask
        shares[f"{name}_masked"] = part * (1 - count / totals.items)
        shares[f"{name}_vanished"] = vanished.sum() / max(1, count)
    return shares
