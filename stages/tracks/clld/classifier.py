"""A trained classifier, away from its artifacts: where it came from, and the probabilities that it gives.

Texts are read in chunks of fixed shape, so that the same texts give the same bytes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keycontrast.text.batches import Chunk, encode_texts, fixed_chunks
from models.clld import ClldConfig, ClldModel
from stages.common.training import load_origin

# Texts of a forward pass.
ROWS = 64


@dataclass(frozen=True)
class TrainedOn:
    """Where a model came from, as far as using it depends on that.

    Attributes:
        dataset: name of the data set.
        contrast: of ``models.clld.NAME``; see :mod:`stages.tracks.clld.rows`.
        encoder: ``textcnn``, or the source of the encoder that it started from, as in the params.
        max_length: tokens of a text that are read.
        texts: training texts of each class, in the order of the classes.
    """

    dataset: str
    contrast: str
    encoder: str
    max_length: int
    texts: dict[str, int]

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        return list(self.texts)


def load_lookup(folder: Path) -> TrainedOn:
    """Return where the model in ``folder`` came from.

    Raises:
        InputError: there is no model in ``folder``, or one of another version.
    """
    return load_origin(folder, TrainedOn, (), "CLLD", ClldConfig)[1]


@dataclass(frozen=True)
class LoadedClassifier:
    """What the folder of a trained classifier holds.

    Attributes:
        model: in evaluation mode, on its device.
        tokenizer: of the model; TextCNN's own vocabulary too is one.
        on: where the model came from: classes, and how many tokens of a text are read.
    """

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase
    on: TrainedOn


def load_classifier(folder: Path, device: str = "cpu") -> LoadedClassifier:
    """Return the classifier that a training has written into ``folder``.

    Raises:
        InputError: there is no model in ``folder``, or one of another version.
    """
    on = load_lookup(folder)
    model = ClldModel.from_pretrained(folder).eval()
    nn.Module.to(model, device)
    return LoadedClassifier(model, AutoTokenizer.from_pretrained(folder), on)


def class_probabilities(model: ClldModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int,
                        batch_size: int, track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> np.ndarray:
    """Return the probabilities of the classes (n, N) float64 of each text.

    Args:
        model: in evaluation mode, on its device.
        tokenizer: of the model.
        texts: in any order, the same for the same bytes; an empty one has the class of no words.
        max_length: tokens of a text, special ones included; the rest is cut.
        batch_size: rows of a chunk; part of what decides the last digits.
        track: wraps the list of chunks, to show progress.
    """
    found = np.zeros((len(texts), model.config.n_classes))
    for chunk in track(fixed_chunks(_lengths(tokenizer, texts, max_length), batch_size, max_length)):
        encoded = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width).to(model.device)
        with torch.inference_mode():
            logits = model(encoded["input_ids"], encoded["attention_mask"].bool())
        found[chunk.items] = logits[:len(chunk.items)].double().softmax(-1).cpu().numpy()
    return found


def _lengths(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> list[int]:
    """Return the tokens that are read of each text."""
    encoded = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"] if len(texts) else []
    return [len(ids) for ids in encoded]
