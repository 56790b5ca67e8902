"""Params of rankings by phrases, of the choice of a keyword, and of the comparison of methods."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from keycontrast.errors import InputError, nearest
from keycontrast.ranking import Settings
from stages.common.methods import FOR_ANY_TEXT, NAMING
from stages.common.params import Block, Datasets
from stages.common.settings import NOTHING


class TextRank(Block):
    """Ranked phrases of each text."""

    method: Literal["mihalcea", "pytextrank", "positionrank", "tfidf", "topicrank", "biasedtextrank"] = Field(
        "pytextrank", description="mihalcea: TextRank as in its paper, whose keywords we found the worst; tfidf: IDF "
                                  "over the training texts, occurrences and position; topicrank and biasedtextrank: "
                                  "only with engine package")
    compat: Literal["none", "pytextrank"] = Field("none", description="pytextrank: the phrases of that package, with "
                                                  "its quirks")
    engine: Literal["ours", "package"] = Field("ours", description="package: run the pytextrank package, text by text")
    phrases: int = Field(5, ge=1, description="phrases kept per text")
    damping: float = Field(0.85, gt=0, lt=1)
    tolerance: float = Field(1e-11, gt=0, description="largest absolute change of a score at which iteration stops; "
                             "scores are compared to nine digits, which the paper's 1e-4 does not give")
    max_iterations: int = Field(100, ge=1)
    window: int | None = Field(None, ge=2, description="words of a co-occurrence window; null is the method's own")
    focus: str = Field("", description="pytextrank, biasedtextrank: words that the ranking favours")
    chunks: Literal["auto", "annotated", "adjectives"] = Field(
        "auto", description="noun chunks that are phrases (unused by mihalcea). annotated: those of the annotation, "
                            "nouns alone; adjectives: with adjectives, participles and hyphens; auto: adjectives, but "
                            "annotated in Chinese and with engine package or compat pytextrank")

    @model_validator(mode="after")
    def _settings_go_together(self) -> "TextRank":
        try:
            Settings(**{name: value for name, value in dict(self).items() if name != "phrases"})
        except InputError as error:
            raise ValueError(str(error)) from error
        return self


class Yake(Block):
    """Ranked phrases of each text by YAKE, the package ``yake``."""

    phrases: int = Field(5, ge=1, description="phrases kept per text")
    # With two stop words inside a phrase, the package's scores may be negative.
    ngrams: int = Field(3, ge=1, le=3, description="words of a phrase at most")


class EmbedRank(Block):
    """Ranked phrases of each text by embeddings, IDF and position."""

    phrases: int = Field(5, ge=1, description="phrases kept per text")
    encoder: str = Field("bundled", pattern=r"^(bundled|hub:.+|path)$",
                         description="frozen, on the CPU in one thread per worker; path: the folder `path`")
    path: str = NOTHING
    max_length: int = Field(256, ge=8, description="word pieces of a text that are read")
    chunks: Literal["auto", "annotated", "adjectives"] = Field("auto", description="as `textrank.chunks`")


class Keywords(Block):
    """Which ranking names the keyword of a text."""

    datasets: Datasets = Field([], description="that are annotated and ranked, and get a keyword per text")
    method: str = Field("textrank", description=f"{', '.join(NAMING)}; {', '.join(FOR_ANY_TEXT)} read nothing but the "
                                                f"text, the others need a data set of pairs, from which they learn")
    lemmatize: bool = Field(False, description="normal form by lemmas, not only in lower case")

    @field_validator("method")
    @classmethod
    def _method_exists(cls, name: str) -> str:
        if name not in NAMING:
            raise ValueError(f"no value is called {name!r}; {nearest(name, NAMING)}")
        return name


class KeywordComparison(Block):
    """The keywords of every method beside each other."""

    datasets: Datasets = Field([], description="of pairs, whose keywords are found by every method")
    top: int = Field(3, ge=1, description="keywords per text and method")
