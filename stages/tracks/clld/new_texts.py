"""A trained classifier: its origin, its probabilities, its card, and predictions for new texts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keycontrast.text.batches import Chunk, encode_texts, fixed_chunks
from models.clld.clld import ClldConfig, ClldModel
from stages.common.training import load_origin
from stages.tracks.common.track import Asked, Finding
from stages.tracks.common.training import model_card

# Texts of a forward pass.
ROWS = 64


@dataclass(frozen=True)
class TrainedOn:
    """Where a model came from, as far as using it depends on that."""

    dataset: str
    contrast: str  # of ``models.clld.NAME``
    encoder: str  # ``textcnn``, or the source of the encoder that it started from, as in the params
    max_length: int  # tokens of a text that are read
    texts: dict[str, int]  # training texts of each class, in the order of the classes

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        return list(self.texts)


@dataclass(frozen=True)
class LoadedClassifier:
    """What the folder of a trained classifier holds; the model is in evaluation mode."""

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase
    on: TrainedOn


def load_classifier(folder: Path, device: str = "cpu") -> LoadedClassifier:
    """Return the classifier in ``folder`` on ``device``; none, or one of another version, is an InputError."""
    _, on = load_origin(folder, TrainedOn, (), "CLLD", ClldConfig)
    model = ClldModel.from_pretrained(folder).eval()
    nn.Module.to(model, device)
    return LoadedClassifier(model, AutoTokenizer.from_pretrained(folder), on)


def class_probabilities(model: ClldModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int,
                        batch_size: int, track: Callable[[list[Chunk]], Iterable[Chunk]] = iter) -> np.ndarray:
    """Return the class probabilities (n, N) float64 of each text; ``track`` wraps the list of chunks, to show progress.

    Chunks have a fixed shape, so the same texts in the same order, with the same ``batch_size``, give the same bytes.
    """
    found = np.zeros((len(texts), len(model.config.classes)))
    encoded = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"] if len(texts) else []
    for chunk in track(fixed_chunks(list(map(len, encoded)), batch_size, max_length)):
        rows = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width).to(model.device)
        with torch.inference_mode():
            logits = model(rows["input_ids"], rows["attention_mask"].bool())
        found[chunk.items] = logits[:len(chunk.items)].double().softmax(-1).cpu().numpy()
    return found


def classifier_card(name: str, on: TrainedOn, config: ClldConfig, metrics: Mapping[str, Any], files: str, use: str,
                    code: str = "") -> str:
    """Return the README of a saved classifier; ``code`` is Python that uses it in its folder."""
    kind, settings = config.contrast.kind, metrics["settings"]
    contrast = kind + (", weight 0.5" if config.contrasts else "") + (
        f", label distance {config.distance.kind}" if kind == "label_distance" else "")
    values = ", ".join(f"{key} {value:.4f}" for key, value in metrics["validation"].items())
    classes = "\n".join(f"- {_plain(label)}: {count} training texts" for label, count in on.texts.items())
    return model_card(
        f"{name}: {metrics['row']}", "text-classification",
        f"Puts a text into one of {len(on.texts)} classes. Trained by Keycontrast on the data set `{on.dataset}`: "
        f"{metrics['texts']['train']} texts, {metrics['texts']['validation']} for selection.",
        [f"Encoder: {_plain(on.encoder)}; {metrics['parameters']} parameters; {on.max_length} tokens of a text are "
         f"read",
         f"Best epoch {metrics['best_epoch']} of {settings['epochs']}, by validation accuracy: {values}",
         f"Contrast: {contrast}",
         f"{settings['optimiser']}, rate {settings['learning_rate']:g}, {settings['batch_size']} texts a step", files],
        use, f"Classes:\n\n{classes}" + (f"\n\nIn this folder:\n\n```python\n{code}\n```" if code else ""))


def _plain(text: str) -> str:
    return f"`{' '.join(text.replace('`', ' ').split())}`"


class NewTexts:
    """Classifies texts; of equal probabilities, the first class by name wins."""

    def __init__(self, _asked: Asked, folder: Path, _finding: Finding, device: str) -> None:
        self.batch_size = ROWS
        self._trained = load_classifier(folder, device)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``text``, ``label``, ``probability``, and ``probabilities`` by class, of each text."""
        trained, classes = self._trained, self._trained.on.classes
        found = class_probabilities(trained.model, trained.tokenizer, texts, trained.on.max_length, len(texts))
        return [{"text": text, "label": classes[best], "probability": row[best],
                 "probabilities": dict(zip(classes, row, strict=True))}
                for text, row, best in zip(texts, found.tolist(), found.argmax(1).tolist(), strict=True)]
