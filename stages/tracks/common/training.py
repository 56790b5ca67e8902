"""The frame of every training: params, seed, fingerprint, processes, precision and checkpoints around a model's own.

    def _work(process):
        train(process, _prepared)

A track prepares a :class:`Training`; everything else is here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from transformers import PreTrainedModel

from keycontrast.errors import InputError
from keycontrast.files import hash_values
from models.common.parallel import from_first, gathered, place
from models.common.task import Bar, CheckpointStore, History
from stages.common.device import choose_device, settled_precision
from stages.common.distributed import process_group
from stages.common.paths import ModelPaths
from stages.common.seeds import derived_seed, seed_everything
from stages.common.settings import Params, code_of, hash_code, hash_files
from stages.common.tables import Provenance
from stages.common.training import (
    open_checkpoints,
    training_bar,
    training_record,
    warn_of_idle_processes,
)
from stages.run.process import StageProcess
from stages.tracks.common.frame import Finished
from stages.tracks.common.training import ModelFolder, write_model

OpenBar = Callable[[int, int], Bar]


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
    for remark in made.remarks:
        process.log.warning("%s: %s", process.name, remark)
    write_model(ModelPaths(process.instance, seed), training.architecture, trained.model, trained.history,
                made, Provenance(process.name, process.params_hash, training.models, precision=precision))
    process.measured["training"] = training_record(trained.history, precision, device, count)
    process.measured.update(made.measured)
    finished.keep()
    store.clear()

