"""How runs of every track are measured and compared."""

from typing import Literal

from pydantic import Field

from stages.params.block import Block


class BertScore(Block):
    """BERTScore: greedy cosine over contextual word pieces (METHODS E.4)."""

    encoder: str | None = Field("bundled", pattern=r"^(bundled|hub:.+|path:.+|characters:.+)$",
                                description="null leaves it out")
    layer: int | None = Field(None, ge=0, description="hidden states taken; null: the last, or the package's table")
    idf: bool = Field(False, description="weigh word pieces by IDF over the references")


class Evaluation(Block):
    """Metrics of texts, and the intervals of every track (METHODS E)."""

    bleu_style: Literal["individual_m7", "cumulative_m7", "corpus", "sacrebleu"] = Field(
        "individual_m7", description="the reading that leads tables; all are computed")
    emb: str = Field("encoder", pattern="^(encoder|train|path:.+)$",
                     description="word vectors: the encoder's static table, trained on the training split, or a file")
    bertscore: BertScore = BertScore()
    resamples: int = Field(1000, ge=0, description="bootstrap resamples behind each interval; 0 for no intervals")
    level: float = Field(0.95, gt=0, lt=1, description="of the intervals")
    floors: list[Literal["copy", "nearest", "shuffled", "keyword"]] = ["copy", "nearest", "shuffled", "keyword"]


class Compare(Block):
    """Paired tests between the runs of a data set (METHODS E.4)."""

    resamples: int = Field(1000, ge=1, description="paired bootstrap")
    level: float = Field(0.95, gt=0, lt=1, description="of the intervals of differences")
