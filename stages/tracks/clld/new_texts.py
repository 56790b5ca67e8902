"""Classifying new texts with a run of the CLLD track: the class, its probability, and that of every class."""

from typing import Any

from stages.tracks.clld.classifier import ROWS, class_probabilities, load_classifier
from stages.tracks.clld.track import CLLD
from stages.tracks.common.track import Asked, Finding


class NewTexts:
    """Classifies texts; of equal probabilities the class that is first in the order of names is the label.

    Args:
        asked: what for.
        finding: is not needed.
        device: to compute on.

    Raises:
        InputError: the model is not trained yet, or is of another version.
    """

    def __init__(self, asked: Asked, finding: Finding, device: str) -> None:
        self.batch_size = ROWS
        self._trained = load_classifier(CLLD.weights(asked), device)

    def lines(self, texts: list[str]) -> list[dict[str, Any]]:
        """Return ``text``, ``label``, ``probability``, and ``probabilities`` by class, of each text."""
        trained, classes = self._trained, self._trained.on.classes
        found = class_probabilities(trained.model, trained.tokenizer, texts, trained.on.max_length, len(texts))
        return [{"text": text, "label": classes[best], "probability": row[best],
                 "probabilities": dict(zip(classes, row, strict=True))}
                for text, row, best in zip(texts, found.tolist(), found.argmax(1).tolist(), strict=True)]
