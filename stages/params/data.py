"""Params of the data stages, from raw files to node vectors."""

from typing import Literal

from pydantic import Field, model_validator

from stages.params.block import Block


class Columns(Block):
    """Names of the input columns. Pairs: ``source``, ``target`` and, with labels, ``label``."""

    source: str = "source"
    target: str = "target"
    negative: str | None = None
    label: str | None = None


class Dataset(Block):
    """Where a data set's files are and how they are laid out."""

    source: str = Field(description="file, or folder that holds `files`; the DVC dependency")
    files: list[str] = Field(default_factory=list, description="names or patterns inside the folder")
    layout: Literal["pairs", "triples"] = "pairs"
    columns: Columns = Columns()
    language: str = Field("en", pattern="^[a-z]{2}$")

    @model_validator(mode="after")
    def _columns_fit_layout(self) -> "Dataset":
        if self.layout == "triples" and self.columns.negative is None:
            raise ValueError("layout triples needs columns.negative")
        if self.layout == "triples" and self.columns.label is not None:
            raise ValueError("layout triples has no columns.label: its pairs are paraphrases by definition")
        return self


class Ingest(Block):
    """De-duplication, triples and splits (METHODS A.1)."""

    qqp_rule: Literal["undirected_one"] = "undirected_one"
    neg_source: Literal["given", "labelled", "retrieved"] = "labelled"
    neg_pick: Literal["hardest"] = "hardest"
    split_by: Literal["component"] = "component"
    validation: float = Field(0.05, gt=0, lt=0.5, description="share of examples")
    test: float = Field(0.05, gt=0, lt=0.5, description="share of examples")
    max_train: int | None = Field(None, ge=1, description="keep a seeded sample of at most so many")
    max_validation: int | None = Field(None, ge=1)
    max_test: int | None = Field(None, ge=1)
    max_rejected: float = Field(0.01, ge=0, le=1, description="share of rows above which the stage fails")


class Annotate(Block):
    """Tokens, lemmas, parts of speech."""

    pipeline: str = Field("embedded", description="embedded, an installed spaCy package, or a path")
    chunk: int = Field(512, ge=1, description="texts per chunk; the same bytes for any number of workers")


class TextRank(Block):
    """Ranked phrases of each text (METHODS A.2)."""

    method: Literal["pytextrank"] = "pytextrank"
    phrases: int = Field(5, ge=1, description="phrases kept per text")


class PairClassifier(Block):
    """Classifier of sentence pairs whose gradients become keyword scores (METHODS C.2)."""

    stage1_neg: Literal["random2"] = "random2"
    max_sources: int | None = Field(None, ge=1, description="seeded sample of training pairs; null takes all")
    max_length: int = Field(51, ge=8, description="word pieces of a pair, special tokens included")
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(128, ge=1)
    epochs: int = Field(5, ge=1)
    clip: float = Field(1.0, gt=0)
    freeze_layers: int = Field(0, ge=0, description="lowest encoder layers (and embeddings) kept frozen")


class Attribution(Block):
    """Gradient saliency of source words (METHODS C.2)."""

    attr_target: Literal["pos_logit", "argmax_logit", "logit_diff", "pos_prob"] = "pos_logit"
    normalisation: Literal["minmax", "max", "sum"] = "minmax"
    modes: list[Literal["xx", "xy"]] = ["xx", "xy"]
    batch_size: int = Field(64, ge=1)


class Keywords(Block):
    """Which ranking names the keyword of a text."""

    method: Literal["textrank", "attribution"] = "textrank"


class Graph(Block):
    """The keyword graph (METHODS A.3)."""

    max_nbr: int = Field(16, ge=1, description="neighbours kept per node and sign, by count")
    max_cluster_outputs: int | None = Field(512, ge=1, description="distinct outputs kept per cluster, by count")
    link_inputs: bool = True


class NodeVectors(Block):
    """Initial node vectors (METHODS A.3)."""

    pooling: Literal["mean", "cls"] = "mean"
    batch_size: int = Field(64, ge=1)
    max_length: int = Field(128, ge=8)
