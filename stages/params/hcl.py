"""Params of the HCL track: method, training, decoding, evaluation."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from stages.common.settings import GIVEN
from stages.params.block import SEEDS, Block, Seeds
from stages.params.checks import BEGINNING, Earlier, TrackChecks, beginnings
from stages.params.hcl_baselines import Architectures
from stages.params.watched import ROWS, WATCHED

if TYPE_CHECKING:
    from stages.params.root import Params


class Training(Block):
    """Optimisation and selection (METHODS A.8)."""

    epochs: int = Field(30, ge=0, description="0: the model stays as it begins (`init_from`), for a row of its own")
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


class TrainHcl(Architectures):
    """Everything that defines a model of the HCL track."""

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
    init_from: str | None = Field(None, description=BEGINNING)
    starts_from: str = Field(SCRATCH, description="what DVC watches for `init_from`; filled in from it")
    earlier_seeds: list[int] = Field([], description="the seed of `init_from` for each of `seeds`: the same, or its "
                                                     "first; filled in")
    watched: str = Field(ROWS["models.hcl", "watched"].nothing,
                         description=WATCHED.format("the `source` of its architecture"))
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
    """Return what is wrong with the models that others start from: unknown, going in circles, of another kind."""
    models = params.models.hcl
    problems = beginnings("hcl", models)
    kinds = {name: model.overrides.get("architecture", params.train_hcl.architecture) for name, model in models.items()}
    for name, model in models.items():
        kind = kinds.get(model.init_from or name, kinds[name])
        if kinds[name] != "hcl" and (model.init_from or "").startswith(GIVEN):
            problems.append(f"models.hcl.{name}.init_from: {model.init_from} is a start of architecture hcl, and this "
                            f"row is of architecture {kinds[name]}; name a model of its own kind, or null")
        if kind != kinds[name]:
            problems.append(f"models.hcl.{name}.init_from: {model.init_from} is of architecture {kind}; a model of "
                            f"architecture {kinds[name]} goes on from one of its own")
    return problems


def _start_under_preset(name: str, model: HclModel, settings: TrainHcl) -> list[str]:
    if model.init_from is None or settings.preset != "paper":
        return []
    return [f"models.hcl.{name}.init_from: under preset paper a model starts from the encoder alone; take out "
            f"init_from, or the preset"]


CHECKS = TrackChecks(earlier=Earlier("init_from", "starts_from", "artifacts/models/{model}", SCRATCH),
                     track=_beginnings, model=_start_under_preset)
