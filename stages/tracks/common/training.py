"""The frame of every training: what it starts from, seeds, processes, precision, checkpoints, and the model's folder.

    def _work(process):
        train(process, _prepared)

A track prepares a :class:`Training`; everything else is here. A model leaves weights, notes and a card in one folder;
history, tables and metrics lie beside.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pandas as pd
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from keycontrast.files import atomic_file, atomic_folder, hash_values
from models.common.parallel import from_first, gathered, place
from models.common.task import Bar, CheckpointStore, History
from stages.common.device import choose_device, settled_precision
from stages.common.distributed import process_group
from stages.common.paths import ModelPaths
from stages.common.schemas import TableSchema
from stages.common.seeds import derived_seed, seed_everything
from stages.common.settings import NOTHING, Params, code_of, earlier_model, hash_code, hash_files
from stages.common.tables import Provenance, write_json, write_table
from stages.common.training import (
    open_checkpoints,
    save_notes,
    seal,
    selection,
    training_bar,
    training_record,
    warn_of_idle_processes,
    write_history,
)
from stages.run.process import StageProcess
from stages.tracks.common.frame import Finished

OpenBar = Callable[[int, int], Bar]


# What a training starts from


@dataclass(frozen=True)
class GivenStart:
    """A folder that ``keycontrast export FOLDER --model NAME`` has written, relative to the project's."""

    folder: Path

    @property
    def name(self) -> str:
        """As cards and metadata have it."""
        return self.folder.as_posix()


Start = ModelPaths | GivenStart


def start_of(row: Any, params: Params, name: str, seed: int) -> Start | None:
    """Return what entry ``init`` of a model, whose ``row`` it is, means under ``seed``; None: weights are drawn."""
    if (other := earlier_model(row)) is not None:
        return ModelPaths(other, params.earlier_seed(name, seed))
    return None if row.init == NOTHING else GivenStart(Path(row.init))


# What it leaves


@dataclass(frozen=True)
class Table:
    """A table of a model."""

    name: str   # of the file
    rows: pd.DataFrame
    schema: TableSchema


@dataclass(frozen=True)
class ModelFolder:
    """What a trained model leaves beside its weights and its history.

    Attributes:
        card: README of the folder, from :func:`model_card`.
        notes: plain values by file name, which the model needs away from its artifacts.
        tables: what it was trained and is evaluated on, and whatever else is one row after another.
        metrics: content of ``metrics.json`` beside which epoch was kept.
        tokenizer: that cuts texts for the model; None for one that reads words.
        logs: further tables of the training as CSV, by file name.
        remarks: sentences for people, said once it is trained.
        measured: for the stage's record; no artifact.
    """

    card: str
    notes: Mapping[str, Any]
    tables: Sequence[Table]
    metrics: Mapping[str, Any]
    tokenizer: PreTrainedTokenizerBase | None = None
    logs: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)


def write_model(paths: ModelPaths, architecture: str, model: PreTrainedModel, history: History, made: ModelFolder,
                provenance: Provenance) -> None:
    """Write the folder ``artifacts/models/NAME``: weights whole or not at all, and the metrics last."""
    with atomic_folder(paths.weights) as folder:
        nn.Module.to(model, "cpu")
        model.save_pretrained(folder)
        if made.tokenizer is not None:
            made.tokenizer.save_pretrained(folder)
        save_notes(folder, made.notes)
        (folder / "README.md").write_text(made.card, encoding="utf-8")
        seal(folder)
    write_history(paths.history, history.rows)
    for name, rows in made.logs.items():
        with atomic_file(paths.folder / name) as file:
            rows.to_csv(file, index=False, float_format="%.9g", lineterminator="\n")
    for table in made.tables:
        write_table(paths.table(table.name), table.schema, table.rows, provenance)
    write_json(paths.metrics, {**selection(history), "architecture": architecture, **made.metrics})


def model_card(title: str, task: str, intro: str, facts: Sequence[str], use: str, more: str = "") -> str:
    """Return the README of a saved model.

    ``task`` is what the hub calls ``pipeline_tag``; ``facts`` are a line each; ``more`` has a heading of its own.
    """
    listed = "\n".join(f"- {fact}" for fact in facts)
    parts = [f"# {title}", intro, listed, *([more] if more else []), f"Use it with {use}."]
    return f"---\nlibrary_name: transformers\npipeline_tag: {task}\n---\n" + "\n\n".join(parts) + "\n"


def best_values(history: History) -> str:
    """Return the validation values of the epoch that was kept, for people."""
    return ", ".join(f"{key} {value:.4f}" for key, value in history.best.items())


# A training


class Trained(Protocol):
    """What a training makes: the model with the weights of the best epoch, and what happened."""

    @property
    def model(self) -> PreTrainedModel:
        """With the weights of the best epoch."""

    @property
    def history(self) -> History:
        """Of the training."""


Made = TypeVar("Made", bound=Trained)


@dataclass(frozen=True)
class Training(Generic[Made]):
    """One training of a model, ready to begin.

    Attributes:
        architecture: its name.
        settings: plain values of the model's block ``training``.
        tables: files that it reads; with code and params they decide the weights.
        fit: trains, given where its state is kept, the device, and what opens a bar from steps in all and done.
        folder: says what the trained model leaves behind.
        models: name of each model that it is made with, and its description.
        further: whatever else decides the weights, plain.
    """

    architecture: str
    settings: Mapping[str, Any]
    tables: Sequence[Path]
    fit: Callable[[CheckpointStore, str, OpenBar | None], Made]
    folder: Callable[[Made], ModelFolder]
    models: dict[str, Any] = field(default_factory=dict)
    further: Mapping[str, Any] = field(default_factory=dict)


# Given a seed, returns the training of a row under it.
Prepared = Callable[[int], Training[Made]]


def train(process: StageProcess, prepared: Callable[[Params, str], Prepared[Made]]) -> None:
    """Train the model that ``process`` is an instance of with each of its seeds, and write a folder for each.

    Args:
        process: of the stage.
        prepared: given params and the model's name, reads what all its seeds are trained on, and returns what
            prepares the training of one.

    Raises:
        InputError: as of ``prepared`` and of the training; a device or precision that is not to be had; the
            processes that share the training differ in params, files, code or torch.
    """
    params, name = process.params, process.instance
    seeds = params.model_seeds(name)
    _settle(process, seeds[0])
    with process_group(choose_device(params.runtime.device)) as device:
        of_seed = prepared(params, name)
        for seed in seeds:
            _settle(process, seed)
            _train(process.under(seed), seed, of_seed(seed), device)


def _settle(process: StageProcess, seed: int) -> None:
    """Set what decides the bytes of a training, whatever this process has done before."""
    runtime = process.params.runtime
    seed_everything(derived_seed(seed, process.stage), runtime.threads, runtime.deterministic, runtime.tf32)


def _train(process: StageProcess, seed: int, training: Training[Made], device: str) -> None:
    """Train the model under one seed, which ``process`` is at work on."""
    runtime = process.params.runtime
    code, further = code_of(process.stage), {"models": training.models, **training.further}
    key = hash_values({**process.declared_values, "data": hash_files(training.tables), "code": hash_code(code),
                       "torch": torch.__version__, **further})
    if len(set(gathered(f"{process.name}, {key}"))) > 1:
        raise InputError(f"the processes that train {process.name} differ in params, data, code or torch. On every "
                         f"machine, check out the same commit and `dvc pull` what the stage reads.")
    finished = Finished(process, key, [ModelPaths(process.instance, seed).folder])
    if from_first(finished.restore):
        return
    precision = settled_precision(device, runtime, training.settings, f"{process.stage}.training")
    store, count = open_checkpoints(process, key, runtime.checkpoint_minutes), place()[1]
    warn_of_idle_processes(process, training.settings, count)
    trained = training.fit(store, device, training_bar(process))
    if not process.first:
        return
    trained.model.config.computed_in = precision
    made = training.folder(trained)
    if not trained.history.settled:
        process.log.warning("%s: no epoch ended after its schedules (annealing, pretraining) had settled, so the last "
                            "one is kept; raise %s.training.epochs or shorten the schedule", process.name,
                            process.stage)
    for remark in made.remarks:
        process.log.warning("%s: %s", process.name, remark)
    write_model(ModelPaths(process.instance, seed), training.architecture, trained.model, trained.history,
                made, Provenance(process.name, process.params_hash, training.models, precision=precision))
    process.measured["training"] = training_record(trained.history, precision, device, count)
    process.measured.update(made.measured)
    finished.keep()
    store.clear()
