"""Starting a model from the weights of another one (``init_from``)."""

from dataclasses import dataclass

import torch

from models.hcl.config import HclConfig
from models.hcl.contrasts import CONTRASTS
from models.hcl.network import HclNetwork

# Modules that training reaches whenever there is a latent variable.
_LATENT = ("prior.of_text", "prior.output", "posterior", "latent_entry")


@dataclass(frozen=True)
class InitReport:
    """What :func:`init_from` did, as sorted names of parameters of the model that starts.

    Attributes:
        copied: taken over.
        untrained: left as freshly initialised, because the other model never trained them, or for another purpose:
            a posterior relative to the prior is none that stands by itself.
        absent: left because the other model has no such parameter.
        reshaped: left because the other's has another shape.
    """

    copied: tuple[str, ...]
    untrained: tuple[str, ...]
    absent: tuple[str, ...]
    reshaped: tuple[str, ...]

    @property
    def left(self) -> tuple[str, ...]:
        """All parameters that stay as they were."""
        return tuple(sorted((*self.untrained, *self.absent, *self.reshaped)))


@torch.no_grad()
def init_from(model: HclNetwork, other: HclNetwork) -> InitReport:
    """Copy into ``model`` every parameter of ``other`` with the same name and shape that ``other`` has trained.

    A deterministic backbone carries latent modules that no gradient ever reached; they stay as ``model`` drew and
    scaled them, and so does all else that the other's configuration switched off. The keyword graph is no
    parameter: each model keeps its own. Statistics of a batch normalisation go with its parameters.

    Args:
        model: fresh from :meth:`HclNetwork.from_parts`; changed in place.
        other: a trained model.

    Raises:
        ValueError: widths or vocabularies differ, so that hardly anything would fit.

    Example:
        >>> report = init_from(model, HclModel.from_pretrained("artifacts/models/backbone/model"))
        >>> report.left
    """
    _check(model.config, other.config)
    theirs, idle = dict(other.named_parameters()), untrained_modules(other.config)
    if model.config.latent["posterior"] != other.config.latent["posterior"]:
        idle = (*idle, "posterior")
    groups: dict[str, list[str]] = {"copied": [], "untrained": [], "absent": [], "reshaped": []}
    for name, parameter in model.named_parameters():
        source = theirs.get(name)
        if source is None:
            groups["absent"].append(name)
        elif any(name == module or name.startswith(f"{module}.") for module in idle):
            groups["untrained"].append(name)
        elif source.shape != parameter.shape:
            groups["reshaped"].append(name)
        else:
            parameter.copy_(source)
            groups["copied"].append(name)
    known = dict(other.posterior.named_buffers()) if "posterior" not in idle else {}
    for name, statistics in model.posterior.named_buffers():
        if name in known:
            statistics.copy_(known[name])
    model.train(model.training)  # vectors kept of the former weights are forgotten
    return InitReport(**{kind: tuple(sorted(names)) for kind, names in groups.items()})


def untrained_modules(config: HclConfig) -> tuple[str, ...]:
    """Return the names of modules and parameters that a model of this configuration has, and never trains."""
    impostors = any(contrast.needs_keyword for contrast in config.contrasts_used)
    keyword_prior = config.uses_keyword and config.latent["enabled"]
    trained = {
        "prior.of_condition": keyword_prior,
        "keyword_slot": config.decoder["kw_memory"],
        **{module: config.uses_contrast(name) for name, contrast in CONTRASTS.items() for module in contrast.modules},
        "bow_hidden": config.uses_bow,
        "bow_scores": config.uses_bow,
        "impostor": impostors and config.keyword["imp_weight"] == "linear",
        **dict.fromkeys(_LATENT, config.latent["enabled"]),
        "attention": config.uses_keyword and config.graph["iterations"] > 0,
        "latent_entry.slot": config.latent["enters"] == "memory+embed",
        "latent_entry.embedding": config.latent["enters"] == "memory+embed",
    }
    return tuple(sorted(name for name, used in trained.items() if not used))


def _check(own: HclConfig, other: HclConfig) -> None:
    facts = {"width": (own.hidden_size, other.hidden_size), "vocabulary": (own.vocab_size, other.vocab_size)}
    differing = [f"{name} {mine} here and {theirs} there" for name, (mine, theirs) in facts.items() if mine != theirs]
    if differing:
        raise ValueError(f"init: the models do not fit each other: {', '.join(differing)}; both need the same "
                         f"encoder")
