"""HCL, "Keywords and Instances" (ACL 2022), in the order of the paper: latent variable, contrasts, network, loss.

Graph and graph attention (eq. 4-9) are in ``graph``, generation is in ``model``. Symbols: x input, y+ output, y-
negative output; u_in, u_out, u_imp keyword vectors of input, output and impostor; B samples, L tokens, d width, dz
size of z.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, PretrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from models.common import filled, transformer
from models.common.decoding import BeamCache, Pair
from models.common.losses import at_least_float32, bow_loss, gaussian_kl, gaussian_kl_dims, masked_mean
from models.hcl.graph import (
    GraphAttention,
    Impostor,
    KeywordGraph,
    Planner,
    Views,
    impostor_candidates,
    likeness,
    segment_sum,
)
from models.hcl.settings import CONTRASTS, GROUPS, ContrastSettings, HclSettings

LOGVAR_RANGE = (-8.0, 8.0)
_SMALLEST_SQUARE = 1e-12  # mean square beside which that of a vector counts as none
_SMALLEST_VARIANCE = 1e-5  # beside which a dimension's variance over a batch counts as none
_WORDS = 64  # a vocabulary of so many words, or a multiple, lies well in the memory of a GPU
_SHORTEST = 1e-8  # a zero vector has cosine 0 to everything
VANISHED_LOSS = 0.01  # below which a contrast teaches nothing
LIKENESS = ("impostor_cosine", "impostor_hardest", "impostor_easiest")  # as KeywordOutput.likeness has them
_ADDED = 0.15  # length of W z at the start, where z is noise, in units of what it is added to
_WASTE = 1.25  # texts share one pass if padding them to one length costs at most a quarter


class HclConfig(PretrainedConfig):
    """Configuration of :class:`models.hcl.model.HclModel`; ``kwargs`` are the groups of :class:`HclSettings`, plain.

    ``encoder`` is BERT's configuration as a dict, ``special_ids`` token ids by role: ``pad``, ``bos`` ([CLS]), ``eos``
    ([SEP]), ``unk``, ``mask``. Edges, self loops included, are directed. Sentence sums are divided by
    ``mean_target_length``, the mean number of predicted tokens per training target.
    """

    model_type = "keycontrast-hcl"

    def __init__(self, encoder: Mapping[str, Any] | None = None, special_ids: Mapping[str, int] | None = None,
                 num_nodes: int = 0, num_edges: int = 0, mean_target_length: float = 1.0, **kwargs: Any) -> None:
        self.encoder = dict(encoder if encoder is not None else BertConfig().to_dict())
        for machine_key in ("_name_or_path", "transformers_version"):  # a model must not depend on where it was made
            self.encoder.pop(machine_key, None)
        given = {name: values for name in GROUPS if (values := kwargs.pop(name, None)) is not None}
        settings: HclSettings = filled(HclSettings(), given, "")
        self.graph, self.keyword, self.latent = settings.graph, settings.keyword, settings.latent
        self.contrasts, self.decoder = settings.contrasts, settings.decoder
        self.special_ids = dict(special_ids or {"pad": 0, "bos": 101, "eos": 102, "unk": 100, "mask": 103})
        self.num_nodes, self.num_edges, self.mean_target_length = num_nodes, num_edges, mean_target_length
        ids = self.special_ids
        if missing := [role for role in ("pad", "bos", "eos", "unk", "mask") if ids.get(role) is None]:
            raise ValueError(f"HclConfig: special_ids lacks {', '.join(missing)}")
        if self.encoder.get("model_type", "bert") != "bert":
            raise ValueError(f"HclConfig: encoder is of type {self.encoder['model_type']!r}; HCL is built on BERT "
                             f"encoders")
        if mean_target_length <= 0:
            raise ValueError(f"HclConfig: mean_target_length is {mean_target_length}, expected a positive number")
        super().__init__(**{**kwargs, "tie_word_embeddings": True, "is_encoder_decoder": True,
                            "pad_token_id": ids["pad"], "bos_token_id": ids["bos"], "eos_token_id": ids["eos"],
                            "decoder_start_token_id": ids["bos"]})

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
        """Return this configuration; the library would otherwise take ``decoder`` for one."""
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
    def num_attention_heads(self) -> int:
        """Attention heads of each decoder layer, as in the encoder."""
        return int(self.encoder["num_attention_heads"])

    @property
    def num_hidden_layers(self) -> int:
        """Decoder layers; the library sizes its key/value cache by this number."""
        return self.decoder.layers

    @property
    def uses_keyword(self) -> bool:
        """Whether the input keyword reaches the prior or the decoder's memory."""
        return bool(self.keyword.condition) and (self.latent.enabled or self.decoder.kw_memory)

    @property
    def contrasts_used(self) -> list[str]:
        """The contrasts that are part of the objective, in its order."""
        has = {"latent": self.latent.enabled, "keyword": self.uses_keyword}
        return [name for name, read in CONTRASTS.items() if self.contrast(name).weight > 0
                and all(has[part] for part in read)]

    def contrast(self, name: str) -> ContrastSettings:
        """Return weight and temperature of one of :data:`CONTRASTS`."""
        settings: ContrastSettings = getattr(self.contrasts, name)
        return settings

    @property
    def uses_bow(self) -> bool:
        """Whether the bag-of-words auxiliary loss is part of the objective."""
        return self.latent.enabled and self.latent.bow_loss

    @property
    def banned_token_ids(self) -> list[int]:
        """Tokens never generated: [PAD], [CLS], [UNK] and [MASK]."""
        return sorted({self.special_ids[role] for role in ("pad", "bos", "unk", "mask")})


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
        """Return z = mu + sigma * eps (B, dz), through which gradients pass (reparameterisation)."""
        return self.mu + torch.exp(0.5 * self.logvar) * eps


@dataclass(frozen=True)
class LatentOutput:
    """Distributions over z, p(z|x,u), q(z|x,y+) and q(z|x,y-), and the distances between them."""

    prior: Gaussian
    posterior: Gaussian
    negative: Gaussian | None
    kl_dims: Tensor  # KL(q+ || p) by dimension (B, dz)
    d_pos: Tensor  # KL(q+ || p) as the contrast sees it, per dimension (B,)
    d_neg: Tensor | None  # KL(q- || p) likewise
    has_negative: Tensor | None  # which negatives are real (B,)
    bow: Tensor | None  # bag-of-words loss, summed over tokens (B,)

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


def free_bits_kl(kl_dims: Tensor, nats: float, by: str = "dimension") -> Tensor:
    """KL of a batch (B, dz) of which ``nats`` are free: of each dimension's mean its share, or of their sum all."""
    (kl_dims,) = at_least_float32(kl_dims)
    mean = kl_dims.mean(0)  # (dz,)
    return mean.sum().clamp(min=nats) if by == "total" else mean.clamp(min=nats / len(mean)).sum()


class GaussianNetwork(nn.Module):
    """MLP([h_x ; v]) -> mu, log variance: the prior with v = u_in, the posterior with v = h_y.

    One tanh layer of width max(2 dz, 100), as in Zhao et al. 2017, in the precision of its weights under autocast too.
    The two halves of its input matrix are two layers, so that the ablation without keyword leaves one out. ``scaled``
    reads both vectors at a root mean square of 1: keywords are else three times as long as texts.
    """

    def __init__(self, width: int, size: int, scaled: bool = False) -> None:
        super().__init__()
        self.scaled, hidden = scaled, max(2 * size, 100)
        self.of_text = nn.Linear(width, hidden)
        self.of_condition = nn.Linear(width, hidden, bias=False)
        self.output = nn.Linear(hidden, 2 * size)

    def forward(self, h_x: Tensor, condition: Tensor | None) -> Gaussian:
        """Return the Gaussian given ``h_x`` and ``condition`` (B, d), or the text alone; (B, K, d) for K texts."""
        if self.scaled:
            h_x, condition = unit_scale(h_x), None if condition is None else unit_scale(condition)
        hidden = in_full(self.of_text, h_x)
        if condition is not None:
            hidden = hidden + in_full(self.of_condition, condition)
        mu, logvar = in_full(self.output, torch.tanh(hidden)).chunk(2, dim=-1)  # (B, dz) each
        return Gaussian(mu, logvar.clamp(*LOGVAR_RANGE))


class Posterior(GaussianNetwork):
    """q(z | x, y): a :class:`GaussianNetwork` whose means may be normalised, and relative to the prior's.

    ``relative``: mu_q = mu_p + sigma_p r, log sigma_q = log sigma_p + s, where the network gives r and s (Vahdat &
    Kautz 2020). ``batch_norm`` gamma: the means, of a relative posterior r, have standard deviation gamma over a batch
    in every dimension (BN-VAE, Zhu et al. 2020), an absolute one with a learnt shift; in evaluation mode by the
    statistics of :meth:`calibrate`, 0 and 1 before.
    """

    def __init__(self, width: int, size: int, relative: bool = False, gamma: float = 0.0) -> None:
        super().__init__(width, size)
        self.relative, self.gamma = relative, gamma
        if gamma > 0:
            self.register_buffer("mean", torch.zeros(size))
            self.register_buffer("variance", torch.ones(size))
        if gamma > 0 and not relative:
            self.shift = nn.Parameter(torch.zeros(size))  # beta of the batch normalisation

    def given(self, h_x: Tensor, texts: Tensor, prior: Gaussian) -> Gaussian:
        """Return the Gaussians (B, K, dz) of texts (B, K, d), of which in training the first is the true output."""
        found = self(h_x.unsqueeze(1), texts)
        mu, logvar = found.mu, found.logvar
        if self.gamma > 0:
            mean, variance = self.get_buffer("mean"), self.get_buffer("variance")
            if self.training:
                variance, mean = torch.var_mean(mu[:, 0], dim=0, correction=0)
            mu = self.gamma * (mu - mean) * torch.rsqrt(variance + _SMALLEST_VARIANCE)
            mu = mu if self.relative else mu + self.shift
        if self.relative:
            mean, log_variance = prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1)
            mu = mean + torch.exp(0.5 * log_variance) * mu
            logvar = (log_variance + logvar).clamp(*LOGVAR_RANGE)
        return Gaussian(mu, logvar)

    @torch.no_grad()
    def calibrate(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Set the statistics of evaluation mode to those of ``pairs``: h_x (B, d) and h_y (B, d) of true outputs."""
        mu = torch.cat([self(h_x, h_y).mu for h_x, h_y in pairs])
        variance, mean = torch.var_mean(mu, dim=0, correction=0)
        self.get_buffer("mean").copy_(mean)
        self.get_buffer("variance").copy_(variance)


# The contrasts (section 3.2): a right and a wrong candidate for each sample


@dataclass(frozen=True)
class KeywordOutput:
    """Keyword vectors of a batch."""

    u_in: Tensor  # of the input's keyword (B, d)
    u_out: Tensor  # of the output's (B, d)
    u_imp: Tensor  # of the impostor (B, d)
    mask: Tensor  # samples with an output keyword and an impostor (B,)
    likeness: Tensor  # cosines to u_out of impostor, hardest and easiest candidate, without gradient (3, B)


@dataclass(frozen=True)
class Contrasted:
    """A contrast between a right and a wrong candidate for each sample of a batch."""

    right: Tensor  # distance or similarity of the right candidate (B,)
    wrong: Tensor  # and of the wrong one (B,)
    loss: Tensor  # of each sample (B,); log 2 where the two are equal
    mask: Tensor  # samples that take part (B,); all else holds for these alone
    points: Tensor | None = None  # right and wrong candidate, if they are points of the latent space (B, 2, dz)

    @classmethod
    def of_distances(cls, right: Tensor, wrong: Tensor, temperature: float, mask: Tensor,
                     points: Tensor | None = None) -> Self:
        """Return -log(1 - softmax) of the right one's distance: softplus((right - wrong) / t)."""
        right, wrong = at_least_float32(right, wrong)
        return cls(right, wrong, F.softplus((right - wrong) / temperature), mask, points)

    @classmethod
    def of_similarities(cls, right: Tensor, wrong: Tensor, temperature: float, mask: Tensor) -> Self:
        """Return -log softmax of the right one's similarity: softplus((wrong - right) / t)."""
        right, wrong = at_least_float32(right, wrong)
        return cls(right, wrong, F.softplus((wrong - right) / temperature), mask)


def mahalanobis(points: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Mean over dimensions of (v - mu)^2 / sigma^2 (B,) of points v (B, dz), with the inverse missing in print."""
    points, mu, logvar = at_least_float32(points, mu, logvar)
    return ((points - mu).square() * torch.exp(-logvar)).mean(-1)


# The decoder: how z enters it, its layers over a memory of encoder states and slots, and its scores of words


class Decoder(nn.Module):
    """A stack of decoder layers between embedded tokens and prediction states, as wide as the encoder."""

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        width, heads, dropout = config.hidden_size, config.num_attention_heads, config.decoder.dropout
        self.heads = heads
        self.positions = nn.Embedding(int(config.encoder["max_position_embeddings"]), width)
        self.input_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        inner = int(config.encoder["intermediate_size"])
        self.layers = nn.ModuleList(transformer.DecoderLayer(width, heads, inner, dropout, F.gelu)
                                    for _ in range(config.num_hidden_layers))
        self.output_norm = nn.LayerNorm(width)
        self.transform = nn.Linear(width, width)
        self.transform_norm = nn.LayerNorm(width)

    def forward(self, embedded: Tensor, memory: Tensor, memory_mask: Tensor, cache: transformer.Cache | None = None,
                inputs: Sequence[Tensor] | None = None) -> Tensor:
        """Return the states (B, L, d) from which the next token is predicted.

        Of embedded tokens (B, L, d), of as many beams with a :class:`BeamCache`; the mask of ``memory`` (B, S, d) is
        True for real slots (B, S), or numbers to add (B, 1, 1, S); ``inputs`` are added to the input of each layer (B,
        1, d).
        """
        length, device = embedded.shape[1], embedded.device
        visible: transformer.Visible = True
        if cache is None:
            positions = self.positions.weight[:length]
        elif isinstance(cache, BeamCache):  # the tokens of all beams stand at one position
            positions, visible = self.positions.weight[cache.steps], cache.allowed(length, device)
        else:
            past = int(cache.get_seq_length())
            positions = self.positions(torch.arange(past, past + length, device=device))
            earlier = torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)
            visible = None if length == 1 else earlier
        hidden = self.dropout(self.input_norm(embedded + positions))
        mask = memory_mask
        if mask.dim() < 4:
            mask = transformer.masking(mask.bool(), embedded)[:, None, None]
        heads, layers = transformer.Heads(self.heads), [cast(transformer.DecoderLayer, layer) for layer in self.layers]
        memories = [memory_keys_values(layers, memory, heads, cache)]
        parts = [layer.self_attention.projections for layer in layers]
        projections: Sequence[Pair | None] = (  # in decoding once for all tokens
            cache.once(lambda: transformer.joined_groups(parts)) if isinstance(cache, BeamCache)
            else transformer.joined_by_layer(parts))
        step = transformer.DecoderStep(heads, projections, visible, memories, [mask], self.dropout, cache)
        for number, layer in enumerate(layers):
            hidden = layer(hidden if inputs is None else hidden + inputs[number], step, number)
        # as BERT's head for masked words: the embedding matrix, shared with the input, wants states of its own kind
        return self.transform_norm(F.gelu(self.transform(self.output_norm(hidden))))


def memory_keys_values(layers: Sequence[transformer.DecoderLayer], memory: Tensor, heads: transformer.Heads,
                       cache: transformer.Cache | None) -> list[Pair]:
    """Return the keys and values (B, H, S, d / H) of memory (B, S, d) for each layer, from one product or the cache."""
    attentions = [layer.cross_attention for layer in layers]
    if cache is None:
        (weights,) = transformer.joined_groups([[part for one in attentions for part in (one.key, one.value)]])
        parts = heads.split(F.linear(memory, *weights), 2 * len(attentions))
        return list(zip(parts[::2], parts[1::2], strict=True))

    def projected(number: int) -> Pair:
        return (heads.split(attentions[number].key(memory), 1)[0], heads.split(attentions[number].value(memory), 1)[0])

    if isinstance(cache, BeamCache):
        return [cache.memory(number, partial(projected, number)) for number in range(len(layers))]
    for number in range(len(layers)):
        if not cache.is_updated.get(number):
            cache.cross_attention_cache.update(*projected(number), number)
            cache.is_updated[number] = True
    kept: list[Any] = cache.cross_attention_cache.layers
    return [(layer.keys, layer.values) for layer in kept]


def padded_words(embeddings: Tensor, multiple: int) -> Tensor:
    """Return embeddings (V, d) with rows of zeros up to a multiple of ``multiple``, for a GPU's products."""
    missing = -len(embeddings) % multiple
    return F.pad(embeddings, (0, 0, 0, missing)) if missing else embeddings


class TiedOutput(nn.Module):
    """Scores over the vocabulary by the input embedding matrix, with a bias; further rows of it score -inf."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """Score states (..., d) against embeddings (V, d) -> (..., V)."""
        missing = len(embeddings) - len(self.bias)
        bias = F.pad(self.bias, (0, missing), value=-torch.inf) if missing else self.bias
        return F.linear(states, embeddings, bias)


class LatentEntry(nn.Module):
    """Learned maps of z (B, dz) into the decoder: a slot of the memory, [Wm z ; H_x], and We z with every word.

    Or, ``layers``, Wl z added to the input of each layer; the others exist always.
    """

    def __init__(self, config: HclConfig) -> None:
        super().__init__()
        size, width = config.latent.size, config.hidden_size
        self.by_layer, self.layers = config.latent.enters == "layers", config.num_hidden_layers
        self.slot = nn.Linear(size, width)  # Wm
        self.embedding = nn.Linear(size, width, bias=False)  # We
        if self.by_layer:
            self.inputs = nn.Linear(size, self.layers * width, bias=False)  # Wl of all layers, one below the other

    @torch.no_grad()
    def hush(self, words: Tensor) -> None:
        """Scale the maps to the word embeddings ``words`` (V, d): else z, noise at the start, would drown the words."""
        maps = [(self.embedding, _ADDED * words.std())]
        if self.by_layer:
            maps.append((self.inputs, torch.tensor(_ADDED)))  # states are normalised to 1
        for layer, length in maps:
            layer.weight.mul_(length / (layer.weight.std() * layer.weight.shape[1] ** 0.5))


# The network


@dataclass(frozen=True)
class Encoded:
    """A kind of text: states (B, L, d) and vectors (B, d)."""

    states: Tensor
    vector: Tensor


@dataclass(frozen=True)
class HclOutput:
    """Per-sample parts of a batch, before any weighting; a part that the configuration leaves out is None."""

    hidden: Tensor  # encoder states of the input (B, Lx, d)
    reconstruction: Tensor  # -log p(y+ | x, z), summed over the target's tokens (B,)
    tokens: Tensor  # predicted tokens of each target (B,)
    latent: LatentOutput | None
    keyword: KeywordOutput | None
    contrasts: dict[str, Contrasted]  # by name, of which model and batch have all that they read


@dataclass(frozen=True)
class BatchTotals:
    """Sizes of a whole batch, by which sums are divided: samples, those with a negative output, with an impostor."""

    items: int
    negatives: int
    impostors: int

    @classmethod
    def of(cls, output: HclOutput) -> "BatchTotals":
        """Return the sizes of the batch that gave ``output``."""
        latent, keyword = output.latent, output.keyword
        negatives = None if latent is None else latent.has_negative
        return cls(
            items=len(output.reconstruction),
            negatives=0 if negatives is None else int(negatives.sum()),
            impostors=0 if keyword is None else int(keyword.mask.sum()),
        )

    def of_contrast(self, name: str) -> int:
        """Return how many samples take part in a contrast: those with a negative, or with an impostor."""
        return self.impostors if "keyword" in CONTRASTS[name] else self.negatives


class HclNetwork(PreTrainedModel):
    """HCL: x -> y by way of z, with keyword vectors from a graph; :class:`models.hcl.model.HclModel` adds decoding.

    All modules exist whatever the configuration switches off; what is off is not run and gets no gradient. Each module
    draws its weights from a seed of its own name, so that all rows of an ablation table start from the same weights.

    A batch is a dict of tensors: ``x_ids``, ``x_mask`` (B, Lx); ``y_ids``, ``y_mask`` (B, Ly) with [CLS] and [SEP];
    ``y_in``, ``y_out``, ``y_in_mask`` (B, Lt), the shifted pair; ``neg_ids``, ``neg_mask`` (B, Ln), ``has_negative``
    (B,); ``kx``, ``ky``, ``kneg`` (B,) node ids, -1 for none. Optional: ``eps`` (B, dz), noise for z (else drawn), and
    ``unseen_vectors`` (B, d), initial vectors where ``kx`` is -1. Training may add ``view`` (B,), what an item sees of
    the graph (:class:`Views`), and ``dropped`` (B,), where its input keyword is to be a new node; both read
    ``unseen_vectors`` too. Every mask has a real token in each row.
    """

    config: HclConfig
    config_class = HclConfig
    base_model_prefix = "hcl"
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(self, config: HclConfig) -> None:
        super().__init__(config)
        self._draw = int(torch.randint(2**62, (), device="cpu"))
        width, size = config.hidden_size, config.latent.size
        self.encoder = BertModel(BertConfig(**config.encoder), add_pooling_layer=False)
        self.decoder = Decoder(config)
        self.word_scores = TiedOutput(config.vocab_size)
        self.graph = KeywordGraph(config.num_nodes, config.num_edges, width)
        self.attention = GraphAttention(width, config.graph.iterations, config.graph.layer_norm)
        self.impostor = Impostor(width, config.keyword.imp_weight)
        self.prior = GaussianNetwork(width, size, config.keyword.unit_scale)
        self.posterior = Posterior(width, size, config.latent.posterior == "relative", config.latent.batch_norm)
        self.latent_entry = LatentEntry(config)
        self.keyword_slot = nn.Linear(width, width)
        self.keyword_points = nn.Linear(width, size, bias=False)  # P: keywords in the latent space
        self.bow_hidden = nn.Linear(width + size, width)
        self.bow_scores = TiedOutput(config.vocab_size)
        self._vectors: Tensor | None = None
        self._frozen_states = transformer.FrozenStates()
        self.register_load_state_dict_post_hook(_forget_vectors)
        self.post_init()

    @classmethod
    def from_parts(cls, config: HclConfig, encoder: PreTrainedModel | None = None,
                   graph: KeywordGraph | None = None) -> Self:
        """Build a model to train: weights of a pre-trained encoder, the graph's tensors, the rest random."""
        model = cls(config)
        if encoder is not None:
            weights = {name: value for name, value in encoder.state_dict().items() if not name.startswith("pooler.")}
            model.encoder.load_state_dict(weights)
            positions = model.encoder.embeddings.position_embeddings.weight
            model.decoder.positions.weight.data.copy_(positions)  # a start that the embeddings already know
        model.latent_entry.hush(model.get_input_embeddings().weight)
        if graph is not None:
            model.graph.load_state_dict(graph.state_dict())
        return model

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word-piece embeddings, which also score the output."""
        return self.encoder.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word-piece embeddings of encoder, decoder and output at once."""
        self.encoder.set_input_embeddings(value)

    def forward(self, batch: Mapping[str, Tensor] | None = None, *, decoder_input_ids: Tensor | None = None,
                encoder_outputs: BaseModelOutput | None = None, attention_mask: Tensor | None = None,
                latent: Tensor | None = None, past_key_values: EncoderDecoderCache | None = None,
                use_cache: bool | None = None, return_dict: bool | None = None) -> HclOutput | Seq2SeqLMOutput:
        """Run a training pass over ``batch``, or one decoding step for ``generate``.

        A decoding step reads the next tokens (B, L), the memory as ``encoder_outputs`` (B, S, d), its mask, and z as
        ``latent``.
        """
        if batch is not None:
            return self.passed(batch)
        memory = encoder_outputs.last_hidden_state if encoder_outputs is not None else None
        if decoder_input_ids is None or memory is None or attention_mask is None:
            raise ValueError("HclModel: give a batch to train on, or call paraphrase() to generate")
        if self.config.latent.enabled and latent is None:
            raise ValueError("HclModel: decoding needs latent (B, dz); paraphrase() takes it from the prior")
        states = self.decode(decoder_input_ids, memory, attention_mask, latent, past_key_values)
        return Seq2SeqLMOutput(logits=self.score(states), past_key_values=past_key_values)

    def passed(self, batch: Mapping[str, Tensor], validating: bool = False) -> HclOutput:
        """Return all parts of a batch, z drawn from the posterior.

        What selects a checkpoint may not depend on negatives, not even by rounding: ``validating`` encodes them apart.
        """
        has_latent = self.config.latent.enabled
        read = ["x", "y", "neg"] if has_latent else ["x"]
        parts = [read[:2], read[2:]] if validating else [read]
        texts = {name: text for part in parts for name, text in self.texts(batch, part).items()}
        batch = self.planned(batch)
        keyword = self.keywords(batch)
        if keyword is not None and validating:
            keyword = replace(keyword, mask=keyword.mask & (batch["kx"] >= 0))
        contrasts = {"keyword": self.keyword_contrast(keyword)}
        latent, z = self.latent(texts, keyword, batch) if has_latent else (None, None)
        contrasts["instance"] = self.instance_contrast(latent)
        contrasts["mahalanobis"] = self.mahalanobis_contrast(keyword, latent)
        u_in, hidden = keyword.u_in if keyword is not None else None, texts["x"].states
        reconstruction = self.surprise(self.token_scores(hidden, u_in, z, batch), batch)
        return HclOutput(hidden, reconstruction, batch["y_in_mask"].sum(-1), latent, keyword,
                         {name: found for name in CONTRASTS if (found := contrasts[name]) is not None})

    def latent(self, texts: Mapping[str, Encoded], keyword: KeywordOutput | None,
               batch: Mapping[str, Tensor]) -> tuple[LatentOutput, Tensor]:
        """Return the distributions over z, and z (B, dz), in training the prior's mean for a share of the items."""
        h_x, (prior, posteriors) = texts["x"].vector, self.gaussians(texts, keyword)
        z = posteriors.of_text(0).sample(self.noise(batch))
        bow = None
        if self.config.uses_bow:
            state = torch.tanh(self.bow_hidden(torch.cat([h_x, z], dim=-1)))  # (B, d)
            bow = bow_loss(self.bow_scores(state, self._words()), batch["y_out"], batch["y_in_mask"].bool())
        all_dims = gaussian_kl_dims(posteriors.mu, posteriors.logvar, prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1))
        distances, kl_dims = all_dims.sum(-1) / self.config.latent.size, all_dims[:, 0]  # (B, 1 or 2), (B, dz)
        latent = LatentOutput(prior, posteriors.of_text(0), None, kl_dims, distances[:, 0], None, None, bow)
        if "neg" in texts:
            if "has_negative" not in batch:
                raise ValueError("HclModel: a batch with neg_ids needs has_negative (B,)")
            latent = replace(latent, negative=posteriors.of_text(1), d_neg=distances[:, 1],
                             has_negative=batch["has_negative"].bool())
        if self.training and (share := self.config.latent.prior_share) > 0:
            z = torch.where(torch.rand(len(z), 1, device=z.device) < share, prior.mu, z)
        return latent, z

    def gaussians(self, texts: Mapping[str, Encoded], keyword: KeywordOutput | None) -> tuple[Gaussian, Gaussian]:
        """Return p(z | x, u_in) (B, dz), and q(z | x, y) of true and, if any, negative output (B, 1 or 2, dz)."""
        h_x = texts["x"].vector
        prior = self.prior(h_x, keyword.u_in if keyword is not None else None)
        vectors = [texts[name].vector.unsqueeze(1) for name in ("y", "neg") if name in texts]
        if self.training:
            return prior, self.posterior.given(h_x, torch.cat(vectors, dim=1), prior)
        # Apart: what selects a checkpoint may not depend on whether there are negatives, not even by rounding.
        parts = [self.posterior.given(h_x, part, prior) for part in vectors]
        return prior, Gaussian(*(torch.cat([getattr(part, name) for part in parts], 1) for name in ("mu", "logvar")))

    def calibrate(self, batches: Iterable[Mapping[str, Tensor]]) -> None:
        """Set what evaluation mode knows of training items, from batches of some; see :meth:`Posterior.calibrate`."""
        if self.config.latent.enabled and self.posterior.gamma > 0:
            with torch.no_grad():
                texts = (self.texts(batch, ["x", "y"]) for batch in batches)
                self.posterior.calibrate((found["x"].vector, found["y"].vector) for found in texts)

    # The contrasts (section 3.2), each None where the model or the batch lacks what it reads

    def instance_contrast(self, latent: LatentOutput | None) -> Contrasted | None:
        """Section 3.2.1: KL(q(z|x,y+) || p) against KL(q(z|x,y-) || p), of samples with a negative output."""
        if latent is None or latent.d_neg is None or latent.has_negative is None:
            return None
        return Contrasted.of_distances(latent.d_pos, latent.d_neg, self.config.contrasts.instance.temperature,
                                       latent.has_negative)

    def keyword_contrast(self, keyword: KeywordOutput | None) -> Contrasted | None:
        """Eq. 10: cos(u_in, u_out) against cos(u_in, u_imp), of samples with an impostor."""
        if keyword is None:
            return None
        vectors = torch.stack([keyword.u_in, keyword.u_out, keyword.u_imp])  # (3, B, d)
        unit = F.normalize(vectors, dim=-1, eps=_SHORTEST)
        s_out, s_imp = (unit[0] * unit[1:]).sum(-1).unbind()  # (B,)
        return Contrasted.of_similarities(s_out, s_imp, self.config.contrasts.keyword.temperature, keyword.mask)

    def mahalanobis_contrast(self, keyword: KeywordOutput | None, latent: LatentOutput | None) -> Contrasted | None:
        """Eq. 11: distances of output and impostor keyword, mapped into the latent space by P, to q(z|x,y+)."""
        if keyword is None or latent is None:
            return None
        points = in_full(self.keyword_points, torch.stack([keyword.u_out, keyword.u_imp], dim=1))  # (B, 2, dz)
        mu, logvar = latent.posterior.mu.unsqueeze(1), latent.posterior.logvar.unsqueeze(1)
        d_out, d_imp = mahalanobis(points, mu, logvar).unbind(1)  # (B,)
        return Contrasted.of_distances(d_out, d_imp, self.config.contrasts.mahalanobis.temperature, keyword.mask,
                                       points)

    # Encoding

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return encoder states (B, L, d)."""
        return self._frozen_states.encode(self.encoder, ids, mask)

    def texts(self, batch: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Encoded]:
        """Return those of ``names`` (x, y, neg) that the batch has, encoded, in one pass if their lengths are alike."""
        names = [name for name in names if f"{name}_ids" in batch]
        if not names:
            return {}
        ids, masks = ([batch[f"{name}_{part}"] for name in names] for part in ("ids", "mask"))
        longest, rows = max(part.shape[1] for part in ids), [len(part) for part in ids]
        if sum(rows) * longest > _WASTE * sum(part.numel() for part in ids):
            return {name: part for one in names for name, part in self.texts(batch, [one]).items()}
        pad = self.config.special_ids["pad"]
        whole, mask = (torch.cat([F.pad(part, (0, longest - part.shape[1]), value=fill) for part in parts])
                       for parts, fill in ((ids, pad), (masks, 0)))
        hidden = self.encode(whole, mask)
        (full,) = at_least_float32(hidden)
        vectors = transformer.mean_pool(full, mask).split(rows)
        return {name: Encoded(states[:, : part.shape[1]], vector) for name, part, states, vector
                in zip(names, ids, hidden.split(rows), vectors, strict=True)}

    # Keywords

    def keyword_vectors(self) -> Tensor:
        """Return the vectors u of all nodes (n, d), without gradients; kept until training goes on."""
        if self._vectors is None or self._vectors.device != self.graph.h0.device:
            with torch.autocast(self.graph.h0.device.type, enabled=False):  # kept for whoever asks next
                self._vectors = self.attention.all_vectors(self.graph)
        return self._vectors

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode; either way vectors of the whole graph are computed anew."""
        self._vectors = None
        return super().train(mode)

    def planner(self, views: Views | None = None) -> Planner:
        """Return the planner of batches, on the CPU; with ``views`` of the graph it plans those that have ``view``."""
        return Planner(self.graph.structure(), self.config.uses_keyword, self.config.graph.iterations, views)

    def planned(self, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return ``batch`` with its plan, which is made, where it lacks one: for that the host waits for the device."""
        if "token_places" in batch:
            return batch
        read = {name: batch[name].cpu() for name in ("kx", "ky", "kneg", "y_in_mask", "unseen_vectors", "view",
                                                     "dropped") if name in batch}
        plan = self.planner().plan(read, self.training or torch.is_grad_enabled())
        return {**batch, **{name: part.to(batch["y_in_mask"].device) for name, part in plan.items()}}

    def keywords(self, batch: Mapping[str, Tensor]) -> KeywordOutput | None:
        """Return keyword vectors of a planned batch, in float32 at least; None for a model without use for them."""
        if "kw_rows" not in batch:
            return None
        vectors = self.attention.of_batch(self.graph.h0, batch) if "kw_nodes" in batch else self.keyword_vectors()
        size, rows, samples = len(batch["kx"]), batch["kw_rows"], batch["kw_samples"]
        u_in, u_out, of_candidates = vectors.index_select(0, rows).split([size, size, len(rows) - 2 * size])
        if "kw_changed" in batch and "kw_nodes" not in batch:
            u_in = u_in.index_copy(0, batch["kw_changed"], batch["kw_vectors"].to(u_in.dtype))
        known, has_output, has_impostor = batch["kw_known"].bool()
        if "dropped" in batch:
            known = known & ~batch["dropped"]
        if "kw_alone" in batch:
            u_in = self._with_unseen(known, u_in, batch["kw_alone"])
        u_out = u_out.masked_fill(~has_output.unsqueeze(-1), 0.0)
        u_in, u_out, u_imp = at_least_float32(u_in, u_out, self.impostor(u_out, of_candidates, samples))
        return KeywordOutput(u_in, u_out, u_imp, has_impostor, likeness(u_out, u_imp, of_candidates, samples))

    def _with_unseen(self, known: Tensor, seen: Tensor, vectors: Tensor) -> Tensor:
        """Return u_in (B, d): ``seen`` where the node is ``known``, a new node with its self loop elsewhere."""
        return torch.where(known.unsqueeze(-1), seen, self.attention.isolated(vectors.to(seen.dtype)))

    def impostors(self, ky: Tensor, kneg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nodes that impostors are made of; see :func:`impostor_candidates`."""
        return impostor_candidates(self.graph, ky, kneg, neighbours=self.config.graph.iterations > 0)

    # Decoding

    def memory(self, hidden: Tensor, mask: Tensor, u_in: Tensor | None, z: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return what the decoder attends to, [Wm z ; u_in ; H_x] (B, S, d), and its mask (B, S)."""
        slots = [] if z is None or self.latent_entry.by_layer else [self.latent_entry.slot(z)]
        if self.config.decoder.kw_memory and u_in is not None:
            slots.append(self.keyword_slot(unit_scale(u_in) if self.config.keyword.unit_scale else u_in))
        parts = [slot.unsqueeze(1) for slot in slots]
        real = torch.ones(len(mask), len(slots), dtype=torch.bool, device=mask.device)
        return torch.cat([*parts, hidden], dim=1), torch.cat([real, mask.bool()], dim=1)

    def decode(self, ids: Tensor, memory: Tensor, mask: Tensor, z: Tensor | None,
               cache: transformer.Cache | None = None) -> Tensor:
        """Return the states (B, L, d) from which words are scored, for input tokens (B, L) that follow the cache's."""
        embedded, entry, inputs = self.get_input_embeddings()(ids), self.latent_entry, None
        if z is not None and entry.by_layer:
            inputs = entry.inputs(z).unsqueeze(1).chunk(entry.layers, dim=-1)
        elif z is not None:
            embedded = embedded + entry.embedding(z).unsqueeze(1)
        return self.decoder(embedded, memory, mask, cache, inputs)

    def score(self, states: Tensor) -> Tensor:
        """Return scores over the vocabulary (..., V), in training perhaps padded, for states (..., d)."""
        return self.word_scores(states, self._words())

    def surprise(self, logits: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the cross-entropy (B,) of scores (N, V), at least, of all targets' tokens, summed over each target."""
        words = batch["y_out"].flatten().index_select(0, batch["token_places"])
        return segment_sum(F.cross_entropy(logits, words, reduction="none"), batch["token_samples"],
                           len(batch["y_out"]))

    def token_scores(self, hidden: Tensor, u_in: Tensor | None, z: Tensor | None,
                     batch: Mapping[str, Tensor]) -> Tensor:
        """Return the scores (N, V), at least, of all targets' tokens, as :meth:`reconstruct` has them."""
        memory, memory_mask = self.memory(hidden, batch["x_mask"], u_in, z)
        memory_mask = self._source_dropout(memory_mask, hidden.shape[1])
        states = self.decode(self._word_dropout(batch), memory, memory_mask, z)
        rows = states.flatten(0, 1).index_select(0, batch["token_places"])
        return self.score(rows).float()  # padding never meets the vocabulary

    def _word_dropout(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Replace input words of the decoder by [MASK] at random, so that it has to lean on z."""
        ids, rate = batch["y_in"], self.config.latent.word_dropout
        if not self.training or rate == 0.0:
            return ids
        dropped = torch.rand(ids.shape, device=ids.device) < rate
        dropped[:, 0] = False
        return ids.masked_fill(dropped, self.config.special_ids["mask"])

    def _source_dropout(self, mask: Tensor, states: int) -> Tensor:
        """Hide some of the last ``states`` places of a memory's mask (B, S) in training; the first one stays."""
        rate = self.config.decoder.source_dropout
        if not self.training or rate == 0.0:
            return mask
        kept = torch.rand(mask.shape, device=mask.device) >= rate
        kept[:, :max(1, mask.shape[1] - states)] = True
        return mask & kept

    def _words(self) -> Tensor:
        """Return what losses score words by: in training on a GPU padded, so that products take its faster ways."""
        words = self.get_input_embeddings().weight
        return padded_words(words, _WORDS if self.training and words.device.type != "cpu" else 1)

    def noise(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the batch's noise for z (B, dz), or draw some."""
        if "eps" in batch:
            return batch["eps"]
        return torch.randn(len(batch["x_ids"]), self.config.latent.size, device=batch["x_ids"].device)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        name = next(name for name, part in self.named_modules() if part is module)
        with torch.random.fork_rng(devices=[]):
            digest = hashlib.sha256(f"{self._draw} {name}".encode()).digest()
            torch.default_generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)  # alone, as it alone comes back
            super()._init_weights(module)
        if isinstance(module, TiedOutput):
            init.zeros_(module.bias)


def _forget_vectors(model: HclNetwork, _: object) -> None:
    model._vectors = None
    model._frozen_states.forget()


_ANNEALING_SHARE = 0.2  # of all steps, at most


def annealed_by(steps: int, total: int) -> int:
    """Return the step of ``total`` from which beta is 1, where ``latent.annealing_steps`` asks for ``steps``."""
    return min(steps, round(_ANNEALING_SHARE * total))


def kl_weight(step: int, annealing_steps: int) -> float:
    """Return beta after ``step`` steps: it rises from 0 to 1 over ``annealing_steps`` (Bowman et al. 2016)."""
    return 1.0 if annealing_steps <= 0 else min(1.0, step / annealing_steps)


def objective(output: HclOutput, config: HclConfig, kl_weight: float,
              totals: BatchTotals | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the training loss of a batch, or a micro-batch's share in it, and its parts, detached and unweighted.

    Eq. 3 beside the contrasts of section 3.2: L = (L_rec + beta * KL + L_bow) / mean target length + sum of weighted
    contrasts, which ``added_to: sentence`` divides too. ``totals`` are the sizes of the whole batch if ``output`` is a
    part of it; shares then add up, but for the free bits and the posterior's normalisation.
    """
    totals = totals or BatchTotals.of(output)
    share = len(output.reconstruction) / totals.items
    parts = {"reconstruction": output.reconstruction.sum() / totals.items}
    elbo = parts["reconstruction"]
    if output.latent is not None:
        parts["kl"] = output.latent.kl.sum() / totals.items
        elbo = elbo + share * _kl_term(output.latent, config, kl_weight)
    if output.latent is not None and output.latent.bow is not None:
        parts["bow"] = output.latent.bow.sum() / totals.items
        elbo = elbo + parts["bow"]
    loss = elbo / config.mean_target_length
    divisor = config.mean_target_length if config.contrasts.added_to == "sentence" else 1.0
    for name in config.contrasts_used:
        if (found := output.contrasts.get(name)) is not None:
            parts[name] = masked_mean(found.loss, found.mask, totals.of_contrast(name))
            loss = loss + config.contrast(name).weight / divisor * parts[name]
    return loss, {name: value.detach() for name, value in {"loss": loss, **parts}.items()}


def _kl_term(latent: LatentOutput, config: HclConfig, beta: float) -> Tensor:
    """Return beta KL, mean over samples, above its free bits.

    Where these are for the posterior alone, each side sees the other as a constant (DreamerV2, Hafner et al. 2021).
    """
    settings, (q, p) = config.latent, (latent.posterior, latent.prior)
    if settings.free_bits_for == "both":
        return beta * free_bits_kl(latent.kl_dims, settings.free_bits, settings.free_bits_by)
    dims = gaussian_kl_dims(q.mu, q.logvar, p.mu.detach(), p.logvar.detach())
    pulled = gaussian_kl(q.mu.detach(), q.logvar.detach(), p.mu, p.logvar).mean()
    return beta * free_bits_kl(dims, settings.free_bits, settings.free_bits_by) + pulled - pulled.detach()


def validation_loss(output: HclOutput, config: HclConfig) -> Tensor:
    """Return the loss that selects checkpoints, per sample (B,): (L_rec + KL) / mean target length, for all rows."""
    total = output.reconstruction if output.latent is None else output.reconstruction + output.latent.kl
    return total / config.mean_target_length


def training_monitors(output: HclOutput, totals: BatchTotals) -> dict[str, Tensor | float]:
    """Return a micro-batch's shares in the monitors of its batch, which has the sizes ``totals``.

    ``_masked`` is the share of samples that take no part in a contrast, ``_vanished``, of the others, of losses below
    0.01.
    """
    shares: dict[str, Tensor | float] = {}
    if output.latent is not None:
        logvar = output.latent.posterior.logvar.detach()  # (B, dz)
        shares["mean_log_sigma"] = 0.5 * logvar.sum() / (totals.items * logvar.shape[-1])
    if output.keyword is not None:
        likeness = (output.keyword.likeness * output.keyword.mask).sum(1) / max(1, totals.impostors)  # (3,)
        shares |= dict(zip(LIKENESS, likeness.unbind(), strict=True))
    part = len(output.reconstruction) / totals.items
    for name, found in output.contrasts.items():
        count = totals.of_contrast(name)
        shares[f"{name}_masked"] = part * (1 - count / totals.items)
        shares[f"{name}_vanished"] = ((found.loss.detach() < VANISHED_LOSS) & found.mask).sum() / max(1, count)
    return shares
