"""What the CLLD track knows of a kind of classifier, and how it trains one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from keycontrast.encoders import ResolvedEncoder
from keycontrast.errors import InputError
from models.clld import AdaptiveSchedule, ClldModel, ClldTask, LabelledTexts
from models.common.encoders import encoder_pass
from models.common.precision import products
from models.common.task import CheckpointStore, Criterion, Settings
from models.common.training import fit
from stages.common.paths import DatasetPaths
from stages.common.seeds import derived_seed
from stages.common.training import loop_settings
from stages.tracks.clld.lookup import TrainedOn
from stages.tracks.clld.pairs import Pairs
from stages.tracks.clld.rows import contrast_group, distance_group
from stages.tracks.clld.texts import class_numbers, classes_of
from stages.tracks.clld.trained import TrainedClassifier, folder_of, texts_per_class
from stages.tracks.common.trained import ModelFolder
from stages.tracks.common.training import OpenBar, Training

# Names the seeds of what is drawn.
STAGE = "train_clld"


@dataclass(frozen=True)
class ClldRow:
    """A model to be trained.

    Attributes:
        name: of the model.
        paths: of its data set.
        seed: fans out by name into weights, order and dropout.
        values: plain values of the block ``train_clld`` with the model's overrides.
        contrast: of ``models.clld.NAME``.
        pairs: indices of confusable classes, for ``static_tau_pairs``.
        source: of the encoder, as ``encoder.source`` has it, or ``textcnn``.
        place: in the params, of that source.
        items: from :func:`stages.tracks.clld.texts.labelled_texts`, all splits.
    """

    name: str
    paths: DatasetPaths
    seed: int
    values: Mapping[str, Any]
    contrast: str
    pairs: Pairs
    source: str
    place: str
    items: pd.DataFrame


@dataclass(frozen=True)
class Built:
    """A model that is not trained yet.

    Attributes:
        model: with random weights, but for those of a pre-trained encoder.
        tokenizer: cuts texts for it.
    """

    model: ClldModel
    tokenizer: PreTrainedTokenizerBase


@dataclass(frozen=True)
class ClassifierArchitecture:
    """A kind of classifier.

    Attributes:
        name: as ``config.json`` of its models has it.
        title: for people.
        code: dotted name of the module that builds it.
        own: optimiser, decay and warm-up, and learning rate and schedule where the params say null (CLLD
            section IV-B; warm-up and schedule ours). A schedule that is named has no warm-up.
        resolved: given a source and its place in the params, returns the encoder to start from; None for none.
        built: given settings, groups of the configuration that all architectures share, class names, encoder and
            training texts, returns a model; its weights are drawn from torch's generator.
        clean: given what was used, the encoder and the tokens that the model was taught, returns the tokenizer as it
            is to be saved: without the padding and cut that it remembers from its work.
    """

    name: str
    title: str
    code: str
    own: Mapping[str, Any]
    resolved: Callable[[str, str], ResolvedEncoder | None]
    built: Callable[[Mapping[str, Any], Mapping[str, Any], Sequence[str], ResolvedEncoder | None, Sequence[str]], Built]
    clean: Callable[[PreTrainedTokenizerBase, ResolvedEncoder | None], PreTrainedTokenizerBase]

    def prepared(self, row: ClldRow) -> Training[TrainedClassifier]:
        """Return the training of ``row``.

        Raises:
            InputError: its encoder is not to be had.
        """
        values, encoder = self.with_own_rates(row.values), self.resolved(row.source, row.place)
        described = {"encoder": {"name": self.name} if encoder is None else encoder.description}
        tables = [row.paths.table(kind) for kind in ("examples", "texts")]
        return Training(self.name, values["training"], tables,
                        partial(self.run, row.items, values, row.contrast, row.pairs, encoder, row.seed),
                        partial(_folder, row, values), described, {"pairs": row.pairs})

    def with_own_rates(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``values`` of the block ``train_clld`` with what is this architecture's :attr:`own` for null."""
        given = {name: value for name, value in values["training"].items() if value is not None or name not in self.own}
        own = {**self.own, "warmup": 0.0} if "schedule" in given else self.own
        return {**values, "training": {**own, **given}}

    def build(self, values: Mapping[str, Any], contrast: str, pairs: Sequence[tuple[int, int]], classes: Sequence[str],
              encoder: ResolvedEncoder | None, training_texts: Sequence[str], seed: int) -> Built:
        """Return a model to train.

        Args:
            values: plain values of the block ``train_clld`` with the model's overrides.
            contrast: of ``models.clld.NAME``.
            pairs: indices of confusable classes, for ``static_tau_pairs``.
            classes: name of each class, by index.
            encoder: to start from.
            training_texts: of which a vocabulary may be made, and no others.
            seed: of the weights; rows of a table that differ in the contrast alone begin with the same.

        Raises:
            InputError: the encoder cannot be had as the params ask for it.
        """
        shared = {"pool": values["pool"], "ce_views": values["ce_views"],
                  "contrast": contrast_group(contrast, values["contrast"]), "distance": distance_group(contrast, pairs)}
        torch.manual_seed(seed)
        return self.built(values, shared, classes, encoder, training_texts)

    def run(self, items: pd.DataFrame, values: Mapping[str, Any], contrast: str, pairs: Pairs,
            encoder: ResolvedEncoder | None, seed: int, store: CheckpointStore, device: str = "cpu",
            open_bar: OpenBar | None = None) -> TrainedClassifier:
        """Train a classifier on the training texts and keep the epoch of best validation accuracy.

        Of equal accuracies the smaller validation loss is better, then the earlier epoch.

        Args:
            items: from :func:`stages.tracks.clld.texts.labelled_texts`, all splits; the test split is carried along.
            values: plain values of the block ``train_clld`` with the model's overrides, rates and optimiser filled in
                (:meth:`with_own_rates`).
            contrast: of ``models.clld.NAME``.
            pairs: indices of confusable classes, for ``static_tau_pairs``.
            encoder: to start from.
            seed: fans out by name into weights, order and dropout.
            store: keeps the training's state.
            device: ``cpu`` or ``cuda``.
            open_bar: given steps in all and done, returns a progress bar.

        Raises:
            InputError: the encoder cannot be had as asked for, or an adaptive matrix would never move.
        """
        training, classes = values["training"], classes_of(items)
        train = items[items["split"] == "train"]
        built = self.build(values, contrast, pairs, classes, encoder, train["text"].tolist(),
                           derived_seed(seed, STAGE, "weights"))
        model = built.model
        nn.Module.to(model, device)
        texts = {split: _tokenised(items, split, built.tokenizer, classes, values["max_length"])
                 for split in ("train", "validation")}
        settings = replace(loop_settings(training), select=(Criterion("accuracy", largest=True), Criterion("loss")))
        schedule = _schedule(settings, len(train)) if contrast == "adaptive" else None
        task = ClldTask(model, texts["train"], texts["validation"], training["learning_rate"], training["micro_batch"],
                        schedule)
        first = _matrix(model)
        history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
        tokenizer = self.clean(built.tokenizer, encoder)
        tokenizer.init_kwargs.pop("local_files_only", None)  # says whether this machine has a network
        tokenizer.model_max_length = values["max_length"]
        return TrainedClassifier(model, tokenizer, items, history, _confusion(task, device, training["precision"]),
                                 first, task.updates)


def _folder(row: ClldRow, values: Mapping[str, Any], trained: TrainedClassifier) -> ModelFolder:
    texts = texts_per_class(row.items, trained.classes)
    on = TrainedOn(row.paths.name, row.contrast, row.source, values["max_length"], texts)
    encoder = trained.model.encoder if trained.model.config.architecture == "encoder" else None
    measured = {} if encoder is None else {"encoder_pass": encoder_pass(encoder)}
    return folder_of(row.name, on, values["training"], trained, measured)


def _tokenised(items: pd.DataFrame, split: str, tokenizer: Any, classes: list[str], max_length: int) -> LabelledTexts:
    chosen = items[items["split"] == split]
    return LabelledTexts.of(tokenizer, chosen["text"].tolist(), class_numbers(chosen["label"], classes), max_length)


def _schedule(settings: Settings, n_train: int) -> AdaptiveSchedule:
    schedule = AdaptiveSchedule(settings.epochs, settings.steps_per_epoch(n_train))
    if not schedule.update_steps():
        raise InputError(
            f"train_clld: an adaptive label distance would not move before the training ends, and equal a uniform one: "
            f"{settings.epochs} epochs of {schedule.steps_per_epoch} steps, an evaluation every {schedule.interval} "
            f"steps, an update every ten evaluations, none in the first fifth of all steps. Give more epochs or "
            f"smaller batches.")
    return schedule


def _matrix(model: ClldModel) -> np.ndarray | None:
    found = getattr(model, "ldm", None)
    return found.cpu().double().numpy() if isinstance(found, torch.Tensor) else None


def _confusion(task: ClldTask, device: str, precision: str) -> np.ndarray:
    with torch.no_grad(), products(device, precision):
        return task.judge().confusion.numpy()
