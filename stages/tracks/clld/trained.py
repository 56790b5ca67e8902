"""What a trained classifier leaves behind: weights, history, items, confusions, label distances, metrics and a card."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from models.clld import ClldModel
from models.common.task import History
from stages.common.model_folder import TRAINED_ON_FILE
from stages.tracks.clld.confusion import confusion_table
from stages.tracks.clld.distances import distance_table
from stages.tracks.clld.lookup import TrainedOn
from stages.tracks.clld.rows import row_name, row_of
from stages.tracks.clld.schemas.trained import LABEL_DISTANCE, LABELLED_ITEMS, VALIDATION_CONFUSION
from stages.tracks.clld.texts import COLUMNS
from stages.tracks.common.trained import ModelFolder, Table, best_values, model_card

_EVALUATIONS = ["evaluation", "step", "loss", "accuracy", "macro_f1"]


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
    """

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase
    items: pd.DataFrame
    history: History
    confusion: np.ndarray
    first_distance: np.ndarray | None
    updates: list[dict[str, Any]]

    @property
    def classes(self) -> list[str]:
        """Name of each class, by index."""
        return self.model.config.classes


def texts_per_class(items: pd.DataFrame, classes: list[str]) -> dict[str, int]:
    """Return how many training texts each class has, in the order of ``classes``."""
    counts = items.loc[items["split"] == "train", "label"].value_counts()
    return {name: int(counts.get(name, 0)) for name in classes}


def training_metrics(trained: TrainedClassifier, on: TrainedOn, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``metrics.json`` says of a model: sizes, texts, and which pairs of classes were apart.

    Args:
        trained: the model.
        on: where it came from.
        settings: further values, such as the rates that the training took.
    """
    model, splits = trained.model, trained.items["split"].value_counts()
    config = model.config
    pairs = [[trained.classes[a], trained.classes[b]] for a, b in config.distance["pairs"]]
    return {"parameters": sum(p.numel() for p in model.parameters()),
            "contrast": on.contrast, "row": row_name(row_of(on.contrast, config.ce_views)), "encoder": on.encoder,
            "settings": dict(settings),
            "texts": {split: int(splits.get(split, 0)) for split in ("train", "validation", "test")},
            "training_texts": on.texts, "pairs": pairs, "updates": len(trained.updates),
            "vocabulary": len(trained.tokenizer)}


def folder_of(name: str, on: TrainedOn, settings: Mapping[str, Any], trained: TrainedClassifier,
              measured: Mapping[str, Any]) -> ModelFolder:
    """Return what a trained classifier leaves behind.

    Args:
        name: of the model.
        on: where it came from.
        settings: plain values of its block ``training``, with the rates that it took.
        trained: the model.
        measured: for the stage's record.
    """
    metrics, items = training_metrics(trained, on, settings), trained.items
    tables = [Table("items", items.loc[items["split"] != "train", COLUMNS], LABELLED_ITEMS),
              Table("validation_confusion", confusion_table(trained.confusion, trained.classes),
                    VALIDATION_CONFUSION),
              Table("label_distance", distance_table(trained.first_distance, trained.updates, trained.classes),
                    LABEL_DISTANCE)]
    logs = {"evaluations.csv": pd.DataFrame(trained.updates, columns=_EVALUATIONS)}
    return ModelFolder(training_card(name, trained, on, metrics), {TRAINED_ON_FILE: asdict(on)}, tables, metrics,
                       trained.tokenizer, logs, measured=measured)


def training_card(name: str, trained: TrainedClassifier, on: TrainedOn, metrics: Mapping[str, Any]) -> str:
    """Return the README of the saved model; ``metrics`` are those of :func:`training_metrics`."""
    history, config, settings = trained.history, trained.model.config, metrics["settings"]
    contrast = config.contrast["kind"] + (", weight 0.5" if config.contrasts else "") + (
        f", label distance {config.distance['kind']}" if config.contrast["kind"] == "label_distance" else "")
    classes = "\n".join(f"- {_plain(label)}: {count} training texts" for label, count in on.texts.items())
    return model_card(
        f"{name}: {metrics['row']}", "text-classification",
        f"Puts a text into one of {len(on.texts)} classes. Trained by Keycontrast on the data set `{on.dataset}`: "
        f"{metrics['texts']['train']} texts, {metrics['texts']['validation']} for selection.",
        [f"Encoder: {_plain(on.encoder)}; {metrics['parameters']} parameters; {on.max_length} tokens of a text are "
         f"read",
         f"Best epoch {history.best_epoch} of {settings['epochs']}, by validation accuracy: {best_values(history)}",
         f"Contrast: {contrast}",
         f"{settings['optimiser']}, rate {settings['learning_rate']:g}, {settings['batch_size']} texts a step",
         "`config.json` holds the settings and the names of the classes, `trained_on.json` where the model came from"],
        '`keycontrast predict RUN "a text"`, or `models.clld.ClldModel.from_pretrained(FOLDER)`',
        f"Classes:\n\n{classes}")


def _plain(text: str) -> str:
    """Return a name from a data set as Markdown code on one line."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"
