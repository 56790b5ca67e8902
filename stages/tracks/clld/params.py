"""Params of the CLLD track: its models, their training, its evaluation (METHODS D)."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from stages.common.params import SEEDS, Block, Datasets, Name, Seeds
from stages.common.settings import NOTHING

# Rows of the results table; the published names are in stages.tracks.clld.rows.
Contrast = Literal["none", "uniform", "static_tau_pairs", "static_tau_all", "given", "adaptive", "supcl_seq", "simcse",
                   "fastfit"]

Decay = Annotated[float, Field(ge=0, lt=1)]


class Contrasting(Block):
    """The contrast, for models that have one (METHODS D.1, D.2)."""

    weight: float = Field(0.5, ge=0, le=1, description="lambda, the weight of the cross-entropy; the contrast has the "
                                                       "rest")
    temperature: float | None = Field(None, gt=0, description="null: that of its paper (CLLD has none, which is 1; "
                                                              "supcl_seq and simcse 0.05, fastfit 0.07)")
    form: Literal["product", "weight"] = Field("product", description="how a label distance d enters the softmax: "
                                               "exp(d sim / t), literal, or d exp(sim / t), where it leaves a pair's "
                                               "own class a share at any temperature")
    projection: int = Field(128, ge=1, description="width of the contrastive head")
    vectors: Literal["head", "pooled"] | None = Field(None, description="what is contrasted: what leaves the head, or "
                                                                        "what enters it. null: pooled for supcl_seq, "
                                                                        "head for the others")
    tokens: int = Field(32, ge=1, description="fastfit: first tokens of a text that are compared, special ones "
                                              "included; memory grows with their square")
    dropouts: list[Decay] | None = Field(None, description="supcl_seq, simcse: rates of the further views. null: those "
                                                           "of its paper (supcl_seq 0, 0.05 and 0.2)")


class Distance(Block):
    """The label distance matrix (METHODS D.3)."""

    tau: float = Field(5.0, ge=1, description="distance of static pairs, and the largest of an adaptive matrix under "
                                              "minmax_sym, counts_sym and prob")
    ald_count: Literal["minmax_sym", "counts_sym", "prob", "log1p", "raw"] = Field(
        "minmax_sym", description="COUNT of Algorithm 1; counts_sym: of numbers of texts, minmax_sym: of shares of a "
                                  "class")
    share_of: Literal["texts", "errors"] = Field("texts", description="what shares of confusions are of: all texts of "
                                                                      "a class, or those that are mistaken")
    least_support: int = Field(1, ge=1, description="adaptive: a pair that is confused on fewer validation texts, both "
                                                    "ways together, stays at 1")
    evaluations: int = Field(10, ge=1, description="adaptive: evaluations per epoch, as near as whole steps allow; 1 "
                                                   "is the text's")
    per_update: int = Field(10, ge=1, description="adaptive: evaluations from one update to the next")
    start: float = Field(0.2, ge=0, lt=1, description="adaptive: share of all steps before the first update")
    record_all: bool = Field(False, description="keep every evaluation of an adaptive model, not only those that "
                                                "update; costs time and changes no weight")


class ConfusingPairs(Block):
    """Which pairs of classes a finished model confuses most (METHODS D.3, "Other datasets")."""

    models: list[Name] = Field([], description="of models.clld, whose pairs others take (`pairs_of`)")
    share: float = Field(0.1, gt=0, le=1, description="of the pairs that are confused at all, rounded up; one at least")


class TextCnnSizes(Block):
    """TextCNN and its vocabulary (Kim 2014; METHODS D.4)."""

    embedding: int = Field(300, ge=1)
    widths: list[Annotated[int, Field(ge=1)]] = Field([3, 4, 5], min_length=1, description="words that filters span")
    filters: int = Field(100, ge=1, description="of each width")
    embedding_dropout: float = Field(0.1, ge=0, lt=1, description="so that the two views of a text differ")
    min_count: int = Field(2, ge=1, description="words that are rarer in the training texts are unknown; 1 keeps all")
    vocabulary: int | None = Field(30000, ge=3, description="most frequent words kept; null: all")


class ClldTraining(Block):
    """Optimisation and selection (METHODS D.4)."""

    epochs: int = Field(50, ge=1)
    patience: int | None = Field(10, ge=1, description="epochs without a better validation accuracy; null: never stop")
    batch_size: int = Field(128, ge=1, description="texts per optimiser step")
    micro_batch: int = Field(128, ge=1, description="texts per forward pass; gradients are accumulated")
    learning_rate: float | None = Field(None, gt=0, description="null: 2e-5, and 1e-3 for textcnn")
    head_rate: float | None = Field(None, gt=0, description="of classifier and head; null: learning_rate")
    optimiser: Literal["adamw", "adam"] | None = Field(None, description="null: adamw, and adam for textcnn")
    weight_decay: float | None = Field(None, ge=0, description="null: 0.1, and 0 for textcnn")
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    eps: float = Field(1e-8, gt=0)
    warmup: float | None = Field(None, ge=0, lt=1, description="share of all steps. null: 0.1, and 0 for textcnn and "
                                                                 "where schedule is not null")
    schedule: Literal["constant", "linear"] | None = Field(
        None, description="of the rates after it. null: linear, down to 0, and constant for textcnn")
    clip: float = Field(1.0, gt=0)
    freeze_layers: int = Field(0, ge=0, description="embeddings and so many of the lowest layers are not trained; 0 "
                                                    "trains everything")
    precision: Literal["fp32", "bf16"] = "fp32"
    bucket: bool = Field(False, description="batches of texts of similar length, which are then each other's "
                                            "negatives; less padding")
    sampler: Literal["shuffled", "class_balanced", "at_least_two"] = Field(
        "shuffled", description="class_balanced: every class as often; at_least_two: no class alone in its batch")
    class_weights: Literal["none", "balanced"] = Field("none", description="of the cross-entropy")


class TrainClld(Block):
    """Everything that the classifiers of the CLLD track share."""

    max_length: int = Field(128, ge=1, description="tokens of a text, special ones included; the rest is cut")
    pool: Literal["cls", "pooler", "mean"] = Field("cls", description="what stands for a text; textcnn has its own")
    dropout: float = Field(0.5, ge=0, lt=1, description="before the linear classifier")
    encoder_dropout: float | None = Field(0.1, ge=0, lt=1, description="of all layers and attention; null: as "
                                                                       "published (ALBERT has none). textcnn: see its "
                                                                       "embedding_dropout")
    ce_views: Literal["first", "both"] = Field("first", description="views that the cross-entropy reads; both gives CT "
                                                                    "two, too, so that it costs what a contrast costs")
    classifier_input: Literal["encoder", "head"] = Field("encoder", description="what the classifier reads: the "
                                                                                "encoder's vector, or what leaves the "
                                                                                "head")
    contrast: Contrasting = Contrasting()
    distance: Distance = Distance()
    textcnn: TextCnnSizes = TextCnnSizes()
    training: ClldTraining = ClldTraining()

    @model_validator(mode="after")
    def _updates_can_be(self) -> "TrainClld":
        distance, epochs = self.distance, self.training.epochs
        if distance.evaluations * epochs < distance.per_update:
            raise ValueError(f"distance.evaluations {distance.evaluations} in each of {epochs} epochs are fewer than "
                             f"the {distance.per_update} that an update takes, so an adaptive matrix would never move "
                             f"and equal a uniform one; raise distance.evaluations, or lower distance.per_update")
        return self


class ClldModel(Block):
    """One trained classifier: data set, encoder, which row of the table it is, and what else differs."""

    dataset: str
    encoder: str | None = Field(None, pattern=r"^(textcnn|bundled|scratch|hub:.+|path)$",
                                description="textcnn, or what `encoder.source` takes; null: the project's encoder")
    contrast: Contrast = Field("none", description="none: CT; uniform: CT+CL; static_tau_pairs and static_tau_all: "
                                                   "CT+CLSLED; given: distances from a file; adaptive: CT+CLALD; "
                                                   "supcl_seq; simcse; fastfit, which compares tokens")
    pairs: list[Annotated[list[str], Field(min_length=1)]] | None = Field(
        None, min_length=1, description="static_tau_pairs: groups of class names, or of patterns such as comp.*; all "
                                        "pairs within a group are tau apart")
    pairs_of: str = Field(NOTHING, description="static_tau_pairs: artifacts/confusing_pairs/NAME, of the CT model "
                                               "whose most confused pairs are taken")
    distances: str = Field(NOTHING, description="given: a CSV or Parquet table of distances (1 or more), the classes "
                                                "at its head and in its first column")
    seeds: Seeds = Field([], description=SEEDS)
    path: str = Field(NOTHING, description="folder that `encoder: path` means")
    overrides: dict[str, Any] = Field(default_factory=dict, description="nested like `train_clld`")

    @field_validator("pairs")
    @classmethod
    def _pairs_are_several(cls, pairs: list[list[str]] | None) -> list[list[str]] | None:
        for group in pairs or []:
            if len(group) == 1 and not set("*?[") & set(group[0]):
                raise ValueError(f"{group} names one class; a group needs two, or a pattern such as comp.*")
        return pairs

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
    """Prediction and metrics (METHODS D.4); intervals are as `evaluation` says."""

    split: Literal["validation", "test"] = "test"
    batch_size: int = Field(64, ge=1, description="texts of a forward pass")
    bins: int = Field(15, ge=1, description="of equal width, for calibration")


class LinearFloor(Block):
    """Logistic regression on TF-IDF, which knows nothing but words: the floor of the CLLD track."""

    datasets: Datasets = Field([], description="of labelled texts; those that models.clld names")
    vectors: bool = Field(False, description="a second floor: logistic regression on the frozen vectors of "
                                             "`encoder.source`, means over tokens")
    max_length: int = Field(128, ge=1, description="vectors: tokens of a text, special ones included; the rest is cut")
    ngrams: int = Field(1, ge=1, description="longest run of words that is a feature")
    min_count: int = Field(2, ge=1, description="training texts that hold a feature")
    sublinear: bool = Field(True, description="1 + log(tf) in the place of tf")
    strengths: list[Annotated[float, Field(gt=0)]] = Field(
        [1.0, 10.0, 100.0], min_length=1, description="inverse regularisation C; that of the best validation accuracy "
                                                      "is taken, the smallest of equals")
    max_iterations: int = Field(1000, ge=1, description="of the solver (L-BFGS)")
