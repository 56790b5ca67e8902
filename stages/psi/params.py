"""Params of primary words: word vectors, their importance, the tagger, and the encoder of characters."""

from typing import Literal

from pydantic import Field

from stages.common.params import Block, Datasets
from stages.common.settings import NOTHING


class WordVectors(Block):
    """Word vectors: read from a file, or trained on the training split."""

    source: str = Field("train", pattern="^(train|path)$", description="train, or path: the file `path`")
    path: str = Field(NOTHING, description="a file: word2vec or GloVe text, fastText .vec, each also as .gz")
    size: int = Field(100, ge=2, description="train: width")
    window: int = Field(5, ge=1, description="train")
    min_count: int = Field(1, ge=1, description="train: rarer words have no vector")
    epochs: int = Field(10, ge=1, description="train")
    isotropic: bool = Field(True, description="train: subtract the mean vector and scale to length 1; else vectors of "
                                              "few texts point one way and are longest for the most frequent words")


class Psi(Block):
    """Primary words by paired semantic importance (IANet)."""

    datasets: Datasets = Field([], description="of pairs, whose words are scored; each has word vectors")
    alpha: float = Field(0.1, description="a word is primary if its importance exceeds this")
    modes: list[Literal["xx", "xy"]] = ["xx", "xy"]


class STagger(Block):
    """The tagger of primary words that needs no target (IANet+S)."""

    datasets: Datasets = Field([], description="of psi.datasets")
    min_count: int = Field(2, ge=1, description="rarer words of the training sources are read as unknown, so that the "
                                                "embedding of unknown words is trained")
    embedding: int = Field(300, ge=1)
    hidden: int = Field(512, ge=1)
    layers: int = Field(2, ge=1)
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(128, ge=1)
    epochs: int = Field(60, ge=1)
    clip: float = Field(1.0, gt=0)
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the matrix products; the LSTM keeps fp32")


class CharacterEncoder(Block):
    """An encoder whose word pieces are learned from a data set (`encoder.source: characters`)."""

    datasets: Datasets = Field([], description="for each of which an encoder is made; encoder.path names one of these")
    min_count: int = Field(2, ge=1, description="rarer characters are unknown, Latin letters and digits never")
    min_word_count: int = Field(5, ge=1, description="rarer words are split into their characters")
    size: int = Field(256, ge=2, description="width; a multiple of `heads`")
    layers: int = Field(4, ge=1)
    heads: int = Field(4, ge=1)
    feed_forward: int = Field(1024, ge=1)
    window: int = Field(5, ge=1, description="of the skip-gram vectors, in pieces")
    epochs: int = Field(5, ge=1, description="of the skip-gram vectors")
