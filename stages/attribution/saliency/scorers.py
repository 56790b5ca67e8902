"""What scores the words of a text beside a second one: a pair classifier's gradients, or a sentence encoder's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from keycontrast.text.batches import encode_texts
from models.common.encoders import load_encoder
from models.keywords.attribution import SaliencyBatch, from_characters, from_encoding, siamese_saliency, word_saliency
from models.keywords.pair_classifier import encode_pairs
from stages.common.encoders import resolve_encoder

# Values of the params that are bugs of the released code; they are named in the table's metadata.
BUGS = {"argmax_of": "first_row", "embedding": "block_output", "token_types": False}


@dataclass(frozen=True)
class Pairs:
    """Texts whose words are to be scored, each beside a second text.

    Attributes:
        firsts: their texts.
        seconds: the second texts.
        starts: for each first text, the first character of each word.
        ends: for each first text, the character after each word.
    """

    firsts: list[str]
    seconds: list[str]
    starts: list[np.ndarray]
    ends: list[np.ndarray]

    def at(self, rows: Iterable[int]) -> "Pairs":
        """Return the pairs at ``rows``."""
        return Pairs(*([column[row] for row in rows]
                       for column in (self.firsts, self.seconds, self.starts, self.ends)))  # type: ignore[arg-type]


class Scorer(Protocol):
    """Scores the words of the first text of each pair.

    Attributes:
        size: pairs of a chunk.
        longest: word pieces that the network takes.
        models: name and description of what scores, for the metadata.
    """

    size: int
    longest: int
    models: dict[str, Any]

    def lengths(self, counts: Sequence[tuple[int, int]]) -> list[int]:
        """Return the length of each encoded pair before any cut, given the word pieces of its texts."""

    def __call__(self, pairs: "Pairs", width: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Return, for each pair, its words' scores (n_words,), and how many words have no piece (B,)."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The network's fast tokenizer."""


class ClassifierScorer:
    """Scores by the gradient of a pair classifier, or by its integrated gradients."""

    def __init__(self, classifier: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
                 models: Mapping[str, Any] | None = None) -> None:
        self.classifier, self.tokenizer, self.models = classifier, tokenizer, dict(models or {})
        self.longest = int(tokenizer.model_max_length)
        self.size = texts_of_a_chunk(values)
        names = ("normalisation", "method", "argmax_of", "embedding", "token_types", "steps")
        self._score = partial(word_saliency, classifier, target=values["attr_target"], rows=values["batch_size"],
                              **{name: values[name] for name in names})

    def lengths(self, counts: Sequence[tuple[int, int]]) -> list[int]:
        """Return the lengths of pairs, special tokens included."""
        special = self.tokenizer.num_special_tokens_to_add(pair=True)
        return [first + second + special for first, second in counts]

    def __call__(self, pairs: Pairs, width: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Score the words of the first texts, all padded to ``width``."""
        encoded = encode_pairs(self.tokenizer, pairs.firsts, pairs.seconds, self.longest, width)
        batch = from_characters(encoded, pairs.starts, pairs.ends)
        scores = self._score(batch=_on(batch, self.classifier))
        return [score.numpy() for score in scores], batch.pieces.unaligned()


class SiameseScorer:
    """Scores by the words' shares in the cosine of the two texts under a sentence encoder."""

    def __init__(self, encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, values: Mapping[str, Any],
                 models: Mapping[str, Any] | None = None) -> None:
        self.encoder, self.tokenizer, self.models = encoder, tokenizer, dict(models or {})
        self.longest = min(int(tokenizer.model_max_length), int(encoder.config.max_position_embeddings))
        self.size = texts_of_a_chunk(values)
        self._score = partial(siamese_saliency, encoder, normalisation=values["normalisation"],
                              steps=values["steps"], rows=values["batch_size"])

    def lengths(self, counts: Sequence[tuple[int, int]]) -> list[int]:
        """Return the length of the longer text of each pair, special tokens included."""
        special = self.tokenizer.num_special_tokens_to_add(pair=False)
        return [max(pair) + special for pair in counts]

    def __call__(self, pairs: Pairs, width: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Score the words of the first texts, all padded to ``width``."""
        batch = from_characters(encode_texts(self.tokenizer, pairs.firsts, width), pairs.starts, pairs.ends)
        others = from_encoding(encode_texts(self.tokenizer, pairs.seconds, width))
        scores = self._score(_on(batch, self.encoder), _on(others, self.encoder))
        return [score.numpy() for score in scores], batch.pieces.unaligned()


def texts_of_a_chunk(values: Mapping[str, Any]) -> int:
    """Return how many pairs go together: so many that they, or the points of their paths, fill ``batch_size``."""
    return values["batch_size"] if values["method"] == "gradient" else max(1, values["batch_size"] // values["steps"])


def load_scorer(values: Mapping[str, Any], classifier: Path, source: str, device: str) -> Scorer:
    """Return what scores words under the params block ``attribution``.

    Args:
        values: plain values of the block.
        classifier: folder of the data set's pair classifier; method siamese reads none.
        source: ``encoder.source``, for method siamese.
        device: ``cpu`` or ``cuda``.

    Raises:
        InputError: there is no such classifier, or the encoder cannot be had.
    """
    if values["method"] == "siamese":
        return _siamese_scorer(source, values, device)
    return _classifier_scorer(classifier, values, device)


def _classifier_scorer(folder: Path, values: Mapping[str, Any], device: str) -> ClassifierScorer:
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise InputError(f"{weights}: no such artifact. Make it with `keycontrast stage "
                         f"pair_classifier@{folder.parent.name}`.")
    classifier = AutoModelForSequenceClassification.from_pretrained(folder)
    nn.Module.to(classifier, device)
    return ClassifierScorer(classifier, AutoTokenizer.from_pretrained(folder), values,
                            {"pair_classifier": {"name": folder.as_posix(), "sha256": sha256_of(weights)}})


def _siamese_scorer(source: str, values: Mapping[str, Any], device: str) -> SiameseScorer:
    resolved = resolve_encoder(source)
    encoder, tokenizer = load_encoder(resolved.location, pretrained=resolved.pretrained)
    nn.Module.to(encoder, device)
    if tokenizer is None:
        raise InputError(f"encoder.source: {source} has no tokenizer.")
    return SiameseScorer(encoder, tokenizer, values, {"encoder": resolved.description})


def _on(batch: SaliencyBatch, network: PreTrainedModel) -> SaliencyBatch:
    """Return ``batch`` with its inputs on the network's device."""
    return SaliencyBatch({name: value.to(network.device) for name, value in batch.inputs.items()}, batch.words,
                         batch.special)


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return every switch of the params block, and the bugs of the released code that are among them by name."""
    bugs = sorted(name for name, bug in BUGS.items() if values[name] == bug)
    return {**values, "bugs_of_the_released_code": [f"{name}: {values[name]}" for name in bugs]}
