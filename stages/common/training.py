"""Code shared by stages that train: loop settings, checkpoints, progress, record, and the model's folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
import torch

from keycontrast.errors import InputError
from keycontrast.files import atomic_file, hash_values, sha256_of
from models.common.processes import gathered
from models.common.training import Bar, History, Settings
from stages.common.device import checked_precision, choose_device
from stages.common.distributed import check_devices
from stages.common.seeds import derived_seed, seed_everything
from stages.common.settings import code_of, hash_code, hash_files, read_params
from stages.run.checkpoints import FolderCheckpoints
from stages.run.log import TrainingBar
from stages.run.process import StageProcess

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Note = TypeVar("Note")
Fitted = TypeVar("Fitted")
# The origin of a model, as far as its use depends on it.
TRAINED_ON_FILE = "trained_on.json"
DIGESTS_FILE = "digests.json"


def save_notes(folder: Path, notes: Mapping[str, Any]) -> None:
    """Write ``notes``, plain values by file name, into a model's folder as JSON."""
    for name, content in notes.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n",
                                   encoding="utf-8")


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer without the truncation and padding of its last use, and without ``local_files_only``."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.init_kwargs.pop("local_files_only", None)
    tokenizer.save_pretrained(folder)


def seal(folder: Path) -> None:
    """Write the SHA-256 of every file of a finished model's folder into it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS_FILE)
    save_notes(folder, {DIGESTS_FILE: {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}})


def check_seal(folder: Path) -> None:
    """Raise :class:`InputError` if a model's file differs from its digest; a folder without digests passes."""
    digests = _json_of(folder / DIGESTS_FILE) if (folder / DIGESTS_FILE).exists() else {}
    for name, digest in digests.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise InputError(f"{folder / name}: has changed since the model was trained. Restore it with `dvc checkout "
                             f"--force {folder}` after `keycontrast verify`, which checks DVC's cache; or train the "
                             f"model again.")


def _json_of(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: damaged ({error}). Train the model again with `keycontrast run`.") from error


def load_origin(folder: Path, kind: type[Note], names: Sequence[str], track: str,
                config: type["PretrainedConfig"] | None = None) -> tuple[list[Any], Note]:
    """Return the notes of a trained model, by their file ``names``, and its origin, a dataclass ``kind``."""
    files = (*names, TRAINED_ON_FILE)
    missing = [name for name in (*files, "config.json") if not (folder / name).exists()]
    if missing:
        raise InputError(f"{folder}: no trained {track} model ({missing[0]} is missing). Train it with "
                         f"`keycontrast run`.")
    check_seal(folder)
    *notes, values = (_json_of(folder / name) for name in files)
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if set(values) != known:
        raise InputError(f"{folder / TRAINED_ON_FILE}: of another version of Keycontrast, which differs in "
                         f"{', '.join(sorted(set(values) ^ known))}. Train the model again.")
    try:
        if config is not None:
            config.from_pretrained(folder)
    except ValueError as error:
        raise InputError(f"{folder / 'config.json'}: {error}. Train the model again.") from error
    return notes, kind(**values)


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a training's history, one row per epoch, as CSV."""
    with atomic_file(path) as file:
        pd.DataFrame(rows).to_csv(file, index=False, float_format="%.9g", lineterminator="\n")


def loop_settings(training: Mapping[str, Any]) -> Settings:
    """Return the settings of the loop in a block ``training``; its other values are the task's."""
    names = [field.name for field in fields(Settings) if field.name in training]
    return Settings(**{name: training[name] for name in names})


def open_checkpoints(process: StageProcess, key: str, minutes: float) -> FolderCheckpoints:
    """Open the store of checkpoints in the first process, which removes those of other keys, and then in the rest."""
    if not process.first:
        gathered(None)
    store = FolderCheckpoints(process.scratch, key, 60 * minutes)
    if process.first:
        gathered(None)
    return store


def fit_of_data_set(process: StageProcess, values: Mapping[str, Any], tables: Sequence[Path],
                    fit: Callable[[FolderCheckpoints, str, Callable[[int, int], Bar] | None], Fitted],
                    **further: Any) -> tuple[Fitted, dict[str, Any], FolderCheckpoints]:
    """Train the model of a data set in this process; a killed training continues where it stopped.

    ``fit`` trains it, given the checkpoints, the device, and the function that opens a bar; the files ``tables`` and
    the plain values ``further`` decide the weights. Returns the result of ``fit``, the precision, and the checkpoints,
    to be cleared once all outputs are written.
    """
    runtime = process.params.runtime
    seed_everything(derived_seed(process.params.seed, process.stage, "weights"), runtime.threads,
                    runtime.deterministic, runtime.tf32)
    key = hash_values({"params": process.params_hash, "data": hash_files(tables),
                       "code": hash_code(code_of(process.stage)), "torch": torch.__version__, **further})
    store = FolderCheckpoints(process.scratch, key, 60 * runtime.checkpoint_minutes)
    device = choose_device(runtime.device)
    precision = checked_precision(device, runtime, values, process.stage)
    return fit(store, device, training_bar(process)), precision, store


def warn_of_idle_processes(process: StageProcess, training: Mapping[str, Any], count: int) -> None:
    """Log a warning if there are more processes than micro-batches of a step."""
    shares = -(-training["batch_size"] // training["micro_batch"])
    if process.first and count > shares:
        process.log.warning("%s: %d processes share the %d micro-batches of a step, so some have nothing to do. Lower "
                            "%s.training.micro_batch.", process.name, count, shares, process.stage)


def training_bar(process: StageProcess) -> Callable[[int, int], Bar] | None:
    """Return the function that opens the progress bar, given total and finished steps; only in the first process."""
    return (lambda total, done: TrainingBar(process.name, total, done, process.scratch)) if process.first else None


def training_record(history: History, precision: Mapping[str, Any], device: str, processes: int) -> dict[str, Any]:
    """Return speed and memory of a training for the record of the stage, which is no artifact."""
    record = {**history.speed.summary(), "processes": processes, "precision": dict(precision)}
    if device.startswith("cuda"):
        record["peak_device_memory_mib"] = round(torch.cuda.max_memory_allocated(device) / 2**20)
    return record


def selection(history: History) -> dict[str, Any]:
    """Return the best epoch and its validation values, for ``metrics.json``."""
    return {"best_epoch": history.best_epoch, "epochs": len(history.rows), "stopped_early": history.stopped_early,
            "validation": history.best}


def processes() -> int:
    """Return ``runtime.processes``; each needs a GPU unless they compute on the CPU."""
    runtime = read_params().runtime
    if runtime.processes > 1 and choose_device(runtime.device) == "cuda":
        check_devices(runtime.processes, torch.cuda.device_count())
    return int(runtime.processes)
