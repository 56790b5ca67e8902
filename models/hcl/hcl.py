"""HCL, "Keywords and Instances" (ACL 2022), in the order of the paper: latent variable, contrasts, network, loss.

Graph and graph attention (eq. 4-9) are in ``graph``, the decoder in ``decoder``. Symbols: x input, y+ output, y-
negative output; u_in, u_out, u_imp keyword vectors of input, output and impostor; B samples, L tokens, d width, dz
size of z.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from models.common.encoders import FrozenStates, mean_pool
from models.common.losses import at_least_float32, bow_loss, gaussian_kl, gaussian_kl_dims, masked_mean
from models.common.transformer import Cache
from models.hcl.config import HclConfig
from models.hcl.decoder import Decoder, LatentEntry, TiedOutput, padded_words
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
from models.hcl.settings import CONTRASTS

LOGVAR_RANGE = (-8.0, 8.0)
_SMALLEST_SQUARE = 1e-12  # mean square beside which that of a vector counts as none
_SMALLEST_VARIANCE = 1e-5  # beside which a dimension's variance over a batch counts as none
_WORDS = 64  # a vocabulary of so many words, or a multiple, lies well in the memory of a GPU
_SHORTEST = 1e-8  # a zero vector has cosine 0 to everything
VANISHED_LOSS = 0.01  # below which a contrast teaches nothing
LIKENESS = ("impostor_cosine", "impostor_hardest", "impostor_easiest")  # as KeywordOutput.likeness has them
_WASTE = 1.25  # texts share one pass if padding them to one length costs at most a quarter


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
    """Distributions over z and the distances between them.

    Attributes:
        prior, posterior, negative: p(z|x,u), q(z|x,y+), q(z|x,y-); ``negative`` is None without negatives.
        kl_dims: KL(q+ || p) by dimension (B, dz).
        d_pos, d_neg: KL(q+ || p) and KL(q- || p) as the contrast sees them, per dimension (B,).
        has_negative: which negatives are real (B,).
        bow: bag-of-words loss, summed over tokens (B,).
    """

    prior: Gaussian
    posterior: Gaussian
    negative: Gaussian | None
    kl_dims: Tensor
    d_pos: Tensor
    d_neg: Tensor | None
    has_negative: Tensor | None
    bow: Tensor | None

    @classmethod
    def of(cls, config: HclConfig, prior: Gaussian, texts: Gaussian, has_negative: Tensor | None,
           bow: Tensor | None) -> "LatentOutput":
        """Return the output of the prior and the posteriors (B, 1 or 2, dz) of true and, if any, negative outputs."""
        all_dims = gaussian_kl_dims(texts.mu, texts.logvar, prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1))
        distances, posterior = all_dims.sum(-1) / config.latent.size, texts.of_text(0)  # (B, 1 or 2), (B, dz)
        kl_dims, d_pos = all_dims[:, 0], distances[:, 0]
        if texts.mu.shape[1] == 1:
            return cls(prior, posterior, None, kl_dims, d_pos, None, None, bow)
        if has_negative is None:
            raise ValueError("HclModel: a batch with neg_ids needs has_negative (B,)")
        return cls(prior, posterior, texts.of_text(1), kl_dims, d_pos, distances[:, 1], has_negative.bool(), bow)

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
    """KL of a batch (B, dz) of which ``nats`` are free: of each dimension's mean its share, or of their sum all.

    Below its share a dimension has zero gradient; in ``total`` all dimensions have theirs as soon as the sum is above,
    and none before (Kingma et al. 2016, sect. C.8). The mean is over the samples given, such as a micro-batch.
    """
    (kl_dims,) = at_least_float32(kl_dims)
    mean = kl_dims.mean(0)  # (dz,)
    return mean.sum().clamp(min=nats) if by == "total" else mean.clamp(min=nats / len(mean)).sum()


class GaussianNetwork(nn.Module):
    """MLP([h_x ; v]) -> mu, log variance: the prior with v = u_in, the posterior with v = h_y.

    One hidden tanh layer of width max(2 dz, 100), as in Zhao et al. 2017, in the precision of its weights under
    autocast too: the contrasts live on small differences between distances of these Gaussians. The two halves of its
    input matrix are two layers, so that the ablation without keyword leaves one out and all rows start from the same
    weights.

    ``scaled`` reads both vectors at a root mean square of 1: graph attention with LayerNorm gives keywords a length of
    sqrt(d), 19.6 at d = 384, where pooled texts have about 6, and the prior would read the keyword three times as loud.
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
    """q(z | x, y): a :class:`GaussianNetwork` whose means may be normalised, and may stand relative to the prior's.

    ``relative``: mu_q = mu_p + sigma_p r, log sigma_q = log sigma_p + s, where r and s are what the network says
    (Vahdat & Kautz 2020). KL depends on r and s alone, and so teaches the posterior alone.

    ``batch_norm`` gamma: the means have standard deviation gamma over a batch in every dimension (BN-VAE, Zhu et al.
    2020); an ``absolute`` one has a learnt shift besides, of a ``relative`` one r is normalised. The statistics are
    those of the true outputs, also for negatives: in training of the micro-batch, in evaluation mode those of
    :meth:`calibrate`, 0 and 1 before.
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
            mu = self._normalised(mu)
        if self.relative:
            mean, log_variance = prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1)
            mu = mean + torch.exp(0.5 * log_variance) * mu
            logvar = (log_variance + logvar).clamp(*LOGVAR_RANGE)
        return Gaussian(mu, logvar)

    def _normalised(self, mu: Tensor) -> Tensor:
        mean, variance = self.get_buffer("mean"), self.get_buffer("variance")
        if self.training:
            variance, mean = torch.var_mean(mu[:, 0], dim=0, correction=0)
        scaled = self.gamma * (mu - mean) * torch.rsqrt(variance + _SMALLEST_VARIANCE)
        return scaled if self.relative else scaled + self.shift

    @torch.no_grad()
    def calibrate(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Set the statistics of evaluation mode to those of ``pairs``: h_x (B, d) and h_y (B, d) of true outputs.

        No running averages, which would follow the order of steps and the number of processes.
        """
        mu = torch.cat([self(h_x, h_y).mu for h_x, h_y in pairs])
        variance, mean = torch.var_mean(mu, dim=0, correction=0)
        self.get_buffer("mean").copy_(mean)
        self.get_buffer("variance").copy_(variance)


# The contrasts (section 3.2): a right and a wrong candidate for each sample


@dataclass(frozen=True)
class KeywordOutput:
    """Keyword vectors of a batch.

    Attributes:
        u_in, u_out, u_imp: vectors of input, output and impostor keyword (B, d).
        mask: samples with an output keyword and an impostor (B,).
        likeness: cosines to the output keyword of impostor, hardest and easiest candidate, without gradient (3, B).
    """

    u_in: Tensor
    u_out: Tensor
    u_imp: Tensor
    mask: Tensor
    likeness: Tensor


@dataclass(frozen=True)
class Contrasted:
    """A contrast between a right and a wrong candidate for each sample of a batch.

    Attributes:
        right, wrong: distance or similarity of the two candidates (B,).
        loss: of each sample (B,); log 2 where the two are equal.
        mask: samples that take part (B,); all else holds for these alone.
        points: the right and the wrong candidate, if they are points of the latent space (B, 2, dz).
    """

    right: Tensor
    wrong: Tensor
    loss: Tensor
    mask: Tensor
    points: Tensor | None = None

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
    """Mean over dimensions of (v - mu)^2 / sigma^2 (B,), for points v (B, dz); 1 is expected of a draw.

    HCL section 3.2.3, with the inverse that is missing in print.
    """
    points, mu, logvar = at_least_float32(points, mu, logvar)
    return ((points - mu).square() * torch.exp(-logvar)).mean(-1)


# The network


@dataclass(frozen=True)
class Encoded:
    """A kind of text: states (B, L, d) and vectors (B, d)."""

    states: Tensor
    vector: Tensor


@dataclass(frozen=True)
class HclOutput:
    """Per-sample parts of a batch, before any weighting; a part that the configuration leaves out is None.

    Attributes:
        hidden: encoder states of the input (B, Lx, d).
        reconstruction: -log p(y+ | x, z), summed over the target's tokens (B,).
        tokens: predicted tokens of each target (B,).
        latent, keyword: None for the deterministic backbone, and without keyword.
        contrasts: by name those of which model and batch have all that they read, whatever their weight.
    """

    hidden: Tensor
    reconstruction: Tensor
    tokens: Tensor
    latent: LatentOutput | None
    keyword: KeywordOutput | None
    contrasts: dict[str, Contrasted]


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

    All modules of the full model exist whatever the configuration switches off; what is off is not run and gets
    no gradient. Each module draws its weights from a seed of its own name, so that every row of an ablation
    table starts from the same weights under one seed, whatever else a row has or lacks.

    A batch is a dict of tensors: ``x_ids``, ``x_mask`` (B, Lx); ``y_ids``, ``y_mask`` (B, Ly) with [CLS] and [SEP];
    ``y_in``, ``y_out``, ``y_in_mask`` (B, Lt), the shifted pair; ``neg_ids``, ``neg_mask`` (B, Ln),
    ``has_negative`` (B,); ``kx``, ``ky``, ``kneg`` (B,) node ids, -1 for none. Optional: ``eps`` (B, dz), noise for
    z (else drawn), and ``unseen_vectors`` (B, d), initial vectors where ``kx`` is -1. Training may add ``view``
    (B,), what an item sees of the graph (:class:`Views`), and ``dropped`` (B,), where its input keyword is to be a
    new node; both read ``unseen_vectors`` too. Every mask has a real token in each row; a row without a negative
    holds, say, [CLS] [SEP]. What :meth:`planner` adds spares the device the search for what the batch reads.
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
        self._frozen_states = FrozenStates()
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

        A decoding step reads the tokens so far, or the last one if there is a cache (B, L), the memory as
        ``encoder_outputs`` (B, S, d), its mask (B, S) and ``latent`` z (B, dz), None for the deterministic backbone.
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

        What selects a checkpoint may not depend on negatives, not even by rounding. So ``validating`` encodes them
        apart, and contrasts of keywords are then of samples whose input keyword is a node too.
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
        reconstruction = self.reconstruct(hidden, u_in, z, batch)
        return HclOutput(hidden, reconstruction, batch["y_in_mask"].sum(-1), latent, keyword,
                         {name: found for name in CONTRASTS if (found := contrasts[name]) is not None})

    def latent(self, texts: Mapping[str, Encoded], keyword: KeywordOutput | None,
               batch: Mapping[str, Tensor]) -> tuple[LatentOutput, Tensor]:
        """Return the distributions over z and z (B, dz), given :meth:`texts` x, y and neg: drawn from the posterior.

        In training, for a share of the items at random, z is the prior's mean (Sohn et al. 2015): the decoder learns
        from what texts are decoded from, and what it lacks there goes to prior, keyword and graph.
        """
        h_x, (prior, posteriors) = texts["x"].vector, self.gaussians(texts, keyword)
        z = posteriors.of_text(0).sample(self.noise(batch))
        bow = self._bow(h_x, z, batch) if self.config.uses_bow else None
        latent = LatentOutput.of(self.config, prior, posteriors, batch.get("has_negative"), bow)
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
        vectors = mean_pool(full, mask).split(rows)
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
        return Planner(self.graph.structure(), self.config, views)

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
        slots = self.latent_entry.memory_slots(z) if z is not None else []
        if self.config.decoder.kw_memory and u_in is not None:
            slots.append(self.keyword_slot(unit_scale(u_in) if self.config.keyword.unit_scale else u_in))
        parts = [slot.unsqueeze(1) for slot in slots]
        real = torch.ones(len(mask), len(slots), dtype=torch.bool, device=mask.device)
        return torch.cat([*parts, hidden], dim=1), torch.cat([real, mask.bool()], dim=1)

    def decode(self, ids: Tensor, memory: Tensor, mask: Tensor, z: Tensor | None,
               cache: Cache | None = None) -> Tensor:
        """Return the states (B, L, d) from which words are scored, for input tokens (B, L) that follow the cache's."""
        embedded = self.get_input_embeddings()(ids)
        if z is None:
            return self.decoder(embedded, memory, mask, cache)
        entry = self.latent_entry
        return self.decoder(entry.embedded(embedded, z), memory, mask, cache, entry.layer_inputs(z))

    def score(self, states: Tensor) -> Tensor:
        """Return scores over the vocabulary (..., V), in training perhaps padded, for states (..., d)."""
        return self.word_scores(states, self._words())

    def reconstruct(self, hidden: Tensor, u_in: Tensor | None, z: Tensor | None, batch: Mapping[str, Tensor]) -> Tensor:
        """Return -log p(y+ | x, z) (B,), summed over tokens, given encoder states of x (B, Lx, d) and u_in (B, d)."""
        return self.surprise(self.token_scores(hidden, u_in, z, batch), batch)

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
        """Hide some of the last ``states`` places of a memory's mask (B, S), those of x, in training.

        In a memory without slots of z or keyword, the first state of x stays.
        """
        rate = self.config.decoder.source_dropout
        if not self.training or rate == 0.0:
            return mask
        kept = torch.rand(mask.shape, device=mask.device) >= rate
        kept[:, :max(1, mask.shape[1] - states)] = True
        return mask & kept

    def _bow(self, h_x: Tensor, z: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        state = torch.tanh(self.bow_hidden(torch.cat([h_x, z], dim=-1)))  # (B, d)
        logits = self.bow_scores(state, self._words())  # (B, V), at least
        return bow_loss(logits, batch["y_out"], batch["y_in_mask"].bool())

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
            torch.default_generator.manual_seed(_seed(self._draw, name))  # alone, as it alone comes back
            super()._init_weights(module)
        if isinstance(module, TiedOutput):
            init.zeros_(module.bias)


def _seed(draw: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{draw} {name}".encode()).digest()[:8], "big") >> 1


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
    contrasts. With ``added_to: sentence`` the contrasts are divided too, and so weigh beside the sum over a sentence as
    it is printed. Free bits act here alone; beta touches no contrast. ``totals`` are the sizes of the whole batch if
    ``output`` is a part of it; shares then add up to the batch's loss. Only the free bits are granted to each part by
    itself, and the posterior's means normalised.
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

    Where these are for the posterior alone, the prior has the gradient of KL at full weight from the first step. As in
    the balancing of DreamerV2 (Hafner et al. 2021), each side sees the other as a constant.
    """
    settings, (q, p) = config.latent, (latent.posterior, latent.prior)
    if settings.free_bits_for == "both":
        return beta * free_bits_kl(latent.kl_dims, settings.free_bits, settings.free_bits_by)
    dims = gaussian_kl_dims(q.mu, q.logvar, p.mu.detach(), p.logvar.detach())
    pulled = gaussian_kl(q.mu.detach(), q.logvar.detach(), p.mu, p.logvar).mean()
    return beta * free_bits_kl(dims, settings.free_bits, settings.free_bits_by) + pulled - pulled.detach()


def validation_loss(output: HclOutput, config: HclConfig) -> Tensor:
    """Return the loss that selects checkpoints, per sample (B,): the bound of eq. 2 over the mean target length.

    Beta is 1, without free bits, auxiliary losses and contrasts: all rows of a table are selected by one quantity.
    """
    total = output.reconstruction if output.latent is None else output.reconstruction + output.latent.kl
    return total / config.mean_target_length


def training_monitors(output: HclOutput, totals: BatchTotals) -> dict[str, Tensor | float]:
    """Return a micro-batch's shares in the monitors of its batch, which has the sizes ``totals``.

    ``mean_log_sigma`` of the posterior; ``impostor_cosine``, ``_hardest``, ``_easiest``, mean cosine to the output
    keyword of the impostor and of the candidates that it is made of; and for each contrast ``_masked``, the share of
    samples that take no part, and ``_vanished``, of the others the share with a loss below 0.01.
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
