"""Params of the CLLD track: its models, their training, its evaluation."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from models.clld.settings import ClldSettings
from stages.common.params import SEEDS, Block, Datasets, Name, Seeds
from stages.common.settings import NOTHING
from stages.tracks.common.params import block_of

# Rows of the results table; the published names are in stages.tracks.clld.tables.
Contrast = Literal["none", "uniform", "static_tau_pairs", "adaptive", "supcl_seq", "simcse"]


class ConfusingPairs(Block):
    """Which pairs of classes a finished model confuses most (docs/clld.md)."""

    models: list[Name] = Field([], description="of models.clld, whose pairs others take (`pairs_of`)")
    share: float = Field(0.1, gt=0, le=1, description="of the pairs that are confused at all, rounded up; one at least")


class ClldTraining(Block):
    """Optimisation and selection (CLLD section IV-B)."""

    epochs: int = Field(50, ge=1)
    patience: int | None = Field(10, ge=1, description="epochs without a better validation accuracy; null: never stop")
    batch_size: int = Field(128, ge=1, description="texts per optimiser step")
    micro_batch: int = Field(128, ge=1, description="texts per forward pass; gradients are accumulated")
    learning_rate: float | None = Field(None, gt=0, description="null: 2e-5, and 1e-3 for textcnn")
    schedule: Literal["constant", "linear"] | None = Field(
        None, description="of the learning rates. null: warm-up over a tenth of all steps, then linear decay to 0; "
                          "constant for textcnn. Named schedules have no warm-up")
    precision: Literal["fp32", "bf16"] = "fp32"
    bucket: bool = Field(False, description="batches of texts of similar length, which are then each other's "
                                            "negatives; less padding")


class TrainClld(block_of(ClldSettings())):  # type: ignore[misc]
    """Everything that the classifiers of the CLLD track share."""

    training: ClldTraining = ClldTraining()


class ClldModel(Block):
    """One trained classifier: data set, encoder, which row of the table it is, and what else differs."""

    dataset: str
    encoder: str | None = Field(None, pattern=r"^(textcnn|bundled|scratch|hub:.+|path)$",
                                description="textcnn, or what `encoder.source` takes; null: the project's encoder")
    contrast: Contrast = Field("none", description="none: CT; uniform: CT+CL; static_tau_pairs: CT+CLSLED; "
                                                   "adaptive: CT+CLALD; supcl_seq; simcse")
    pairs: list[Annotated[list[str], Field(min_length=1)]] | None = Field(
        None, min_length=1, description="static_tau_pairs: groups of class names, or of patterns such as comp.*; all "
                                        "pairs within a group are tau apart")
    pairs_of: str = Field(NOTHING, description="static_tau_pairs: artifacts/confusing_pairs/NAME, of the CT model "
                                               "whose most confused pairs are taken")
    seeds: Seeds = Field([], description=SEEDS)
    path: str = Field(NOTHING, description="folder that `encoder: path` means")
    overrides: dict[str, Any] = Field(default_factory=dict, description="nested like `train_clld`")

    @model_validator(mode="after")
    def _pairs_are_for_static_rows(self) -> "ClldModel":
        given = [name for name in ("pairs", "pairs_of") if getattr(self, name) not in (None, NOTHING)]
        if self.contrast == "static_tau_pairs" and len(given) != 1:
            raise ValueError("contrast static_tau_pairs needs either pairs, which name the confusable classes, or "
                             f"pairs_of, the CT model whose confusions say which; found "
                             f"{' and '.join(given) or 'none'}")
        if self.contrast != "static_tau_pairs" and given:
            raise ValueError(f"contrast {self.contrast} reads no {' and no '.join(given)}; take that out, or let "
                             f"contrast be static_tau_pairs")
        return self


class EvaluateClld(Block):
    """Prediction and metrics; intervals are as `evaluation` says."""

    split: Literal["validation", "test"] = "test"


class LinearBaseline(Block):
    """Logistic regression on TF-IDF, the baseline of the CLLD track."""

    datasets: Datasets = Field([], description="of labelled texts; those that models.clld names")
    min_count: int = Field(2, ge=1, description="training texts that a word needs")
