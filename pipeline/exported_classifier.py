"""A classifier that ``keycontrast export`` has written, as it classifies in its project."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoTokenizer

from models.clld import load_exported
from stages.common.device import choose_device
from stages.common.encoders import encode_texts
from stages.run.errors import InputError

_BATCH = 64


class ExportedClassifier:
    """Gives the lines of ``keycontrast predict``.

    Args:
        folder: that was exported.

    Raises:
        InputError: another model lies there, or a damaged one.
    """

    def __init__(self, folder: Path) -> None:
        config = folder / "config.json"
        try:
            classes = json.loads(config.read_text(encoding="utf-8")).get("architectures") or ["no class"]
        except ValueError as error:
            raise InputError(f"{config}: damaged ({error}). Export the model again.") from error
        if not classes[0].endswith("ForSequenceClassification"):
            raise InputError(f"{config}: holds {classes[0]}, no classifier. Load it with that class of transformers, "
                             f"or name a project or artifacts/runs/NAME of one.")
        self._model, self._tokenizer = load_exported(folder), AutoTokenizer.from_pretrained(folder)
        self._device = choose_device("auto")
        nn.Module.to(self._model, self._device)
        labels: dict[int, str] = dict(self._model.config.id2label)  # type: ignore[arg-type]
        self._classes = [labels[number] for number in range(len(labels))]

    def __call__(self, texts: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield ``text``, ``label``, ``probability`` and ``probabilities`` of each text."""
        given = list(texts)
        for first in range(0, len(given), _BATCH):
            yield from self._of(given[first:first + _BATCH])

    def _of(self, texts: list[str]) -> list[dict[str, Any]]:
        # the training has written how many tokens it reads as the tokenizer's own limit
        limit = int(self._tokenizer.model_max_length)
        longest = max(map(len, self._tokenizer(texts, truncation=True, max_length=limit)["input_ids"]))
        encoded = encode_texts(self._tokenizer, texts, longest).to(self._device)
        with torch.inference_mode():
            found = self._model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"].long()).logits
        rows = found.double().softmax(-1).cpu()
        return [{"text": text, "label": self._classes[best], "probability": row[best],
                 "probabilities": dict(zip(self._classes, row, strict=True))}
                for text, row, best in zip(texts, rows.tolist(), rows.argmax(1).tolist(), strict=True)]
