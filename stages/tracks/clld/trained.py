"""What a trained classifier leaves behind: weights, history, items, confusions, label distances, metrics and a card."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import nn
from transformers import PreTrainedTokenizerBase

from models.clld import ClldModel
from models.training import History
from stages.artifacts.model_folder import write_history
from stages.artifacts.paths import ModelPaths
from stages.artifacts.tables import Provenance, atomic_file, atomic_folder, write_json, write_table
from stages.runtime.training import selection
from stages.tracks.clld.confusion import confusion_table
from stages.tracks.clld.distances import distance_table
from stages.tracks.clld.lookup import TrainedOn, save_lookup
from stages.tracks.clld.rows import LABELS
from stages.tracks.clld.texts import COLUMNS

_EVALUATIONS = ("evaluation", "step", "loss", "accuracy", "macro_f1", "updated")


@dataclass(frozen=True)
class TrainedClassifier:
    """What a training makes.

    Attributes:
        model: with the weights of the best epoch.
        tokenizer: as it is to be saved.
        items: rows of :func:`stages.tracks.clld.texts.labelled_texts`, all splits.
        history: of the training.
        confusion: of the model on the validation split (N, N), rows true, columns predicted.
        first_distance: label distance matrix that training began with (N, N); None for a model without one.
        updates: of that matrix, see :class:`models.clld.ClldTask`.
        evaluations: within epochs, see there.
    """

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase
    items: pd.DataFrame
    history: History
    confusion: np.ndarray
    first_distance: np.ndarray | None
    updates: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        return self.model.config.classes


def texts_per_class(items: pd.DataFrame, classes: list[str]) -> dict[str, int]:
    """Return how many training texts each class has, in the order of ``classes``."""
    counts = items.loc[items["split"] == "train", "label"].value_counts()
    return {name: int(counts.get(name, 0)) for name in classes}


def training_metrics(trained: TrainedClassifier, on: TrainedOn, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``metrics.json`` of a model: selection, sizes, texts, and which pairs of classes were apart.

    Args:
        trained: the model.
        on: where it came from.
        settings: further values, such as the rates that the training took.
    """
    model, splits = trained.model, trained.items["split"].value_counts()
    config = model.config
    pairs = [[trained.classes[a], trained.classes[b]] for a, b in config.distance["pairs"]]
    return {**selection(trained.history), "parameters": sum(p.numel() for p in model.parameters()),
            "contrast": on.contrast, "row": LABELS[on.contrast], "encoder": on.encoder, "settings": dict(settings),
            "texts": {split: int(splits.get(split, 0)) for split in ("train", "validation", "test")},
            "training_texts": on.texts, "pairs": pairs, "updates": len(trained.updates),
            "vocabulary": len(trained.tokenizer)}


def model_card(name: str, trained: TrainedClassifier, on: TrainedOn, metrics: Mapping[str, Any]) -> str:
    """Return the README of the saved model; ``metrics`` are those of :func:`training_metrics`."""
    history, config, settings = trained.history, trained.model.config, metrics["settings"]
    best = ", ".join(f"{key} {value:.4f}" for key, value in history.best.items())
    contrast = "none" if not config.contrasts else (
        f"{config.contrast['kind']}, weight {1 - config.contrast['weight']:g}, label distance "
        f"{config.distance['kind']}" if config.contrast["kind"] == "label_distance" else
        f"{config.contrast['kind']}, weight {1 - config.contrast['weight']:g}")
    classes = "\n".join(f"- {_plain(label)}: {count} training texts" for label, count in on.texts.items())
    return f"""---
library_name: transformers
pipeline_tag: text-classification
---
# {name}: {metrics["row"]}

Puts a text into one of {len(on.texts)} classes. Trained by Keycontrast on the data set `{on.dataset}`: \
{metrics["texts"]["train"]} texts, {metrics["texts"]["validation"]} for selection.

- Encoder: {_plain(on.encoder)}; {metrics["parameters"]} parameters; {on.max_length} tokens of a text are read
- Best epoch {history.best_epoch} of {settings["epochs"]}, by validation accuracy: {best}
- Contrast: {contrast}
- {settings["optimiser"]}, rate {settings["learning_rate"]:g}, {settings["batch_size"]} texts a step
- `config.json` holds the settings and the names of the classes, `trained_on.json` where the model came from

Classes:

{classes}

Use it with `keycontrast predict RUN "a text"`, or `models.clld.ClldModel.from_pretrained(FOLDER)`.
"""


def _plain(text: str) -> str:
    """Return a name from a data set as Markdown code on one line."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def write_trained(name: str, trained: TrainedClassifier, card: str, on: TrainedOn, metrics: Mapping[str, Any],
                  provenance: Provenance) -> None:
    """Write the folder ``artifacts/models/NAME``.

    Args:
        name: of the model.
        trained: what :func:`stages.tracks.clld.train.run` returned.
        card: from :func:`model_card`.
        on: where the model came from.
        metrics: from :func:`training_metrics`.
        provenance: of the tables.
    """
    paths, items = ModelPaths(name), trained.items
    with atomic_folder(paths.weights) as folder:
        nn.Module.to(trained.model, "cpu")
        trained.model.save_pretrained(folder)
        trained.tokenizer.save_pretrained(folder)
        save_lookup(folder, on)
        (folder / "README.md").write_text(card, encoding="utf-8")
    write_history(paths.history, trained.history.rows)
    with atomic_file(paths.evaluations) as file:
        pd.DataFrame(trained.evaluations, columns=list(_EVALUATIONS)).to_csv(
            file, index=False, float_format="%.9g", lineterminator="\n")
    write_table(paths.items, "labelled_items", items.loc[items["split"] != "train", COLUMNS], provenance)
    write_table(paths.table("validation_confusion"), "validation_confusion",
                confusion_table(trained.confusion, trained.classes), provenance)
    write_table(paths.table("label_distance"), "label_distance",
                distance_table(trained.first_distance, trained.updates, trained.classes), provenance)
    write_json(paths.metrics, metrics)
