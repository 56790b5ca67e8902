"""The HCL model: its network over a batch, and decoding: z from the prior, then beam or contrastive search."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, PreTrainedModel
from transformers import initialization as init

from models.common import decoding, transformer
from models.common.losses import at_least_float32, gaussian_kl_dims
from models.common.task import moved
from models.hcl import graph as graphs
from models.hcl import hcl
from models.hcl.graph import KeywordGraph, Planner, Views
from models.hcl.hcl import Contrasted, Gaussian, HclConfig, HclOutput, KeywordOutput, LatentOutput
from models.hcl.settings import CONTRASTS

Search = Literal["beam", "contrastive"]
_SHORTEST = 1e-8  # a zero vector has cosine 0 to everything
_MOST_PADDING = 1.25  # texts share one pass if padding them to one length costs at most a quarter


@dataclass(frozen=True)
class Encoded:
    """Texts of one kind: states (B, L, d) and vectors (B, d)."""

    states: Tensor
    vector: Tensor


@dataclass(frozen=True)
class Conditions:
    """The decoder's inputs for a batch; several outputs of one input share them."""

    hidden: Tensor  # encoder states of the input (B, Lx, d)
    mask: Tensor  # True for its real tokens (B, Lx)
    u_in: Tensor | None  # vector of the input keyword (B, d); None for a model without keyword
    prior: Gaussian | None  # p(z | x, u_in); None for the deterministic backbone

    @property
    def mean(self) -> Tensor | None:
        """Mean of the prior (B, dz); None without one."""
        return None if self.prior is None else self.prior.mu


class HclModel(PreTrainedModel):
    """HCL as it is trained, saved and used: x -> y by way of z, with keyword vectors from a graph.

    All modules exist in every configuration; those that are switched off are not run and get no gradient. The
    name of a module seeds its initial weights, so that all rows of an ablation table start from the same weights.

    A batch is a dict of tensors: ``x_ids``, ``x_mask`` (B, Lx); ``y_ids``, ``y_mask`` (B, Ly) with [CLS] and [SEP];
    ``y_in``, ``y_out``, ``y_in_mask`` (B, Lt), the shifted pair; ``neg_ids``, ``neg_mask`` (B, Ln), ``has_negative``
    (B,); ``kx``, ``ky``, ``kneg`` (B,) node ids, -1 for none. Optional: ``eps`` (B, dz), noise for z (else drawn), and
    ``unseen_vectors`` (B, d), initial vectors where ``kx`` is -1. Training may add ``view`` (B,), the number of an
    item's view of the graph (read only by a :meth:`planner` with :class:`Views`), and ``dropped`` (B,), True where the
    input keyword is treated as a new node; both need ``unseen_vectors``. Every mask has a real token in each row.

    Use ``HclModel.from_pretrained(folder).paraphrase(ids, mask, keyword_nodes=nodes)``.
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
        self.decoder = hcl.Decoder(config)
        self.word_scores = hcl.TiedOutput(config.vocab_size)
        self.graph = KeywordGraph(config.num_nodes, config.num_edges, width)
        self.attention = graphs.GraphAttention(width, config.graph.iterations, config.graph.layer_norm)
        self.impostor = graphs.Impostor(width, config.keyword.impostor_weight)
        self.prior = hcl.GaussianNetwork(width, size, config.keyword.unit_scale)
        self.posterior = hcl.GaussianNetwork(width, size)
        self.latent_entry = hcl.LatentEntry(size, width)
        self.keyword_slot = nn.Linear(width, width)
        self.keyword_points = nn.Linear(width, size, bias=False)  # P: keywords in the latent space
        self._vectors: Tensor | None = None
        self.register_load_state_dict_post_hook(lambda model, _: setattr(model, "_vectors", None))
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
            model.decoder.positions.weight.data.copy_(positions)  # which fit the word embeddings
        model.latent_entry.scale_init(model.get_input_embeddings().weight)
        if graph is not None:
            model.graph.load_state_dict(graph.state_dict())
        return model

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        name = next(name for name, part in self.named_modules() if part is module)
        with torch.random.fork_rng(devices=[]):
            digest = hashlib.sha256(f"{self._draw} {name}".encode()).digest()
            # not torch.manual_seed: fork_rng restores this generator alone
            torch.default_generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
            super()._init_weights(module)
        if isinstance(module, hcl.TiedOutput):
            init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word-piece embeddings, which also score the output."""
        return self.encoder.embeddings.word_embeddings

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode; either way the vectors of the whole graph are computed anew."""
        self._vectors = None
        return super().train(mode)

    # One pass over a batch

    def forward(self, batch: Mapping[str, Tensor], validating: bool = False) -> HclOutput:
        """Return all parts of a batch, z drawn from the posterior.

        The loss that selects a checkpoint must not depend on negatives, not even by rounding: ``validating`` encodes
        them apart.
        """
        has_latent = self.config.latent.enabled
        names = ["x", "y", "neg"] if has_latent else ["x"]
        passes = [names[:2], names[2:]] if validating else [names]
        texts = {name: text for part in passes for name, text in self.texts(batch, part).items()}
        batch = self.planned(batch)
        keyword = self.keywords(batch)
        if keyword is not None and validating:
            keyword = replace(keyword, mask=keyword.mask & (batch["kx"] >= 0))
        contrasts = {"keyword": self.keyword_contrast(keyword)}
        latent, z = self.latent(texts, keyword, batch) if has_latent else (None, None)
        contrasts["instance"] = self.instance_contrast(latent)
        contrasts["mahalanobis"] = self.mahalanobis_contrast(keyword, latent)
        u_in, hidden = keyword.u_in if keyword is not None else None, texts["x"].states
        reconstruction = self.target_nll(self.token_scores(hidden, u_in, z, batch), batch)
        return HclOutput(hidden, reconstruction, latent, keyword,
                         {name: value for name in CONTRASTS if (value := contrasts[name]) is not None})

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return encoder states (B, L, d)."""
        return transformer.encode(self.encoder, ids, mask)

    def texts(self, batch: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Encoded]:
        """Return the encoded texts ``names`` (x, y, neg) of the batch, from one pass if their lengths are similar."""
        names = [name for name in names if f"{name}_ids" in batch]
        if not names:
            return {}
        ids, masks = ([batch[f"{name}_{part}"] for name in names] for part in ("ids", "mask"))
        longest, rows = max(part.shape[1] for part in ids), [len(part) for part in ids]
        if sum(rows) * longest > _MOST_PADDING * sum(part.numel() for part in ids):
            return {name: text for single in names for name, text in self.texts(batch, [single]).items()}
        pad = self.config.special_ids["pad"]
        all_ids, mask = (torch.cat([F.pad(part, (0, longest - part.shape[1]), value=fill) for part in parts])
                         for parts, fill in ((ids, pad), (masks, 0)))
        hidden = self.encode(all_ids, mask)
        (full,) = at_least_float32(hidden)
        vectors = transformer.mean_pool(full, mask).split(rows)
        return {name: Encoded(states[:, : part.shape[1]], vector) for name, part, states, vector
                in zip(names, ids, hidden.split(rows), vectors, strict=True)}

    # Keywords

    def keyword_vectors(self) -> Tensor:
        """Return the vectors u of all nodes (n, d), without gradients; cached until training goes on."""
        if self._vectors is None or self._vectors.device != self.graph.h0.device:
            with torch.autocast(self.graph.h0.device.type, enabled=False):  # later callers may have no autocast
                self._vectors = self.attention.all_vectors(self.graph)
        return self._vectors

    def planner(self, views: Views | None = None) -> Planner:
        """Return the planner of batches, on the CPU; ``views`` of the graph are for batches that have ``view``."""
        return Planner(self.graph.structure(), self.config.uses_keyword, self.config.graph.iterations, views)

    def planned(self, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return ``batch`` with its plan; a missing plan is made on the CPU, and the host then waits for the device."""
        if "token_places" in batch:
            return batch
        names = ("kx", "ky", "kneg", "y_in_mask", "unseen_vectors", "dropped")
        inputs = {name: batch[name].cpu() for name in names if name in batch}
        plan = self.planner().plan(inputs, self.training or torch.is_grad_enabled())
        return {**batch, **moved(plan, batch["y_in_mask"].device)}

    def keywords(self, batch: Mapping[str, Tensor]) -> KeywordOutput | None:
        """Return keyword vectors of a planned batch, in float32 at least; None for a model that reads none."""
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
        cosines = graphs.impostor_cosines(u_out, u_imp, of_candidates, samples)
        return KeywordOutput(u_in, u_out, u_imp, has_impostor, cosines)

    def _with_unseen(self, known: Tensor, seen: Tensor, vectors: Tensor) -> Tensor:
        """Return u_in (B, d): ``seen`` where the node is ``known``, else a new node with its self loop."""
        return torch.where(known.unsqueeze(-1), seen, self.attention.isolated(vectors.to(seen.dtype)))

    # The latent variable

    def latent(self, texts: Mapping[str, Encoded], keyword: KeywordOutput | None,
               batch: Mapping[str, Tensor]) -> tuple[LatentOutput, Tensor]:
        """Return the distributions over z, and z (B, dz), in training the prior's mean for a share of the items."""
        prior, posteriors = self.gaussians(texts, keyword)
        z = posteriors.of_text(0).sample(self.noise(batch))
        all_dims = gaussian_kl_dims(posteriors.mu, posteriors.logvar, prior.mu.unsqueeze(1), prior.logvar.unsqueeze(1))
        distances, kl_dims = all_dims.sum(-1) / self.config.latent.size, all_dims[:, 0]  # (B, 1 or 2), (B, dz)
        latent = LatentOutput(prior, posteriors.of_text(0), None, kl_dims, distances[:, 0], None, None)
        if "neg" in texts:
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
            return prior, self.posterior(h_x.unsqueeze(1), torch.cat(vectors, dim=1))
        # apart, as in ``forward``, so that negatives change nothing by rounding
        parts = [self.posterior(h_x.unsqueeze(1), part) for part in vectors]
        return prior, Gaussian(*(torch.cat([getattr(part, name) for part in parts], 1) for name in ("mu", "logvar")))

    def noise(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the batch's noise for z (B, dz), or draw some."""
        if "eps" in batch:
            return batch["eps"]
        return torch.randn(len(batch["x_ids"]), self.config.latent.size, device=batch["x_ids"].device)

    # The contrasts (section 3.2), each None where the model or the batch lacks an input

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
        points = hcl.in_full(self.keyword_points, torch.stack([keyword.u_out, keyword.u_imp], dim=1))  # (B, 2, dz)
        mu, logvar = latent.posterior.mu.unsqueeze(1), latent.posterior.logvar.unsqueeze(1)
        d_out, d_imp = hcl.mahalanobis(points, mu, logvar).unbind(1)  # (B,)
        return Contrasted.of_distances(d_out, d_imp, self.config.contrasts.mahalanobis.temperature, keyword.mask,
                                       points)

    # Words

    def memory(self, hidden: Tensor, mask: Tensor, u_in: Tensor | None, z: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the decoder's memory, [Wm z ; u_in ; H_x] (B, S, d), and its mask (B, S)."""
        slots = [] if z is None else [self.latent_entry.slot(z)]
        if self.config.decoder.kw_memory and u_in is not None:
            slots.append(self.keyword_slot(hcl.unit_scale(u_in) if self.config.keyword.unit_scale else u_in))
        parts = [slot.unsqueeze(1) for slot in slots]
        real = torch.ones(len(mask), len(slots), dtype=torch.bool, device=mask.device)
        return torch.cat([*parts, hidden], dim=1), torch.cat([real, mask.bool()], dim=1)

    def decode(self, ids: Tensor, memory: Tensor, mask: Tensor, z: Tensor | None,
               cache: decoding.BeamCache | None = None) -> Tensor:
        """Return the states (B, L, d) that words are scored from, of tokens (B, L) that follow the cached ones."""
        embedded = self.get_input_embeddings()(ids)
        if z is not None:
            embedded = embedded + self.latent_entry.embedding(z).unsqueeze(1)
        return self.decoder(embedded, memory, mask, cache)

    def score(self, states: Tensor) -> Tensor:
        """Return scores over the vocabulary (..., V), in training on a GPU perhaps padded, of states (..., d)."""
        words = self.get_input_embeddings().weight
        missing = -len(words) % transformer.ALIGNED if self.training and words.device.type != "cpu" else 0
        return self.word_scores(states, F.pad(words, (0, 0, 0, missing)) if missing else words)

    def token_scores(self, hidden: Tensor, u_in: Tensor | None, z: Tensor | None,
                     batch: Mapping[str, Tensor]) -> Tensor:
        """Return the scores (N, V or more) of all real tokens of a planned batch's targets."""
        memory, memory_mask = self.memory(hidden, batch["x_mask"], u_in, z)
        memory_mask = self._source_dropout(memory_mask, hidden.shape[1])
        states = self.decode(batch["y_in"], memory, memory_mask, z)
        rows = states.flatten(0, 1).index_select(0, batch["token_places"])
        return self.score(rows).float()

    def target_nll(self, scores: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """Return -log p of each target (B,), summed over its tokens, from :meth:`token_scores` of a planned batch."""
        words = batch["y_out"].flatten().index_select(0, batch["token_places"])
        return graphs.segment_sum(F.cross_entropy(scores, words, reduction="none"), batch["token_samples"],
                           len(batch["y_out"]))

    def _source_dropout(self, mask: Tensor, states: int) -> Tensor:
        """Hide some of the last ``states`` places of a memory's mask (B, S) in training; the first one stays."""
        rate = self.config.decoder.source_dropout
        if not self.training or rate == 0.0:
            return mask
        kept = torch.rand(mask.shape, device=mask.device) >= rate
        kept[:, :max(1, mask.shape[1] - states)] = True
        return mask & kept

    # Generation

    @torch.no_grad()
    def paraphrase(self, input_ids: Tensor, attention_mask: Tensor, keyword_nodes: Tensor | None = None,
                   unseen_vectors: Tensor | None = None, *, z: Tensor | None = None, **options: Any) -> Tensor:
        """Generate one output per input: tokens (B, L), L <= max_length + 1, the output, [SEP], then [PAD].

        ``keyword_nodes`` (B,) are -1 for keywords that the graph lacks, of which ``unseen_vectors`` (B, d) are read.
        ``z``: latent vectors (B, dz), by default the prior's mean. ``options``: :meth:`generate_from`.
        """
        given = self.conditions(input_ids, attention_mask, keyword_nodes, unseen_vectors)
        return self.generate_from(given, given.mean if z is None else z, **options)

    @torch.no_grad()
    def conditions(self, input_ids: Tensor, attention_mask: Tensor, keyword_nodes: Tensor | None = None,
                   unseen_vectors: Tensor | None = None) -> Conditions:
        """Encode inputs and keywords; arguments and errors as for :meth:`paraphrase`."""
        if self.training:
            raise ValueError("HclModel: call eval() before paraphrase(), or dropout decides the output")
        hidden = self.encode(input_ids, attention_mask)
        u_in = None
        if self.config.uses_keyword:
            if keyword_nodes is None:
                raise ValueError("HclModel: this model is conditioned on keywords; give keyword_nodes (B,)")
            if unseen_vectors is None and (unknown := int((keyword_nodes < 0).sum())):
                raise ValueError(f"HclModel: {unknown} input keywords are no nodes; give their unseen_vectors (B, d)")
            with torch.autocast(keyword_nodes.device.type, enabled=False):  # as in ``keyword_vectors``
                u_in = self.keyword_vectors().index_select(0, keyword_nodes.clamp(min=0))
                if unseen_vectors is not None:
                    u_in = self._with_unseen(keyword_nodes >= 0, u_in, unseen_vectors)
        prior = None
        if self.config.latent.enabled:
            prior = self.prior(transformer.mean_pool(hidden, attention_mask), u_in)
        return Conditions(hidden, attention_mask, u_in, prior)

    @torch.no_grad()
    def likelihood(self, given: Conditions, targets: Mapping[str, Tensor]) -> Tensor:
        """Return -log p(y | x, z) of each item (B,) at the prior's mean; ``y_in``, ``y_in_mask``, ``y_out`` (B, T)."""
        batch = {**targets, "x_mask": given.mask, **graphs.places_of(targets["y_in_mask"])}
        return self.target_nll(self.token_scores(given.hidden, given.u_in, given.mean, batch), batch)

    @torch.no_grad()
    def generate_from(self, given: Conditions, z: Tensor | None, *, search: Search = "beam", num_beams: int = 4,
                      min_length: int = 5, max_length: int = 20, length_penalty: float = 1.0, top_k: int = 5,
                      alpha: float = 0.6) -> Tensor:
        """Generate one output per input from :meth:`conditions` and latent vectors (B, dz), if any.

        Beam search reads ``num_beams`` (1 is greedy) and ``length_penalty``, contrastive search ``top_k`` candidates
        and ``alpha``, the weight of the penalty on similarity; lengths exclude the end token.
        """
        if search not in ("beam", "contrastive"):
            raise ValueError(f"HclModel: search is {search!r}, expected 'beam' or 'contrastive'")
        ids = self.config.special_ids
        banned = tuple(ids[role] for role in ("pad", "bos", "unk", "mask"))
        rules = decoding.Rules(ids["eos"], ids["pad"], min_length, max_length, banned)
        memory, mask = self.memory(given.hidden, given.mask, given.u_in, z)
        steps = self.steps(memory, mask, z, 1 + max_length * (num_beams if search == "beam" else top_k))
        start = torch.full((len(mask),), ids["bos"], device=mask.device)
        if search == "contrastive":
            return decoding.contrastive_search(steps, start, rules, top_k=top_k, alpha=alpha)
        return decoding.beam_search(steps, start, rules, num_beams=num_beams, length_penalty=length_penalty)

    def steps(self, memory: Tensor, mask: Tensor, z: Tensor | None, slots: int) -> decoding.Decodable:
        """Return the steps of a search over a memory (B, S, d) with its mask and z (B, dz), for ``slots`` tokens."""
        given = [memory, transformer.masking(mask.bool(), memory)[:, None, None]]  # the mask once for all tokens
        if z is not None:
            given.append(z)
        return decoding.CachedSteps(self._decoded, self._scored, given, slots)

    def _decoded(self, tokens: Tensor, given: Sequence[Tensor], cache: decoding.BeamCache | None) -> Tensor:
        memory, mask, *rest = given
        return self.decode(tokens, memory, mask, rest[0] if rest else None, cache)

    def _scored(self, states: Tensor) -> Tensor:
        return decoding.project_in_full(states, self.get_input_embeddings().weight, self.word_scores.bias)


@dataclass(frozen=True)
class InitReport:
    """Sorted names of parameters that :func:`init_from` copied, and of those left as freshly initialised."""

    copied: tuple[str, ...]
    left: tuple[str, ...]


@torch.no_grad()
def init_from(model: HclModel, other: HclModel) -> InitReport:
    """Copy into ``model`` every parameter of ``other`` with the same name and shape that ``other`` has trained.

    Each model keeps its own graph. Other widths or vocabularies are a ValueError.
    """
    facts = {"width": (model.config.hidden_size, other.config.hidden_size),
             "vocabulary": (model.config.vocab_size, other.config.vocab_size)}
    if differing := [f"{name} {own} here and {theirs} there" for name, (own, theirs) in facts.items() if own != theirs]:
        raise ValueError(f"init: the models do not fit each other: {', '.join(differing)}; both need the same encoder")
    theirs, untrained = dict(other.named_parameters()), untrained_modules(other.config)
    copied, left = list[str](), list[str]()
    for name, parameter in model.named_parameters():
        source = theirs.get(name)
        is_untrained = any(name.startswith(f"{module}.") for module in untrained)
        if source is None or is_untrained or source.shape != parameter.shape:
            left.append(name)
        else:
            parameter.copy_(source)
            copied.append(name)
    model.train(model.training)  # clears the keyword vectors of the former weights
    return InitReport(tuple(sorted(copied)), tuple(sorted(left)))


def untrained_modules(config: HclConfig) -> tuple[str, ...]:
    """Return the names of modules that a model of this configuration has and never trains."""
    impostors = bool({"keyword", "mahalanobis"} & set(config.contrasts_used))
    trained = {
        "prior.of_condition": config.uses_keyword and config.latent.enabled,
        "keyword_slot": config.decoder.kw_memory,
        "keyword_points": "mahalanobis" in config.contrasts_used,
        "impostor": impostors and config.keyword.impostor_weight == "linear",
        **dict.fromkeys(("prior.of_text", "prior.output", "posterior", "latent_entry"), config.latent.enabled),
        "attention": config.uses_keyword and config.graph.iterations > 0,
    }
    return tuple(sorted(name for name, used in trained.items() if not used))
