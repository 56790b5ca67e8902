"""Params of the HCL track: method, training, decoding, evaluation."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from stages.params.block import SEEDS, Block, Seeds, Switches
from stages.params.checks import Earlier, TrackChecks
from stages.params.hcl_baselines import (
    T5,
    Cvae,
    DialoGpt,
    GroupWise,
    PieceTransformer,
    Seq2Seq,
    Seq2SeqDu,
    SimCtg,
    T5Claps,
)
from stages.params.presets import Presets
from stages.runtime.errors import nearest

if TYPE_CHECKING:
    from stages.params.root import Params


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
    free_bits: float = Field(5.0, ge=0, description="nats in all, shared evenly by the dimensions")
    free_bits_by: Literal["dimension", "total"] = Field(
        "dimension", description="total: one floor under the sum of all dimensions, which have a gradient as soon as "
                                 "it is above")
    free_bits_for: Literal["both", "posterior"] = Field(
        "both", description="posterior: floor and annealing hold it alone, and the prior is drawn to it at full "
                            "weight from the first step")
    posterior: Literal["absolute", "relative"] = Field(
        "absolute", description="relative: it says how far z is from the prior's mean, in units of the prior's "
                                "spread, so that reconstruction teaches the prior")
    batch_norm: float = Field(0.0, ge=0, description="gamma: standard deviation to which the posterior's means are "
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
    bow_loss: bool = True
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


class Training(Block):
    """Optimisation and selection (METHODS A.8)."""

    epochs: int = Field(30, ge=1)
    patience: int = Field(3, ge=1, description="epochs without a smaller validation loss, after annealing")
    batch_size: int = Field(256, ge=1, description="triples per optimiser step")
    micro_batch: int = Field(64, ge=1, description="triples per forward pass; gradients are accumulated")
    encoder_rate: float = Field(5e-5, gt=0)
    learning_rate: float = Field(2e-4, gt=0, description="of everything but the encoder")
    taken_rate: float | None = Field(None, gt=0, description="of what `init_from` took over, the encoder aside; null: "
                                                             "learning_rate")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of all steps")
    clip: float = Field(1.0, gt=0)
    freeze_layers: int = Field(0, ge=0, description="lowest encoder layers (and embeddings) kept frozen")
    schedule: Literal["linear", "constant"] = Field("linear", description="of the rates after warm-up: down to 0, or "
                                                                          "kept")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the matrix products; losses are always fp32")
    compile: bool = Field(False, description="layers by torch.compile: other rounding; needs a C++ compiler, on "
                                             "a GPU Triton")
    bucket: bool = Field(True, description="batches of texts of similar length, drawn anew each epoch")
    max_source: int = Field(20, ge=1, description="word pieces, special tokens not counted")
    max_target: int = Field(20, ge=1, description="likewise")
    keep: Literal["first", "last"] = Field("first", description="which end of a longer input is read; the last of a "
                                                                "dialogue, so that its latest turn survives")


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


class TrainHcl(Switches):
    """Everything that defines a model of the HCL track."""

    presets: ClassVar[Presets] = _PRESETS

    architecture: Literal["hcl", "cvae", "seq2seq", "transformer", "seq2seq_du", "dialogpt", "t5", "group_wise",
                          "t5_claps", "simctg"] = Field(
        "hcl", description="hcl, and its ablations by the switches below; others: a baseline of word pieces on the "
                           "same items, which reads the block of its own name and `training` alone")
    preset: Literal["paper"] | None = Field(None, description="paper: every switch as the text has it, only clear "
                                                              "misprints corrected")
    graph: GraphAttention = GraphAttention()
    keyword: KeywordUse = KeywordUse()
    latent: Latent = Latent()
    contrasts: Contrasts = Contrasts()
    decoder: Decoder = Decoder()
    cvae: Cvae = Cvae()
    seq2seq: Seq2Seq = Seq2Seq()
    transformer: PieceTransformer = PieceTransformer()
    seq2seq_du: Seq2SeqDu = Seq2SeqDu()
    group_wise: GroupWise = GroupWise()
    dialogpt: DialoGpt = DialoGpt()
    t5: T5 = T5()
    t5_claps: T5Claps = T5Claps()
    simctg: SimCtg = SimCtg()
    training: Training = Training()

    @model_validator(mode="after")
    def _decoder_has_a_keyword(self) -> "TrainHcl":
        if self.decoder.kw_memory and not self.keyword.condition:
            raise ValueError("decoder.kw_memory needs keyword.condition; set the one to false or the other to true")
        return self


# The file that says how a model starts which starts from no other; any file that always exists would do for DVC.
SCRATCH = "models/hcl/network.py"


class HclModel(Block):
    """One trained model: a data set, and what differs from the ``train_hcl`` block."""

    dataset: str
    seeds: Seeds = Field([], description=SEEDS)
    init_from: str | None = Field(None, description="model whose weights this one starts from, where both have "
                                                    "them")
    starts_from: str = Field(SCRATCH, description="what DVC watches for `init_from`; filled in from it")
    earlier_seeds: list[int] = Field([], description="the seed of `init_from` for each of `seeds`: the same, or its "
                                                     "first; filled in")
    overrides: dict[str, Any] = Field(default_factory=dict, description="nested like `train_hcl`")


class GenerateHcl(Block):
    """Decoding (METHODS A.8)."""

    split: Literal["validation", "test"] = "test"
    search: Literal["beam", "contrastive"] = Field("beam", description="beam search (one beam is greedy), or "
                                                                       "contrastive search (SimCTG)")
    num_beams: int = Field(4, ge=1)
    min_length: int = Field(5, ge=0)
    max_length: int = Field(20, ge=1)
    length_penalty: float = 1.0
    top_k: int = Field(5, ge=1, description="contrastive search: candidates per step")
    alpha: float = Field(0.6, ge=0, le=1, description="contrastive search: weight of the penalty on likeness")
    z: Literal["mean", "sample"] = Field("mean", description="of the prior, for sample 0")
    samples: int = Field(0, ge=0, description="further outputs per item, z drawn from the prior")
    keyword: str = Field("own", pattern="^(own|random|given:.+)$",
                         description="own: the input's; random: another node's; given:KEYWORD for every item (Table 4)")
    batch_size: int = Field(32, ge=1)

    @model_validator(mode="after")
    def _lengths_fit(self) -> "GenerateHcl":
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is above max_length {self.max_length}; lower the one or "
                             f"raise the other")
        return self


class HclRun(Block):
    """A row of the results table: a model and what differs from the ``generate_hcl`` block."""

    model: str
    decode: dict[str, Any] = Field(default_factory=dict)


class ProbeHcl(Block):
    """What a trained model does with keywords and with its latent space (HCL Table 4 and Figure 3)."""

    split: Literal["train", "validation", "test"] = "test"
    items: int = Field(100, ge=2, description="items of the t-SNE picture, a seeded sample")
    perplexity: float = Field(20.0, gt=0, description="of t-SNE")
    swaps: int = Field(12, ge=0, description="items whose keyword is swapped")
    given: str | None = Field(None, description="keyword given by the user in the swap; null takes each item's most "
                                                "frequent negative neighbour")


class Probe(Block):
    """A model that is probed."""

    model: str


def _beginnings(params: "Params") -> list[str]:
    """Return what is wrong with the models that others start from: unknown, going in circles, of another width."""
    models = params.models.hcl
    problems = [f"models.hcl.{name}.init_from: no model {model.init_from!r}; {nearest(model.init_from, models)}"
                for name, model in models.items() if model.init_from is not None and model.init_from not in models]
    kinds = {name: model.overrides.get("architecture", params.train_hcl.architecture) for name, model in models.items()}
    for name, model in models.items():
        kind = kinds.get(model.init_from or name, kinds[name])
        if kind != kinds[name]:
            problems.append(f"models.hcl.{name}.init_from: {model.init_from} is of architecture {kind}; a model of "
                            f"architecture {kinds[name]} goes on from one of its own")
    for name in models:
        seen: set[str] = set()
        start = models[name].init_from
        while start is not None and start in models and start not in seen:
            seen.add(start)
            start = models[start].init_from
        if name in seen:
            problems.append(f"models.hcl.{name}.init_from: the model would start from itself, by way of "
                            f"{models[name].init_from}; take one of them out of the circle")
    return problems


def _start_under_preset(name: str, model: HclModel, settings: TrainHcl) -> list[str]:
    if model.init_from is None or settings.preset != "paper":
        return []
    return [f"models.hcl.{name}.init_from: under preset paper a model starts from the encoder alone; take out "
            f"init_from, or the preset"]


CHECKS = TrackChecks(earlier=Earlier("init_from", "starts_from", "artifacts/models/{model}", SCRATCH),
                     track=_beginnings, model=_start_under_preset)
