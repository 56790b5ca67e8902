"""The HCL generator: the network with decoding: z from the prior, then beam or contrastive search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import GenerationMixin

from models.common import decoding
from models.common.transformer import masking, mean_pool
from models.hcl.graph import places_of
from models.hcl.hcl import Gaussian, HclConfig, HclNetwork

LatentSource = Literal["mean", "sample"]
Search = Literal["beam", "contrastive"]


@dataclass(frozen=True)
class Conditions:
    """What outputs of a batch are generated from; several outputs of one input share it."""

    hidden: Tensor  # encoder states of the input (B, Lx, d)
    mask: Tensor  # True for its real tokens (B, Lx)
    u_in: Tensor | None  # vector of the input keyword (B, d); None for a model without keyword
    prior: Gaussian | None  # p(z | x, u_in); None for the deterministic backbone

    def latent(self, z: LatentSource | Tensor = "mean", generator: torch.Generator | None = None) -> Tensor | None:
        """Return latent vectors (B, dz): the prior's mean, a draw from it, or those given; None without a prior."""
        if self.prior is None:
            return None
        if isinstance(z, Tensor):
            return z
        if z == "mean":
            return self.prior.mu
        if z == "sample":
            device = self.prior.mu.device
            return self.prior.sample(torch.randn(self.prior.mu.shape, generator=generator, device=device))
        raise ValueError(f"HclModel: z is {z!r}, expected 'mean', 'sample' or a tensor (B, dz)")


class HclModel(HclNetwork, GenerationMixin):
    """The HCL model as it is trained, saved and used; see :class:`HclNetwork` for its parts and batches.

    Use ``HclModel.from_pretrained(folder).paraphrase(ids, mask, keyword_nodes=nodes)``; or ``generate`` of
    ``transformers``, given ``encoder_outputs`` (the memory), its mask and ``latent``.
    """

    @torch.no_grad()
    def paraphrase(self, input_ids: Tensor, attention_mask: Tensor, keyword_nodes: Tensor | None = None,
                   unseen_vectors: Tensor | None = None, *, z: LatentSource | Tensor = "mean",
                   generator: torch.Generator | None = None, **options: Any) -> Tensor:
        """Generate one output per input: tokens (B, L), L <= max_length + 1, the output, [SEP], then [PAD].

        ``keyword_nodes`` (B,) are -1 for keywords that the graph lacks, of which ``unseen_vectors`` (B, d) are read.
        ``z``: ``mean`` of the prior, ``sample`` from it by ``generator``, or latent vectors (B, dz). ``options``:
        :meth:`generate_from`.
        """
        given = self.conditions(input_ids, attention_mask, keyword_nodes, unseen_vectors)
        return self.generate_from(given, given.latent(z, generator), **options)

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
            with torch.autocast(keyword_nodes.device.type, enabled=False):  # the same vectors in every mode
                u_in = self.keyword_vectors().index_select(0, keyword_nodes.clamp(min=0))
                if unseen_vectors is not None:
                    u_in = self._with_unseen(keyword_nodes >= 0, u_in, unseen_vectors)
        prior = self.prior(mean_pool(hidden, attention_mask), u_in) if self.config.latent.enabled else None
        return Conditions(hidden, attention_mask, u_in, prior)

    @torch.no_grad()
    def likelihood(self, given: Conditions, targets: Mapping[str, Tensor]) -> Tensor:
        """Return -log p(y | x, z) of each item (B,) at the prior's mean; ``y_in``, ``y_in_mask``, ``y_out`` (B, T)."""
        batch = {**targets, "x_mask": given.mask, **places_of(targets["y_in_mask"])}
        return self.surprise(self.token_scores(given.hidden, given.u_in, given.latent("mean"), batch), batch)

    @torch.no_grad()
    def generate_from(self, given: Conditions, z: Tensor | None, *, search: Search = "beam", num_beams: int = 4,
                      min_length: int = 5, max_length: int = 20, length_penalty: float = 1.0, top_k: int = 5,
                      alpha: float = 0.6) -> Tensor:
        """Generate one output per input from :meth:`conditions` and latent vectors (B, dz), if any.

        Beam search reads ``num_beams`` (1 is greedy) and ``length_penalty``, contrastive search ``top_k`` candidates
        and ``alpha``, the weight of the penalty on likeness; lengths are without the end token.
        """
        if search not in ("beam", "contrastive"):
            raise ValueError(f"HclModel: search is {search!r}, expected 'beam' or 'contrastive'")
        ids = self.config.special_ids
        rules = decoding.Rules(ids["eos"], ids["pad"], min_length, max_length, tuple(self.config.banned_token_ids))
        memory, mask = self.memory(given.hidden, given.mask, given.u_in, z)
        slots = 1 + max_length * (num_beams if search == "beam" else top_k)
        steps = self.steps(memory, mask, z, slots)
        start = torch.full((len(mask),), ids["bos"], device=mask.device)
        if search == "contrastive":
            return decoding.contrastive_search(steps, start, rules, top_k=top_k, alpha=alpha)
        return decoding.beam_search(steps, start, rules, num_beams=num_beams, length_penalty=length_penalty)

    def steps(self, memory: Tensor, mask: Tensor, z: Tensor | None, slots: int) -> decoding.Decodable:
        """Return the steps of a search over a memory (B, S, d) with its mask and z (B, dz), for ``slots`` tokens."""
        given = [memory, masking(mask.bool(), memory)[:, None, None]]  # the mask once for all tokens
        if z is not None:
            given.append(z)
        return decoding.CachedSteps(self._decoded, self._scored, given, slots)

    def _decoded(self, tokens: Tensor, given: Sequence[Tensor], cache: decoding.BeamCache | None) -> Tensor:
        memory, mask, *rest = given
        return self.decode(tokens, memory, mask, rest[0] if rest else None, cache)

    def _scored(self, states: Tensor) -> Tensor:
        return decoding.project_in_full(states, self.get_input_embeddings().weight, self.word_scores.bias)


# Modules that training reaches whenever there is a latent variable.
_LATENT = ("prior.of_text", "prior.output", "posterior", "latent_entry")


@dataclass(frozen=True)
class InitReport:
    """Sorted names of parameters that :func:`init_from` copied, and of those left as freshly initialised."""

    copied: tuple[str, ...]
    left: tuple[str, ...]


@torch.no_grad()
def init_from(model: HclNetwork, other: HclNetwork) -> InitReport:
    """Copy into ``model`` every parameter of ``other`` with the same name and shape that ``other`` has trained.

    Each model keeps its own graph. Other widths or vocabularies are a ValueError.
    """
    facts = {"width": (model.config.hidden_size, other.config.hidden_size),
             "vocabulary": (model.config.vocab_size, other.config.vocab_size)}
    if differing := [f"{name} {own} here and {theirs} there" for name, (own, theirs) in facts.items() if own != theirs]:
        raise ValueError(f"init: the models do not fit each other: {', '.join(differing)}; both need the same encoder")
    theirs, idle = dict(other.named_parameters()), untrained_modules(other.config)
    if model.config.latent.posterior != other.config.latent.posterior:
        idle = (*idle, "posterior")
    copied, left = list[str](), list[str]()
    for name, parameter in model.named_parameters():
        source = theirs.get(name)
        untrained = any(name == module or name.startswith(f"{module}.") for module in idle)
        if source is None or untrained or source.shape != parameter.shape:
            left.append(name)
        else:
            parameter.copy_(source)
            copied.append(name)
    known = dict(other.posterior.named_buffers()) if "posterior" not in idle else {}
    for name, statistics in model.posterior.named_buffers():
        if name in known:
            statistics.copy_(known[name])
    model.train(model.training)  # vectors kept of the former weights are forgotten
    return InitReport(tuple(sorted(copied)), tuple(sorted(left)))


def untrained_modules(config: HclConfig) -> tuple[str, ...]:
    """Return the names of modules and parameters that a model of this configuration has, and never trains."""
    impostors = bool({"keyword", "mahalanobis"} & set(config.contrasts_used))
    keyword_prior = config.uses_keyword and config.latent.enabled
    trained = {
        "prior.of_condition": keyword_prior,
        "keyword_slot": config.decoder.kw_memory,
        "keyword_points": "mahalanobis" in config.contrasts_used,
        "bow_hidden": config.uses_bow,
        "bow_scores": config.uses_bow,
        "impostor": impostors and config.keyword.imp_weight == "linear",
        **dict.fromkeys(_LATENT, config.latent.enabled),
        "attention": config.uses_keyword and config.graph.iterations > 0,
        "latent_entry.slot": config.latent.enters == "memory+embed",
        "latent_entry.embedding": config.latent.enters == "memory+embed",
    }
    return tuple(sorted(name for name, used in trained.items() if not used))
