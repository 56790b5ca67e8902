"""The HCL generator: the network with decoding: z from the prior, then beam or contrastive search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import GenerationMixin

from models.common.decoding import (
    BeamCache,
    CachedSteps,
    Decodable,
    Rules,
    beam_search,
    contrastive_search,
    project_in_full,
)
from models.common.encoders import mean_pool
from models.common.transformer import masking
from models.hcl.config import HclConfig
from models.hcl.hcl import Gaussian, HclNetwork

LatentSource = Literal["mean", "sample"]
Search = Literal["beam", "contrastive"]


@dataclass(frozen=True)
class Conditions:
    """What outputs of a batch are generated from; several outputs of one input share it.

    Attributes:
        hidden, mask: encoder states of the input (B, Lx, d), and True for its real tokens (B, Lx).
        u_in: vector of the input keyword (B, d); None for a model without keyword.
        prior: p(z | x, u_in); None for the deterministic backbone.
    """

    hidden: Tensor
    mask: Tensor
    u_in: Tensor | None
    prior: Gaussian | None

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

    Saved models carry tokens' ids and the keyword graph, so that nothing but the tokenizer is needed beside:

    >>> model = HclModel.from_pretrained(folder)
    >>> model.paraphrase(ids, mask, keyword_nodes=nodes)

    ``generate`` of ``transformers`` works too, given ``encoder_outputs`` (the memory), its mask and ``latent``.
    """

    @torch.no_grad()
    def paraphrase(self, input_ids: Tensor, attention_mask: Tensor, keyword_nodes: Tensor | None = None,
                   unseen_vectors: Tensor | None = None, *, z: LatentSource | Tensor = "mean",
                   generator: torch.Generator | None = None, **options: Any) -> Tensor:
        """Generate one output per input: tokens (B, L), L <= max_length + 1, the output, [SEP], then [PAD].

        Args:
            input_ids, attention_mask: input with [CLS] and [SEP] (B, Lx).
            keyword_nodes: node of each input keyword (B,), -1 for one that the graph lacks; None for models without.
            unseen_vectors: initial vectors (B, d), read where ``keyword_nodes`` is -1.
            z: ``mean`` of the prior, ``sample`` from it, or the latent vectors themselves (B, dz).
            generator: source of the noise for ``sample``.
            options: of the search, see :meth:`generate_from`.

        Raises:
            ValueError: keyword nodes or unseen vectors are missing, the model is in training mode, or an option is
                not valid.
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
        u_in = self._keyword_condition(keyword_nodes, unseen_vectors)
        prior = self.prior(mean_pool(hidden, attention_mask), u_in) if self.config.latent.enabled else None
        return Conditions(hidden, attention_mask, u_in, prior)

    @torch.no_grad()
    def generate_from(self, given: Conditions, z: Tensor | None, *, search: Search = "beam", num_beams: int = 4,
                      min_length: int = 5, max_length: int = 20, length_penalty: float = 1.0, top_k: int = 5,
                      alpha: float = 0.6) -> Tensor:
        """Generate one output per input from what :meth:`conditions` returned and latent vectors (B, dz), if any.

        Beam search reads ``num_beams`` (1 is greedy) and ``length_penalty``, contrastive search ``top_k`` candidates
        and ``alpha``, the weight of the penalty on likeness; lengths are of generated tokens, the end token not
        counted.

        Raises:
            ValueError: an option is not valid.
        """
        if search not in ("beam", "contrastive"):
            raise ValueError(f"HclModel: search is {search!r}, expected 'beam' or 'contrastive'")
        ids = self.config.special_ids
        rules = Rules(ids["eos"], ids["pad"], min_length, max_length, tuple(self.config.banned_token_ids))
        memory, mask = self.memory(given.hidden, given.mask, given.u_in, z)
        slots = 1 + max_length * (num_beams if search == "beam" else top_k)
        steps = self.steps(memory, mask, z, slots)
        start = torch.full((len(mask),), ids["bos"], device=mask.device)
        if search == "contrastive":
            return contrastive_search(steps, start, rules, top_k=top_k, alpha=alpha)
        return beam_search(steps, start, rules, num_beams=num_beams, length_penalty=length_penalty)

    def steps(self, memory: Tensor, mask: Tensor, z: Tensor | None, slots: int) -> Decodable:
        """Return the steps of a search over a memory (B, S, d) with its mask and z (B, dz), for ``slots`` tokens."""
        given = [memory, masking(mask.bool(), memory)[:, None, None]]  # the mask once for all tokens
        if z is not None:
            given.append(z)
        return CachedSteps(self._decoded, self._scored, given, slots)

    def _decoded(self, tokens: Tensor, given: Sequence[Tensor], cache: BeamCache | None) -> Tensor:
        memory, mask, *rest = given
        return self.decode(tokens, memory, mask, rest[0] if rest else None, cache)

    def _scored(self, states: Tensor) -> Tensor:
        return project_in_full(states, self.get_input_embeddings().weight, self.word_scores.bias)

    def _keyword_condition(self, nodes: Tensor | None, unseen: Tensor | None) -> Tensor | None:
        if not self.config.uses_keyword:
            return None
        if nodes is None:
            raise ValueError("HclModel: this model is conditioned on keywords; give keyword_nodes (B,)")
        if unseen is None and (unknown := int((nodes < 0).sum())):
            raise ValueError(f"HclModel: {unknown} input keywords are no nodes; give their unseen_vectors (B, d)")
        with torch.autocast(nodes.device.type, enabled=False):  # vectors of nodes are the same in every mode
            seen = self.keyword_vectors().index_select(0, nodes.clamp(min=0))
            return seen if unseen is None else self._with_unseen(nodes >= 0, seen, unseen)


# Modules that training reaches whenever there is a latent variable.
_LATENT = ("prior.of_text", "prior.output", "posterior", "latent_entry")


@dataclass(frozen=True)
class InitReport:
    """What :func:`init_from` did, as sorted names of parameters of the model that starts.

    Attributes:
        copied: taken over.
        left: as freshly initialised, because the other model has no such parameter, or one of another shape, or never
            trained it, or trained it for another purpose: a posterior relative to the prior is none by itself.
    """

    copied: tuple[str, ...]
    left: tuple[str, ...]


@torch.no_grad()
def init_from(model: HclNetwork, other: HclNetwork) -> InitReport:
    """Copy into ``model`` every parameter of ``other`` with the same name and shape that ``other`` has trained.

    A deterministic backbone carries latent modules that no gradient ever reached; they stay as ``model`` drew and
    scaled them, and so does all else that the other's configuration switched off. The keyword graph is no
    parameter: each model keeps its own. Statistics of a batch normalisation go with its parameters.

    Raises:
        ValueError: widths or vocabularies differ, so that hardly anything would fit.
    """
    _check(model.config, other.config)
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


def _check(own: HclConfig, other: HclConfig) -> None:
    facts = {"width": (own.hidden_size, other.hidden_size), "vocabulary": (own.vocab_size, other.vocab_size)}
    differing = [f"{name} {mine} here and {theirs} there" for name, (mine, theirs) in facts.items() if mine != theirs]
    if differing:
        raise ValueError(f"init: the models do not fit each other: {', '.join(differing)}; both need the same "
                         f"encoder")
