"""Params of HCL itself: graph, keywords, latent variable, contrasts, decoder (METHODS A)."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from stages.params.block import Block, Switches
from stages.params.presets import Presets


class GraphAttention(Block):
    """Graph attention with edge and node updates (eq. 4-9)."""

    iterations: int = Field(2, ge=0, description="T; 0 is the ablation without graph")
    edge_type: Literal["shared", "signed"] = "shared"
    layer_norm: bool = True
    own_edges: Literal["component", "item", "leaking"] = Field(
        "component", description="what a training item does not see of the graph when its prior is computed: what its "
                                 "connected component contributed, what itself did, or leaking: nothing, so that the "
                                 "graph tells it its target")
    kw_dropout: float | None = Field(None, ge=0, lt=1, description="share of training inputs whose keyword becomes an "
                                                                   "unseen one; null: as many as make unseen keywords "
                                                                   "as frequent as in validation, none if leaking")


class KeywordUse(Block):
    """How keywords take part."""

    condition: bool = Field(True, description="false: ablation without keyword (prior, both keyword contrasts)")
    imp_weight: Literal["cosine", "detached", "attn", "mean", "linear"] = Field(
        "cosine", description="of a keyword's negative neighbours in its impostor: cosine to it, without parameters; "
                              "likeness in a random projection that nothing trains; attention trained by the very "
                              "contrasts, which drifts to the easiest; none; one learned matrix on their mean")
    kw_anchor: Literal["input", "output"] = "input"
    unit_scale: bool = Field(True, description="u and h_x enter the prior, and u the decoder's memory, scaled to a "
                                               "root mean square of 1; false: as long as they are, u by far the longer")


class Latent(Block):
    """The CVAE's latent variable (METHODS A.5)."""

    enabled: bool = Field(True, description="false: deterministic backbone")
    size: int = Field(200, ge=1)
    free_bits: float = Field(0.0, ge=0, description="nats in all, shared evenly by the dimensions")
    free_bits_by: Literal["dimension", "total"] = Field(
        "dimension", description="total: one floor under the sum of all dimensions, which have a gradient as soon as "
                                 "it is above")
    free_bits_for: Literal["both", "posterior"] = Field(
        "both", description="posterior: floor and annealing hold it alone, and the prior is drawn to it at full "
                            "weight from the first step")
    posterior: Literal["absolute", "relative"] = Field(
        "relative", description="relative: it says how far z is from the prior's mean, in units of the prior's "
                                "spread, so that reconstruction teaches the prior")
    batch_norm: float = Field(0.2, ge=0, description="gamma: standard deviation to which the posterior's means are "
                                                     "normalised over a micro-batch (BN-VAE); 0: they are not")
    prior_share: float = Field(0.0, ge=0, lt=1, description="share of training items whose target is reconstructed "
                                                            "from the prior's mean, as texts are decoded, instead of "
                                                            "from the posterior")
    annealing_steps: int = Field(10_000, ge=0)
    annealing_share: float = Field(0.2, ge=0, le=1, description="of all steps; the smaller of both counts")
    annealing_cycles: int = Field(1, ge=1, description="rises of beta from 0 to 1; more than one is cyclical, "
                                                       "each cycle an equal part of all steps")
    enters: Literal["memory+embed", "memory", "embed", "bos", "prefix", "layers", "output"] = Field(
        "memory+embed", description="how z enters the decoder (METHODS A.7)")
    bow_loss: bool = False
    word_dropout: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _prior_is_taught(self) -> "Latent":
        if self.posterior == "relative" and self.free_bits_for == "posterior":
            raise ValueError("free_bits_for posterior needs posterior absolute, because the prior has no part in the "
                             "KL of a relative one; change either")
        return self


class Contrast(Block):
    """Weight and temperature of a contrast; weight 0 removes it."""

    weight: float = Field(1.0, ge=0)
    temperature: float = Field(gt=0)


class Mahalanobis(Contrast):
    """The contrast between levels."""

    temperature: float = Field(0.5, gt=0)
    form: Literal["inverse", "printed"] = "inverse"
    sqrt: bool = False


class InstanceContrast(Contrast):
    """The contrast between instances."""

    temperature: float = Field(0.1, gt=0)
    multi_neg: Literal["infonce_negdist", "printed"] = Field(
        "infonce_negdist", description="with several negatives per item (ingest.negatives); one makes them equal")


class Contrasts(Block):
    """The three contrasts (METHODS A.6)."""

    instance: InstanceContrast = InstanceContrast()
    keyword: Contrast = Contrast(temperature=0.1)
    mahalanobis: Mahalanobis = Mahalanobis()
    added_to: Literal["token", "sentence"] = Field(
        "token", description="what stands beside the contrasts: reconstruction per token, or, as equation 3 prints it, "
                             "summed over the sentence, beside which they weigh less by the mean target length")


class Decoder(Block):
    """Transformer decoder (METHODS A.7)."""

    layers: int = Field(6, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    kw_memory: bool = False
    source_dropout: float = Field(0.0, ge=0, lt=1, description="share of the input's states that the decoder does not "
                                                               "see in training; never the slots of z and keyword")


# The text to the letter, where it decides a switch, with only clear misprints corrected: the Mahalanobis distance
# keeps its inverse (METHODS A.6). The text leaves W_i of the impostor undefined; of the readings, `linear` alone makes
# it a matrix, as its capital letter has it. Nothing is hidden from an item, since the text has one graph for all. What
# the text does not say (T, sizes, temperatures, how z enters) keeps its default, and what makes an ablation (condition,
# enabled, weights, T = 0) may stand beside the preset.
_PRESETS: dict[str, dict[str, Any]] = {"paper": {
    "graph": {"edge_type": "shared", "layer_norm": False, "own_edges": "leaking", "kw_dropout": 0.0},
    "keyword": {"imp_weight": "linear", "kw_anchor": "input", "unit_scale": False},
    "latent": {"free_bits": 0.0, "free_bits_by": "dimension", "free_bits_for": "both", "posterior": "absolute",
               "batch_norm": 0.0, "prior_share": 0.0, "annealing_steps": 0, "annealing_cycles": 1, "bow_loss": False,
               "word_dropout": 0.0},
    "contrasts": {"instance": {"multi_neg": "printed"}, "mahalanobis": {"form": "inverse", "sqrt": False},
                  "added_to": "sentence"},
    "decoder": {"kw_memory": False, "source_dropout": 0.0}}}


class Method(Switches):
    """HCL with its ablations."""

    presets: ClassVar[Presets] = _PRESETS

    architecture: str = Field(
        "hcl", description="hcl, and its ablations by the switches below; others: a baseline of word pieces on the "
                           "same items, which reads the block of its own name and `training` alone")
    preset: Literal["paper"] | None = Field(None, description="paper: every switch as the text has it, only clear "
                                                              "misprints corrected")
    graph: GraphAttention = GraphAttention()
    keyword: KeywordUse = KeywordUse()
    latent: Latent = Latent()
    contrasts: Contrasts = Contrasts()
    decoder: Decoder = Decoder()
