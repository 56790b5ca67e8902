"""Settings of CLLD classifiers: the block ``train_clld``, and the groups of a saved model's ``config.json``."""

from dataclasses import dataclass
from typing import Literal

from models.common import setting


@dataclass(frozen=True)
class ContrastSettings:
    """The contrast, for models that have one (CLLD section III-B)."""

    temperature: float | None = setting(None, "null: that of its paper (CLLD has none, which is 1; supcl_seq and "
                                              "simcse 0.05)", gt=0)


@dataclass(frozen=True)
class TextCnnSizes:
    """Sizes of TextCNN (Kim 2014)."""

    embedding: int = setting(300, ge=1)
    filters: int = setting(100, "of each width: 3, 4 and 5 words", ge=1)


@dataclass(frozen=True)
class TextCnnSettings(TextCnnSizes):
    """TextCNN and its vocabulary (Kim 2014)."""

    min_count: int = setting(2, "words that are rarer in the training texts are unknown; 1 keeps all", ge=1)


@dataclass(frozen=True)
class ClldSettings:
    """Settings that the classifiers of the CLLD track share."""

    max_length: int = setting(128, "tokens of a text, special ones included; the rest is cut", ge=1)
    pool: Literal["cls", "mean"] = setting("cls", "vector of a text: the state of [CLS], or the mean; not of textcnn")
    ce_views: Literal["first", "both"] = setting("first", "views that the cross-entropy reads; under both CT has two "
                                                          "views as well, and so costs as much as with a contrast")
    contrast: ContrastSettings = ContrastSettings()
    textcnn: TextCnnSettings = TextCnnSettings()


@dataclass(frozen=True)
class Contrast(ContrastSettings):
    """The contrast of a model; CT has none."""

    kind: Literal["none", "label_distance", "supervised", "twin"] = "none"


@dataclass(frozen=True)
class Distance:
    """The initial label distance matrix: tau for ``pairs`` of class indices, and 1 for all others."""

    kind: Literal["ones", "static_tau_pairs", "adaptive"] = "ones"
    pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class TextCnnConfig(TextCnnSizes):
    """Sizes of a TextCNN and of its vocabulary, padding and the unknown word included."""

    vocabulary: int = 2


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a saved model, besides its classes and its encoder."""

    architecture: Literal["encoder", "textcnn"] = "encoder"
    pool: Literal["cls", "mean"] = "cls"
    ce_views: Literal["first", "both"] = "first"
    contrast: Contrast = Contrast()
    distance: Distance = Distance()
    textcnn: TextCnnConfig = TextCnnConfig()
