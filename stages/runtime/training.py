"""What training stages share that take turns at a device: settings of the loop, checkpoints, progress, record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import torch

from models.training import Bar, History, Settings, measured_peak
from models.training.parallel import gathered
from stages.runtime.checkpoints import FolderCheckpoints
from stages.runtime.code import GROUND, code_of
from stages.runtime.device import choose_device
from stages.runtime.distributed import Processes, check_devices
from stages.runtime.entries import module_of
from stages.runtime.errors import InputError
from stages.runtime.fingerprint import hash_files, hash_values
from stages.runtime.precision import settled_precision
from stages.runtime.process import StageProcess
from stages.runtime.progress import progress_bar
from stages.runtime.seeds import derived_seed, seed_everything
from stages.runtime.settings import on_this_machine, read_params

Fitted = TypeVar("Fitted")


def loop_settings(training: Mapping[str, Any]) -> Settings:
    """Return what a block ``training`` says of the loop; its rates, and whatever else it holds, are the task's."""
    names = [field.name for field in fields(Settings) if field.name in training]
    return Settings(**{name: training[name] for name in names})


def open_checkpoints(process: StageProcess, key: str, minutes: float) -> FolderCheckpoints:
    """Open the store in the first process, which removes what others left in it, and then in the rest.

    Args:
        process: of this stage.
        key: hash of params, data and code; a checkpoint goes on only under the key that it was written with.
        minutes: from one checkpoint to the next.

    Raises:
        InputError: the processes, which may be on several machines, do not have the same key.
    """
    if not process.first:
        _agree(process.name, key)
    store = FolderCheckpoints(process.scratch, key, 60 * minutes)
    if process.first:
        _agree(process.name, key)
    return store


def _agree(name: str, key: str) -> None:
    """Make sure that all processes train the same model on the same data with the same code."""
    found = gathered(f"{name}, {key}")
    other = next((number for number, one in enumerate(found) if one != found[0]), None)
    if other is not None:
        raise InputError(f"process {other} is to train {found[other]}, and process 0 {found[0]}: the params, "
                         f"artifacts, code or torch of their machines differ. Make the folders of all machines equal, "
                         f"but for runtime.rendezvous.node, and start the same stage on each.")


def fit_of_data_set(process: StageProcess, values: Mapping[str, Any], tables: Sequence[Path],
                    fit: Callable[[FolderCheckpoints, str, Callable[[int, int], Bar] | None], Fitted],
                    **further: Any) -> tuple[Fitted, dict[str, Any], FolderCheckpoints]:
    """Train what a stage trains once per data set, in this process alone; a killed training goes on where it stopped.

    Args:
        process: of the stage.
        values: plain values of its block.
        tables: files that it reads; with code and params they decide the weights.
        fit: builds and trains, given where the state is kept, the device, and what opens a bar.
        further: whatever else decides the weights, plain.

    Returns:
        What ``fit`` returned, what it was computed in, and the store, to be cleared once all outs stand.
    """
    runtime = process.params.runtime
    seed_everything(derived_seed(process.params.seed, process.stage, "weights"), runtime.threads,
                    runtime.deterministic, runtime.tf32)
    code = code_of([module_of(process.stage)], GROUND)
    key = hash_values({"params": process.params_hash, "data": hash_files(tables), "code": hash_files(code),
                       "torch": torch.__version__, **further})
    store = FolderCheckpoints(process.scratch, key, 60 * runtime.checkpoint_minutes)
    device = choose_device(runtime.device)
    precision = settled_precision(device, runtime, values, process.stage)
    return fit(store, device, training_bar(process)), precision, store


def warn_of_idle_processes(process: StageProcess, training: Mapping[str, Any], count: int) -> None:
    """Say so if ``count`` processes are more than the micro-batches of a step that they share."""
    shares = -(-training["batch_size"] // training["micro_batch"])
    if process.first and count > shares:
        process.log.warning("%s: %d processes share the %d micro-batches of a step, so some have nothing to do. Lower "
                            "%s.training.micro_batch.", process.name, count, shares, process.stage)


def training_bar(process: StageProcess) -> Callable[[int, int], Bar] | None:
    """Return what opens the progress bar, given steps in all and done; None but in the first process."""
    return (lambda total, done: progress_bar(process.name, total, "step", done)) if process.first else None


def training_record(history: History, precision: Mapping[str, Any], device: str, processes: int) -> dict[str, Any]:
    """Return throughput, memory and MFU for the record of the stage; none of them enters an artifact.

    Args:
        history: of the training.
        precision: from :func:`stages.runtime.precision.computed_in`.
        device: of the training.
        processes: that shared it.
    """
    found = {**history.speed.summary(processes * measured_peak(device, precision["products"])),
             "processes": processes, "precision": dict(precision)}
    if device.startswith("cuda"):
        found["peak_device_memory_mib"] = round(torch.cuda.max_memory_allocated(device) / 2**20)
    return found


def selection(history: History) -> dict[str, Any]:
    """Return which epoch was kept, and its validation values, for ``metrics.json``."""
    return {"best_epoch": history.best_epoch, "epochs": len(history.rows), "stopped_early": history.stopped_early,
            "validation": history.best}


def processes() -> Processes:
    """Return the processes that are to share a training, as ``runtime`` of ``params.yaml`` has them.

    Raises:
        InputError: they are to compute on GPUs, and this machine shows fewer of them.
    """
    runtime = on_this_machine(read_params()).runtime
    if runtime.processes > 1 and choose_device(runtime.device) == "cuda":
        check_devices(runtime.processes, torch.cuda.device_count())
    meeting = runtime.rendezvous
    return Processes(runtime.processes) if meeting is None else Processes(
        runtime.processes, meeting.nodes, meeting.node, meeting.endpoint)
