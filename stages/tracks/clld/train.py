"""Train a classifier of the CLLD track: one row of its table, with one encoder, on one data set (METHODS D).

Reads the labelled texts of the model's data set, and the confusing pairs of another model where the row takes them
from one; writes the model in Hugging Face layout, its training history and metrics, the texts that it is evaluated on,
its confusions on the validation split, and its label distance matrix over the training. The test split is never
looked at. With runtime.processes above 1, or under torchrun, several processes share the micro-batches.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import nn

import models
import models.bert
import models.precision
from models.clld import AdaptiveSchedule, ClldModel, ClldTask, LabelledTexts, balanced_weights
from models.encoders import encoder_pass
from models.precision import products
from models.training import Bar, CheckpointStore, Criterion, Settings, fit
from models.training.parallel import place
from stages import encoders
from stages.artifacts.paths import DatasetPaths
from stages.artifacts.tables import Provenance, read_frame
from stages.encoders import ResolvedEncoder, resolve_encoder
from stages.runtime.device import choose_device
from stages.runtime.distributed import process_group
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values
from stages.runtime.memory import keep_freed_memory
from stages.runtime.precision import settled_precision
from stages.runtime.process import StageProcess, run_stage
from stages.runtime.seeds import derived_seed, seed_everything
from stages.runtime.training import (
    loop_settings,
    open_checkpoints,
    processes,
    training_bar,
    training_record,
    warn_of_idle_processes,
)
from stages.tracks import clld
from stages.tracks.clld.build import build, clean_tokenizer
from stages.tracks.clld.lookup import TrainedOn
from stages.tracks.clld.pairs import Pairs, chosen_pairs, named_pairs
from stages.tracks.clld.rows import TEXTCNN
from stages.tracks.clld.texts import class_numbers, classes_of, read_labelled_texts
from stages.tracks.clld.trained import TrainedClassifier, model_card, texts_per_class, training_metrics, write_trained

if TYPE_CHECKING:
    from stages.params.clld import ClldModel as ModelBlock

STAGE = "train_clld"
# Where the params say null (METHODS D.4).
OWN = {TEXTCNN: {"learning_rate": 1e-3, "optimiser": "adam", "weight_decay": 0.0},
       "encoder": {"learning_rate": 2e-5, "optimiser": "adamw", "weight_decay": 0.1}}
# A checkpoint goes on only under the code that began it.
_PACKAGES = (clld, models.clld, models.losses, models.training)
_CODE = (Path(__file__), Path(encoders.__file__),
         *(Path(str(module.__file__)) for module in (models.encoders, models.bert, models.precision)),
         *(Path(str(package.__file__)).parent for package in _PACKAGES))


def run(items: pd.DataFrame, values: Mapping[str, Any], contrast: str, pairs: Pairs, encoder: ResolvedEncoder | None,
        seed: int, store: CheckpointStore, device: str = "cpu",
        open_bar: Callable[[int, int], Bar] | None = None) -> TrainedClassifier:
    """Train a classifier on the training texts and keep the epoch of best validation accuracy.

    Of equal accuracies the smaller validation loss is better, then the earlier epoch.

    Args:
        items: from :func:`stages.tracks.clld.texts.labelled_texts`, all splits; the test split is carried along.
        values: plain values of the block ``train_clld`` with the model's overrides, rates and optimiser filled in
            (:func:`with_own_rates`).
        contrast: of ``models.clld.NAME``.
        pairs: indices of confusable classes, for ``static_tau_pairs``.
        encoder: to start from; None for TextCNN.
        seed: fans out by name into weights, order and dropout.
        store: keeps the training's state.
        device: ``cpu`` or ``cuda``.
        open_bar: given steps in all and done, returns a progress bar.

    Raises:
        InputError: the encoder cannot be had as asked for, or an adaptive matrix would never move.
    """
    training, classes = values["training"], classes_of(items)
    train = items[items["split"] == "train"]
    built = build(values, contrast, pairs, classes, encoder, train["text"].tolist(),
                  derived_seed(seed, STAGE, "weights"))
    model = built.model
    nn.Module.to(model, device)
    texts = {split: _tokenised(items, split, built.tokenizer, classes, values["max_length"])
             for split in ("train", "validation")}
    settings = replace(loop_settings(training), select=(Criterion("accuracy", largest=True), Criterion("loss")))
    schedule = _schedule(settings, len(train), values["distance"]) if contrast == "adaptive" else None
    task = _task(model, texts, values, schedule)
    first = _matrix(model)
    history = fit(task, settings, store, partial(derived_seed, seed, STAGE), open_bar)
    return TrainedClassifier(model, clean_tokenizer(built, encoder, values["max_length"]), items, history,
                             _confusion(task, device, training["precision"]), first, task.updates, task.evaluations)


def with_own_rates(values: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """Return ``values`` of the block ``train_clld`` with the encoder's own rate, optimiser and decay for null."""
    own = OWN[TEXTCNN if encoder == TEXTCNN else "encoder"]
    training = {name: own[name] if value is None and name in own else value
                for name, value in values["training"].items()}
    return {**values, "training": training}


def _tokenised(items: pd.DataFrame, split: str, tokenizer: Any, classes: list[str], max_length: int) -> LabelledTexts:
    chosen = items[items["split"] == split]
    return LabelledTexts.of(tokenizer, chosen["text"].tolist(), class_numbers(chosen["label"], classes), max_length)


def _schedule(settings: Settings, n_train: int, distance: Mapping[str, Any]) -> AdaptiveSchedule:
    schedule = AdaptiveSchedule.of(settings, n_train, distance["per_update"], distance["evaluations"],
                                   distance["start"])
    if not schedule.update_steps():
        raise InputError(
            f"train_clld: an adaptive label distance would not move before the training ends, and equal a uniform one: "
            f"{settings.epochs} epochs of {schedule.steps_per_epoch} steps, an evaluation every {schedule.interval} "
            f"steps, an update every {schedule.per_update} evaluations, none before epoch "
            f"{int(round(schedule.start * schedule.epochs, 9)) + 1}. Give more epochs or smaller batches, raise "
            f"distance.evaluations, or lower distance.per_update or distance.start.")
    return schedule


def _task(model: ClldModel, texts: Mapping[str, LabelledTexts], values: Mapping[str, Any],
          schedule: AdaptiveSchedule | None) -> ClldTask:
    training, labels = values["training"], texts["train"].labels
    weights = balanced_weights(labels.tolist(), model.config.n_classes) if training["class_weights"] == "balanced" \
        else None
    frozen = training["freeze_layers"] if model.config.architecture == "encoder" else 0
    return ClldTask(model, texts["train"], texts["validation"], training["learning_rate"], training["micro_batch"],
                    schedule=schedule, sampler=training["sampler"], class_weights=weights,
                    head_rate=training["head_rate"], frozen_layers=frozen,
                    record_all=values["distance"]["record_all"])


def _matrix(model: ClldModel) -> np.ndarray | None:
    found = getattr(model, "ldm", None)
    return found.cpu().double().numpy() if isinstance(found, torch.Tensor) else None


def _confusion(task: ClldTask, device: str, precision: str) -> np.ndarray:
    with torch.no_grad(), products(device, precision):
        return task.judge().confusion.numpy()


def resolved_pairs(name: str, block: "ModelBlock", classes: Sequence[str]) -> Pairs:
    """Return the pairs of classes that model ``name`` sets apart, as indices; none for a row that has none.

    Raises:
        InputError: a class is unknown, or the model that they are taken from confuses nothing.
    """
    if block.pairs is not None:
        return named_pairs(block.pairs, classes, f"models.clld.{name}.pairs")
    if block.pairs_of is not None:
        return chosen_pairs(read_frame(Path(block.pairs_from), "confusing_pairs"), classes, block.pairs_of)
    return []


def resolved_encoder(name: str, source: str, own: bool) -> ResolvedEncoder | None:
    """Return the encoder that model ``name`` starts from; None for TextCNN.

    Args:
        name: of the model.
        source: ``textcnn``, or as ``encoder.source`` has it.
        own: the model itself says so, and not the project; for errors.

    Raises:
        InputError: as of :func:`stages.encoders.resolve_encoder`.
    """
    if source == TEXTCNN:
        return None
    try:
        return resolve_encoder(source)
    except InputError as error:
        place = f"models.clld.{name}.encoder" if own else "encoder.source"
        raise InputError(str(error).replace("encoder.source", place, 1)) from error


def _work(process: StageProcess) -> None:
    params, name = process.params, process.instance
    block, seed = params.models.clld[name], params.model_seed(name)
    paths = DatasetPaths(block.dataset)
    items = read_labelled_texts(paths)
    source, classes = params.clld_encoder(name), classes_of(items)
    values = with_own_rates(params.model(name).plain(), source)
    pairs, encoder = resolved_pairs(name, block, classes), resolved_encoder(name, source, block.encoder is not None)
    seed_everything(derived_seed(seed, STAGE), params.runtime.threads, params.runtime.deterministic,
                    params.runtime.tf32)
    described = {"encoder": {"name": TEXTCNN} if encoder is None else encoder.description}
    key = hash_values({**process.computed_values, "code": hash_files(_CODE), "pairs": pairs, **described,
                       "data": hash_files([paths.table("examples"), paths.table("texts")]), "torch": torch.__version__})
    with process_group(choose_device(params.runtime.device)) as device:
        precision = settled_precision(device, params.runtime, values["training"], f"{STAGE}.training")
        store, count = open_checkpoints(process, key, params.runtime.checkpoint_minutes), place()[1]
        warn_of_idle_processes(process, values["training"], count)
        trained = run(items, values, block.contrast, pairs, encoder, seed, store, device, training_bar(process))
    if not process.first:
        return
    on = TrainedOn(block.dataset, block.contrast, source, values["max_length"], texts_per_class(items, classes))
    metrics = training_metrics(trained, on, values["training"])
    provenance = Provenance(process.name, process.params_hash, described, precision=precision)
    trained.model.config.computed_in = precision
    write_trained(name, trained, model_card(name, trained, on, metrics), on, metrics, provenance)
    process.measured["training"] = training_record(trained.history, precision, device, count)
    if encoder is not None:
        process.measured["encoder_pass"] = encoder_pass(trained.model.encoder)
    store.clear()


def main(argv: list[str] | None = None) -> int:
    """Train the model named in ``argv``."""
    return run_stage(STAGE, _work, argv, instance="MODEL", processes=processes)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
