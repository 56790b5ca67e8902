"""Params that several tracks share: sizes of a Transformer, models and runs that write texts, and evaluation."""

from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_type_hints

from pydantic import Field, create_model, model_validator

from stages.common.params import SEEDS, Block, Seeds
from stages.common.settings import NOTHING


def block_of(settings: Any, base: type[Block] = Block) -> Any:
    """Return the params block of a frozen dataclass, whose fields have ``help`` and pydantic's bounds as metadata."""
    kind, content = type(settings), dict[str, Any]()
    hints = get_type_hints(kind)
    for field in fields(kind):
        default = getattr(settings, field.name)
        if is_dataclass(default):
            block = block_of(default)
            content[field.name] = (block, block())
        else:
            bounds = dict(field.metadata)
            text = bounds.pop("help", None)
            content[field.name] = (hints[field.name], Field(default, description=text, **bounds))

    def checked(self: Block) -> Block:
        kind(**{name: getattr(self, name) for name in content})
        return self

    validators: dict[str, Any] = {"checked": model_validator(mode="after")(checked)}
    return create_model(kind.__name__.removesuffix("Settings"), __base__=base, __doc__=kind.__doc__,
                        __module__=__name__, __validators__=validators, **content)


class Sizes(Block):
    """Sizes of a Transformer."""

    layers: int = Field(6, ge=1, description="of the encoder, and of the decoder")
    heads: int = Field(8, ge=1)
    width: int = Field(512, ge=1)
    feed_forward: int = Field(2048, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_fit(self) -> "Sizes":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class TextModel(Block):
    """One trained model: a data set, and what differs from the block of the track's training."""

    dataset: str
    seeds: Seeds = Field([], description=SEEDS)
    init: str = Field(NOTHING, description=(
        f"where the weights come from: artifacts/models/NAME, a model of this track; a folder that `keycontrast export "
        f"FOLDER --model NAME` has written; or {NOTHING}"))
    overrides: dict[str, Any] = Field(default_factory=dict, description="nested like `train_hcl`, or `train_pgkpr`")


class TextRun(Block):
    """A row of the results table: a model, and what differs from the block of the track's decoding."""

    model: str
    decode: dict[str, Any] = Field(default_factory=dict)


class BertScore(Block):
    """BERTScore: greedy cosine over contextual word pieces."""

    encoder: str | None = Field("bundled", pattern=r"^(bundled|hub:.+|path|characters)$",
                                description="null leaves it out; path, characters: as `encoder.source`, of `path`")
    path: str = NOTHING
    layer: int | None = Field(None, ge=0, description="hidden states taken; null: the last, or the package's table")
    idf: bool = Field(False, description="weigh word pieces by IDF over the references")


class Evaluation(Block):
    """Metrics of texts, and the intervals of every track."""

    emb: str = Field("encoder", pattern="^(encoder|train|path)$",
                     description="word vectors: the encoder's static table, trained on the training split, or those of "
                                 "the file `emb_path`")
    emb_path: str = NOTHING
    bertscore: BertScore = BertScore()
    resamples: int = Field(1000, ge=0, description="bootstrap resamples behind each interval; 0 for no intervals")
    level: float = Field(0.95, gt=0, lt=1, description="of the intervals, those of differences too")
    baselines: list[Literal["copy", "nearest", "shuffled", "keyword"]] = ["copy", "nearest", "shuffled", "keyword"]
