"""Settings of the HCL generator: the blocks of ``train_hcl``, and the groups of a saved model's ``config.json``."""

from dataclasses import dataclass, fields
from typing import Literal

from models.common import setting


@dataclass(frozen=True)
class GraphSettings:
    """Graph attention with edge and node updates (eq. 4-9)."""

    iterations: int = setting(2, "T; 0 is the ablation without graph", ge=0)
    layer_norm: bool = True
    own_edges: Literal["component", "item", "leaking"] = setting(
        "component", "contributions to the graph that are hidden from the prior of a training item: those of its "
                     "connected component, its own, or none (leaking: the graph then reveals the item's target)")
    kw_dropout: float | None = setting(None, "share of training inputs whose keyword is treated as unseen; null: "
                                             "as many unseen ones as in validation, 0 if leaking", ge=0, lt=1)


@dataclass(frozen=True)
class KeywordSettings:
    """How keywords take part."""

    condition: bool | Literal["target"] = setting(
        True, "false: ablation without keyword (prior, both keyword contrasts); target: an oracle, which reads the "
              "output's keyword instead of the input's, in training and in generation")
    impostor_weight: Literal["cosine", "linear"] = setting(
        "cosine", "weight of a keyword's negative neighbours in its impostor: their cosine to it, without parameters; "
                  "or one learned matrix on their mean")
    unit_scale: bool = setting(True, "scale keyword vectors (in prior and decoder memory) and h_x (in the prior) to a "
                                     "root mean square of 1; unscaled keyword vectors are much longer than h_x")


@dataclass(frozen=True)
class LatentSettings:
    """The CVAE's latent variable (HCL section 3.1)."""

    enabled: bool = setting(True, "false: deterministic backbone")
    size: int = setting(200, ge=1)
    free_bits: float = setting(5.0, "nats below which the KL, summed over dimensions, has no gradient", ge=0)
    free_bits_for: Literal["both", "posterior"] = setting(
        "posterior", "posterior: free bits and annealing apply to the posterior alone, and the prior is trained "
                     "towards it at full weight from the first step")
    prior_share: float = setting(0.0, "share of training items whose target is reconstructed from the prior's mean, "
                                      "as in generation, instead of from the posterior", ge=0, lt=1)
    annealing_steps: int = setting(10_000, "over which the KL's weight rises to 1; a fifth of all steps at most", ge=0)


@dataclass(frozen=True)
class ContrastSettings:
    """Weight and temperature of a contrast; weight 0 removes it."""

    weight: float = setting(1.0, ge=0)
    temperature: float = setting(0.1, gt=0)


@dataclass(frozen=True)
class ContrastsSettings:
    """The three contrasts (HCL section 3.2)."""

    instance: ContrastSettings = ContrastSettings()
    keyword: ContrastSettings = ContrastSettings()
    mahalanobis: ContrastSettings = ContrastSettings(temperature=0.5)
    added_to: Literal["token", "sentence"] = setting(
        "token", "reconstruction that the contrasts are added to: per token, or, as equation 3 prints it, summed over "
                 "the sentence, which divides their weight by the mean target length")


@dataclass(frozen=True)
class DecoderSettings:
    """Transformer decoder (HCL section 4.2)."""

    layers: int = setting(6, ge=1)
    dropout: float = setting(0.1, ge=0, lt=1)
    kw_memory: bool = False
    source_dropout: float = setting(0.0, "share of the input's states that are hidden from the decoder in training; "
                                         "the slots of z and keyword are never hidden", ge=0, lt=1)


@dataclass(frozen=True)
class HclSettings:
    """All settings of the method; iterations 0, condition false, enabled false and weight 0 are its ablations."""

    graph: GraphSettings = GraphSettings()
    keyword: KeywordSettings = KeywordSettings()
    latent: LatentSettings = LatentSettings()
    contrasts: ContrastsSettings = ContrastsSettings()
    decoder: DecoderSettings = DecoderSettings()

    def __post_init__(self) -> None:
        if self.decoder.kw_memory and not self.keyword.condition:
            raise ValueError("decoder.kw_memory needs keyword.condition; set the one to false or the other to true")


# The contrasts in the order of the objective, and their inputs: distributions over z, keyword vectors.
CONTRASTS = {"instance": ("latent",), "keyword": ("keyword",), "mahalanobis": ("latent", "keyword")}
GROUPS = tuple(group.name for group in fields(HclSettings))
