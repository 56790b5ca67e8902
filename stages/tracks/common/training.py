"""The common part of every training: start, seeds, processes, precision, checkpoints, and the model's folder.

:func:`train` calls the track's ``train_model`` with a job for each seed, which calls ``job.begin`` and ``job.save``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from keycontrast.errors import InputError
from keycontrast.files import atomic_folder, hash_values, sha256_of
from models.common.processes import from_first, gathered, place
from models.common.training import Bar, History
from stages.common import training as shared
from stages.common.device import checked_precision, choose_device
from stages.common.distributed import process_group
from stages.common.paths import ModelPaths
from stages.common.seeds import derived_seed, seed_everything
from stages.common.settings import NOTHING, Params, code_of, earlier_model, hash_code, hash_files
from stages.common.tables import Provenance, parts_of, write_json, write_table
from stages.run.process import StageProcess
from stages.tracks.common.frame import Finished
from stages.tracks.common.schemas import Table

REMEDY = "Bring the folder back, or change init."
OpenBar = Callable[[int, int], Bar]


@dataclass(frozen=True)
class Start:
    """The weights that a model begins with: of another model, or ``given`` by ``keycontrast export``."""

    name: str       # in cards and metadata
    folder: Path
    given: bool

    def described(self, file: str = "model.safetensors") -> dict[str, Any]:
        """Return the metadata of the start, by its ``file`` of weights; an InputError if that is missing."""
        weights = self.folder / file
        if not weights.is_file():
            raise InputError(f"init is {self.name}, and {weights} is not there. {REMEDY}")
        return {"init_from": {"name": self.name, "sha256": sha256_of(weights)}}


def start_of(row: Any, params: Params, name: str, seed: int) -> Start | None:
    """Return the start that entry ``init`` of a model's ``row`` names; None if weights are drawn."""
    if (other := earlier_model(row)) is not None:
        return Start(other, ModelPaths(other, params.earlier_seed(name, seed)).weights, given=False)
    return None if row.init == NOTHING else Start(Path(row.init).as_posix(), Path(row.init), given=True)


@dataclass(frozen=True)
class ModelFolder:
    """The files of a trained model besides weights and history."""

    card: str                       # README of the folder, from :func:`model_card`
    notes: Mapping[str, Any]        # plain values by file name, needed to use the model without its artifacts
    tables: Sequence[Table]         # the items of training and evaluation, and further tables
    metrics: Mapping[str, Any]      # content of ``metrics.json`` besides the selected epoch
    tokenizer: PreTrainedTokenizerBase | None = None    # None for a model that reads words
    warnings: Sequence[str] = ()    # logged once the model is trained


def model_card(title: str, task: str, intro: str, facts: Sequence[str], use: str, more: str = "") -> str:
    """Return the README of a saved model; ``task`` is the hub's ``pipeline_tag``, ``facts`` are a line each."""
    listed = "\n".join(f"- {fact}" for fact in facts)
    parts = [f"# {title}", intro, listed, *([more] if more else []), f"Use it with {use}."]
    return f"---\nlibrary_name: transformers\npipeline_tag: {task}\n---\n" + "\n\n".join(parts) + "\n"


def best_values(history: History) -> str:
    """Return the validation values of the best epoch as text."""
    return ", ".join(f"{key} {value:.4f}" for key, value in history.best.items())


class SeedTraining:
    """The training of a model under one ``seed``; a track calls ``begin``, trains, and calls ``save``."""

    def __init__(self, process: StageProcess, seed: int, device: str) -> None:
        self.process, self.params, self.name = process, process.params, process.instance
        self.seed, self.device, self.open_bar = seed, device, shared.training_bar(process)

    def begin(self, settings: Mapping[str, Any], tables: Sequence[Path], models: Mapping[str, Any],
              **further: Any) -> bool:
        """Return whether there is something to train; else the finished model is restored.

        ``tables``, descriptions of ``models`` and ``further`` values decide the weights, with code and params.
        """
        process, runtime = self.process, self.params.runtime
        for table in tables:
            parts_of(table)  # a missing one is named
        key = hash_values({**process.declared_values, "data": hash_files(tables),
                           "code": hash_code(code_of(process.stage)), "torch": torch.__version__, "models": models,
                           **further})
        if len(set(gathered(f"{process.name}, {key}"))) > 1:
            raise InputError(f"the processes that train {process.name} differ in params, data, code or torch. On every "
                             f"machine, check out the same commit and `dvc pull` what the stage reads.")
        self._finished = Finished(process, key, [ModelPaths(self.name, self.seed).folder])
        if from_first(self._finished.restore):
            return False
        self._models = models
        self._precision = checked_precision(self.device, runtime, settings, f"{process.stage}.training")
        self.store, self._processes = shared.open_checkpoints(process, key, runtime.checkpoint_minutes), place()[1]
        shared.warn_of_idle_processes(process, settings, self._processes)
        return True

    def save(self, architecture: str, model: PreTrainedModel, history: History, contents: ModelFolder) -> None:
        """Write the model's folder, weights atomically, metrics last; only the first process writes."""
        process, paths = self.process, ModelPaths(self.name, self.seed)
        if not process.first:
            return
        model.config.computed_in = self._precision
        if not history.final:
            process.log.warning("%s: no epoch ended after its schedules (annealing, pretraining) had ended, so the "
                                "last one is kept; raise %s.training.epochs or shorten the schedule", process.name,
                                process.stage)
        for warning in contents.warnings:
            process.log.warning("%s: %s", process.name, warning)
        with atomic_folder(paths.weights) as folder:
            nn.Module.to(model, "cpu")
            model.save_pretrained(folder)
            if contents.tokenizer is not None:
                shared.save_tokenizer(contents.tokenizer, folder)
            shared.save_notes(folder, contents.notes)
            (folder / "README.md").write_text(contents.card, encoding="utf-8")
            shared.seal(folder)
        shared.write_history(paths.history, history.rows)
        provenance = Provenance(process.name, process.params_hash, dict(self._models), precision=self._precision)
        for table in contents.tables:
            write_table(paths.table(table.name), table.schema, table.rows, provenance)
        write_json(paths.metrics, {**shared.selection(history), "architecture": architecture, **contents.metrics})
        process.measured["training"] = shared.training_record(history, self._precision, self.device, self._processes)
        self._finished.keep()
        self.store.clear()


def train(process: StageProcess, train_model: Callable[[SeedTraining], None]) -> None:
    """Train the model that ``process`` names with each of its seeds, and write a folder for each."""
    runtime = process.params.runtime
    with process_group(choose_device(runtime.device)) as device:
        for seed in process.params.model_seeds(process.instance):
            seed_everything(derived_seed(seed, process.stage), runtime.threads, runtime.deterministic, runtime.tf32)
            train_model(SeedTraining(process.under(seed), seed, device))
