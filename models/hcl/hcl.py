"""The HCL network and its loss (ACL 2022): a conditional variational encoder-decoder with a keyword graph."""

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
from models.hcl.config import CONTRASTS, HclConfig
from models.hcl.decoder import Decoder, TiedOutput, padded_words
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
from models.hcl.latent import (
    Gaussian,
    GaussianNetwork,
    LatentEntry,
    LatentOutput,
    Posterior,
    free_bits_kl,
    in_full,
    mahalanobis,
    unit_scale,
)

_WORDS = 64  # a vocabulary of so many words, or a multiple, lies well in the memory of a GPU
_SHORTEST = 1e-8  # a zero vector has cosine 0 to everything
_WASTE = 1.25  # texts share one pass if padding them to one length costs at most a quarter


@dataclass(frozen=True)
class Encoded:
    """A kind of text: states (B, L, d) and vectors (B, d)."""

    states: Tensor
    vector: Tensor


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
        gap: how far the right candidate is ahead of the wrong one, in units of the temperature (B,).
        mask: samples that take part (B,); all else holds for these alone.
        points: the right and the wrong candidate, if they are points of the latent space (B, 2, dz).
    """

    right: Tensor
    wrong: Tensor
    loss: Tensor
    gap: Tensor
    mask: Tensor
    points: Tensor | None = None

    @classmethod
    def of_distances(cls, right: Tensor, wrong: Tensor, temperature: float, mask: Tensor,
                     points: Tensor | None = None) -> Self:
        """Return -log(1 - softmax) of the right one's distance: softplus((right - wrong) / t)."""
        right, wrong = at_least_float32(right, wrong)
        gap = (wrong - right) / temperature
        return cls(right, wrong, F.softplus(-gap), gap, mask, points)

    @classmethod
    def of_similarities(cls, right: Tensor, wrong: Tensor, temperature: float, mask: Tensor) -> Self:
        """Return -log softmax of the right one's similarity: softplus((wrong - right) / t)."""
        right, wrong = at_least_float32(right, wrong)
        gap = (right - wrong) / temperature
        return cls(right, wrong, F.softplus(-gap), gap, mask)


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
        return self.negatives if name == "instance" else self.impostors


class HclNetwork(PreTrainedModel):
    """HCL: x -> y by way of z, with keyword vectors from a graph; :class:`models.hcl.model.HclModel` adds decoding.

    Symbols: H_x (B, Lx, d) and h_x (B, d) encoder states of the input and their mean over real tokens;
    u_in, u_out, u_imp (B, d) vectors of input, output and impostor keyword; p(z|x,u_in) prior and
    q(z|x,y) posterior over z (B, dz). z enters the decoder as :class:`LatentEntry` says: by default as a memory
    slot, [Wm z ; H_x], and added to every input embedding, e_t + We z.

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
        contrasts = {} if keyword is None else {"keyword": self.keyword_contrast(keyword)}
        latent, z = self.latent(texts, keyword, batch) if has_latent else (None, None)
        if latent is not None and z is not None:
            z = self._from_prior(z, latent.prior)
        if latent is not None:
            contrasts |= self._latent_contrasts(keyword, latent)
        u_in, hidden = keyword.u_in if keyword is not None else None, texts["x"].states
        reconstruction = self.reconstruct(hidden, u_in, z, batch)
        return HclOutput(hidden, reconstruction, batch["y_in_mask"].sum(-1), latent, keyword,
                         {name: contrasts[name] for name in CONTRASTS if name in contrasts})

    # Contrasts (HCL section 3.2)

    def keyword_contrast(self, keyword: KeywordOutput) -> Contrasted:
        """Eq. 10: cos(u_in, u_out) against cos(u_in, u_imp), of samples with an impostor."""
        vectors = torch.stack([keyword.u_in, keyword.u_out, keyword.u_imp])  # (3, B, d)
        unit = F.normalize(vectors, dim=-1, eps=_SHORTEST)
        s_out, s_imp = (unit[0] * unit[1:]).sum(-1).unbind()  # (B,)
        return Contrasted.of_similarities(s_out, s_imp, self.config.contrasts.keyword.temperature, keyword.mask)

    def _latent_contrasts(self, keyword: KeywordOutput | None, latent: LatentOutput) -> dict[str, Contrasted]:
        """Return the contrasts that read distributions over z, of instances and between levels (eq. 11)."""
        settings, found = self.config.contrasts, {}
        if latent.d_neg is not None and latent.has_negative is not None:  # KL(q+ || p) against KL(q- || p)
            found["instance"] = Contrasted.of_distances(latent.d_pos, latent.d_neg, settings.instance.temperature,
                                                        latent.has_negative)
        if keyword is not None:  # distances of output and impostor keyword, mapped by P, to q(z | x, y+)
            points = in_full(self.keyword_points, torch.stack([keyword.u_out, keyword.u_imp], dim=1))  # (B, 2, dz)
            mu, logvar = latent.posterior.mu.unsqueeze(1), latent.posterior.logvar.unsqueeze(1)
            d_out, d_imp = mahalanobis(points, mu, logvar).unbind(1)  # of a mean over dimensions (B,)
            found["mahalanobis"] = Contrasted.of_distances(d_out, d_imp, settings.mahalanobis.temperature,
                                                           keyword.mask, points)
        return found

    def latent(self, texts: Mapping[str, Encoded], keyword: KeywordOutput | None,
               batch: Mapping[str, Tensor]) -> tuple[LatentOutput, Tensor]:
        """Return the distributions over z, and z drawn from the posterior (B, dz), given :meth:`texts` x, y, neg."""
        h_x, (prior, posteriors) = texts["x"].vector, self.gaussians(texts, keyword)
        z = posteriors.of_text(0).sample(self.noise(batch))
        bow = self._bow(h_x, z, batch) if self.config.uses_bow else None
        return LatentOutput.of(self.config, prior, posteriors, batch.get("has_negative"), bow), z

    def _from_prior(self, z: Tensor, prior: Gaussian) -> Tensor:
        """Return z (B, dz), in training for a share of the items, at random, the prior's mean (Sohn et al. 2015).

        The decoder learns from what texts are decoded from, and what it lacks there goes to prior, keyword and graph.
        """
        share = self.config.latent.prior_share
        if not self.training or share == 0.0:
            return z
        chosen = torch.rand(len(z), 1, device=z.device) < share
        return torch.where(chosen, prior.mu, z)

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

    Eq. 3: L = (L_rec + beta * KL + L_bow) / mean target length + sum of weighted contrasts; with ``added_to: sentence``
    the contrasts are divided too, and so weigh beside the sum over a sentence as it is printed. Free bits act here
    alone; beta touches no contrast. ``totals`` are the sizes of the whole batch if ``output`` is a part of it; shares
    then add up to the batch's loss. Only the free bits are granted to each part by itself, and the posterior's means
    normalised.
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
    """Return the loss that selects checkpoints, per sample (B,): L_rec(z ~ q) + KL over the mean target length.

    Beta is 1, without free bits, auxiliary losses and contrasts: all rows of a table are selected by one quantity.
    """
    total = output.reconstruction if output.latent is None else output.reconstruction + output.latent.kl
    return total / config.mean_target_length
