"""A trained classifier: origin, card, probabilities and predictions, and its export to other programs."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from keycontrast.cells import printable
from keycontrast.errors import InputError
from keycontrast.text.batches import Chunk, encode_texts, fixed_chunks
from models.clld.clld import ClldConfig, ClldModel, LabelledTexts
from models.clld.export import load_exported, sequence_classifier
from stages.common.paths import ModelPaths
from stages.common.settings import Params
from stages.common.tables import read_frame
from stages.common.training import load_origin
from stages.tracks.clld.tables import LABELLED_ITEMS, TEXTCNN, source_of
from stages.tracks.common.track import Asked, Finding
from stages.tracks.common.training import model_card

_COMPARED = 64  # texts that both models are given once the export is written
_CLOSE = 1e-3   # of logits; what pool: cls costs is below half a unit in the last place of a state
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
    """A trained classifier as loaded from its folder; the model is in evaluation mode."""

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
    probabilities = np.zeros((len(texts), len(model.config.classes)))
    encoded = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"] if len(texts) else []
    for chunk in track(fixed_chunks(list(map(len, encoded)), batch_size, max_length)):
        rows = encode_texts(tokenizer, [texts[row] for row in chunk.rows], chunk.width).to(model.device)
        with torch.inference_mode():
            logits = model(rows["input_ids"], rows["attention_mask"].bool())
        probabilities[chunk.items] = logits[:len(chunk.items)].double().softmax(-1).cpu().numpy()
    return probabilities


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
         f"AdamW, rate {settings['learning_rate']:g}, {settings['batch_size']} texts a step", files],
        use, f"Classes:\n\n{classes}" + (f"\n\nIn this folder:\n\n```python\n{code}\n```" if code else ""))


def _plain(text: str) -> str:
    return f"`{printable(' '.join(text.replace('`', ' ').split()))}`"


class NewTexts:
    """Classifies texts; of equal probabilities, the first class by name wins."""

    def __init__(self, _asked: Asked, folder: Path, _finding: Finding, device: str) -> None:
        self.batch_size = ROWS
        self._trained = load_classifier(folder, device)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``text``, ``label``, ``probability``, and ``probabilities`` by class, of each text."""
        trained, classes = self._trained, self._trained.on.classes
        shares = class_probabilities(trained.model, trained.tokenizer, texts, trained.on.max_length, len(texts))
        return [{"text": text, "label": classes[best], "probability": row[best],
                 "probabilities": dict(zip(classes, row, strict=True))}
                for text, row, best in zip(texts, shares.tolist(), shares.argmax(1).tolist(), strict=True)]


def exported(params: Params, paths: ModelPaths, folder: Path, called: Path) -> str:
    """Write a classifier with its card into ``folder``, compare its logits with the model's; return a description."""
    trained = load_classifier(paths.weights)
    try:
        sequence_classifier(trained.model).save_pretrained(folder)
    except ValueError as error:
        raise InputError(f"{paths.name}: {error}. {_remedy(params, paths)}") from error
    trained.tokenizer.save_pretrained(folder)
    other = load_exported(folder)
    texts = read_frame(paths.items, LABELLED_ITEMS)["text"].tolist()[:_COMPARED]
    tokens = LabelledTexts.of(AutoTokenizer.from_pretrained(folder), texts, [0] * len(texts), trained.on.max_length)
    batch = tokens.batch(range(len(texts)))
    with torch.inference_mode():
        own = trained.model(batch["input_ids"], batch["attention_mask"])
        logits = other(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long()).logits
    gap = float((own - logits).abs().max())
    if not gap <= _CLOSE * max(1.0, float(own.abs().max())):
        raise InputError(f"{paths.name}: the logits of the exported model differ by {gap:.2g} from those of the "
                         f"trained one, so nothing was written. With pool: cls this happens to an encoder whose states "
                         f"are far above 27; train it with train_clld.pool: mean.")
    classes = trained.on.classes
    # transformers has no classifier with a mean over tokens: the folder contains one
    trusting = ", trust_remote_code=True" if trained.model.config.pool == "mean" else ""
    (folder / "README.md").write_text(classifier_card(
        paths.name, trained.on, trained.model.config, json.loads(paths.metrics.read_text(encoding="utf-8")),
        "`config.json` holds the settings and the names of the classes" + (
            ", `mean_pooled.py` the class that takes the mean over tokens" if trusting else ""),
        '`pipeline("text-classification", ...)` of transformers, as above',
        f'from transformers import pipeline\n\n'
        f'classify = pipeline("text-classification", model="."{trusting}, truncation=True, top_k=None)\n'
        f'print(classify("a text"))'), encoding="utf-8")
    return (f"{paths.name} as {type(other).__name__}, {len(classes)} classes ({', '.join(classes)})\n"
            f"On {len(texts)} of its texts the logits differ by at most {gap:.1g}. It reads {trained.on.max_length} "
            f"tokens of a text:\n"
            f'  pipeline("text-classification", model="{called}"{trusting}, truncation=True, top_k=None)')


def _remedy(params: Params, paths: ModelPaths) -> str:
    use = (f"Use it as it is: `keycontrast predict {paths.name} TEXT`, or models.clld.clld.ClldModel.from_pretrained"
           f'("{paths.weights}")')
    others = [other for other in sorted(params.models.clld) if source_of(params, other) != TEXTCNN]
    if others:
        return f"{use}. Of this recipe {', '.join(others)} can be exported."
    return (f"{use}; or give the row an encoder, `keycontrast use RECIPE --set "
            f"models.clld.{paths.name}.encoder=bundled`, train it, `keycontrast run train_clld@{paths.name}`, and "
            f"export that.")
