"""TextCNN (Kim 2014), with words of its own instead of a pre-trained encoder."""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from models.clld import ClldConfig, ClldModel, word_tokenizer
from stages.tracks.clld.architecture import Built, ClassifierArchitecture
from stages.tracks.clld.rows import TEXTCNN


def _built(values: Mapping[str, Any], shared: Mapping[str, Any], classes: Sequence[str],
           encoder: ResolvedEncoder | None, training_texts: Sequence[str]) -> Built:
    sizes = dict(values["textcnn"])
    words = word_tokenizer(training_texts, sizes.pop("min_count"))
    config = ClldConfig(TEXTCNN, classes, textcnn={**sizes, "vocabulary": len(words)}, **shared)
    return Built(ClldModel(config), words)


def _clean(tokenizer: PreTrainedTokenizerBase, encoder: ResolvedEncoder | None) -> PreTrainedTokenizerBase:
    tokenizer.backend_tokenizer.no_truncation()  # type: ignore[attr-defined]
    tokenizer.backend_tokenizer.no_padding()  # type: ignore[attr-defined]
    return tokenizer


ARCHITECTURE = ClassifierArchitecture(
    TEXTCNN, "TextCNN", __name__,
    {"learning_rate": 1e-3, "optimiser": "adam", "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0},
    lambda source, place: None, _built, _clean)
