"""What is measured. Each part runs in a process of its own and returns plain figures.

A part that finds two answers apart which should be one returns its figures with ``problem``, a sentence.
"""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.agreement import (
    LOOSE,
    TOLERANCE,
    Figures,
    agreement,
    autocast,
    begin,
    forget_peak,
    memory,
    synchronise,
)
from benchmarks.gpu.sizes import Job
from benchmarks.gpu.subjects import Subject
from benchmarks.gpu.texts import SEED
from benchmarks.harness import compare
from benchmarks.trainings import Clock, Nowhere, Ran, by_trainer, looped, silent
from models.common.training import fit, measured_peak
from models.common.training.batches import moved
from models.common.training.state import trained_tensors
from stages.common.distributed import is_first, process_group, start_processes
from stages.common.seeds import derived_seed
from stages.common.training import loop_settings
from stages.run.checkpoints import FolderCheckpoints

_EPOCHS, _LEAST = 2, 4  # epochs of a training, and its fewest steps
_PROFILED, _COMPARED_STEPS = 3, 3
# Training


def training(job: Job) -> Figures:
    """Train as a stage does; ``job.more`` may hold ``store``, to keep checkpoints, and ``kill_at``, a step.

    At that step the process ends itself by SIGKILL, so that it has no time for anything more.
    """
    subject = begin(job)
    steps = job.steps or _affordable(subject, job)
    size, micro = job.batch
    task = subject.task(size * steps // _EPOCHS, job.device)
    mark = max(1, round(0.6 * steps))  # of the one checkpoint within an epoch
    store: Any = _Timed(FolderCheckpoints(Path(job.folder), "gpu"), mark) if job.more.get("store") else Nowhere()
    bar = _Bar(job, steps)
    settings = loop_settings({**subject.training(), "epochs": _EPOCHS, "batch_size": size, "micro_batch": micro,
                              "precision": job.precision})
    forget_peak(job.device)
    started = time.perf_counter()
    history = fit(task, settings, store, partial(derived_seed, SEED, "gpu"), bar.opened)
    peak = measured_peak(job.device, job.precision)
    return {"steps": steps, "batch": size, "micro-batch": micro, **history.speed.summary(peak),
            "tokens per item": history.speed.tokens / history.speed.items,
            "losses": [row["train_loss"] for row in history.rows], "validation": history.best["loss"],
            "seconds in all": time.perf_counter() - started, "digest": digest(task.module, history.rows),
            "resumed at": bar.done, **memory(job.device), **getattr(store, "figures", dict)()}


def _affordable(subject: Subject, job: Job) -> int:
    """Return an even number of steps that takes about ``job.seconds``, after a few to find out."""
    size, micro = job.batch
    task, clock = subject.task(4 * size, job.device), Clock()
    settings = loop_settings({**subject.training(), "epochs": 1, "batch_size": size, "micro_batch": micro,
                              "precision": job.precision})
    fit(task, settings, Nowhere(), partial(derived_seed, SEED, "gpu"), lambda total, done: clock)
    each = median(clock.spent(skip=2)[0])
    return 2 * min(job.size.steps // 2, max(_LEAST // 2, int(job.seconds / each / 2)))


class _Bar:
    """Says where the training is, and kills its process at a step if it is to."""

    def __init__(self, job: Job, steps: int) -> None:
        self.kill_at, self.steps, self.done, self.count = job.more.get("kill_at"), steps, 0, 0
        self.said = time.monotonic()

    def opened(self, total: int, done: int) -> "_Bar":
        self.done = self.count = done
        return self

    def update(self, n: int = 1) -> None:
        self.count += n
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if time.monotonic() - self.said > 10:
            self.said = time.monotonic()
            sys.stderr.write(f"  step {self.count} of {self.steps}\n")

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


class _Timed:
    """A checkpoint store that counts what it takes; between epochs' ends it is due once, at about step ``mark``."""

    def __init__(self, store: Any, mark: int) -> None:
        self.store, self.mark, self.asked = store, mark, 0
        self.seconds: list[float] = []
        self.size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def due(self) -> bool:
        self.asked += 1  # not at the end of an epoch, of which there is one before
        return self.asked == self.mark - 1

    def save(self, *given: Any) -> None:
        started = time.perf_counter()
        self.store.save(*given)
        self.seconds.append(time.perf_counter() - started)
        tensors = [one for part in given if isinstance(part, Mapping) for one in part.values()
                   if isinstance(one, Tensor)]
        self.size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def figures(self) -> Figures:
        return {"checkpoints": len(self.seconds), "checkpoint MiB": self.size / 2**20,
                "seconds per checkpoint": median(self.seconds) if self.seconds else 0.0}


def digest(module: torch.nn.Module, rows: Any) -> str:
    """Return a digest of all trained tensors and of the history of epochs, to the bit."""
    found = hashlib.sha256()
    for name, tensor in sorted(trained_tensors(module).items()):
        found.update(name.encode() + tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    found.update(repr([sorted(row.items()) for row in rows]).encode())
    return found.hexdigest()


# Decoding


def decoding(job: Job) -> Figures:
    """Time outputs of a batch, ours and the library's."""
    subject, count = begin(job), job.size.decoded
    batch, model = moved(subject.inputs(count), torch.device(job.device)), subject.model(dropout=False).eval()
    model.to(job.device)
    theirs = subject.theirs(model, batch)

    def timed(work: Callable[[], Tensor]) -> Tensor:
        with autocast(job.device, job.precision):
            found = work()
        synchronise(job.device)
        return found

    ours = partial(subject.outputs, model, batch, 4)
    forget_peak(job.device)
    shown, other = timed(ours), timed(theirs)
    rows = compare({"ours": lambda: timed(ours), subject.peer: lambda: timed(theirs)}, repeats=3, items=count)
    tokens = {} if shown.is_floating_point() else {"tokens of an output": float((shown != 0).sum(-1).float().mean())}
    same = {"equal outputs": _same(shown, other)} if subject.same_function else {}
    return {"items": count, **tokens, **same, "seconds": {row.name: row.median for row in rows},
            "items per second": {row.name: row.rate for row in rows},
            "times as long": rows[1].ratio, **memory(job.device)}


def _same(mine: Tensor, other: Tensor) -> int:
    """Return how many rows of outputs or classes are equal."""
    if mine.is_floating_point():
        return int((mine.argmax(-1) == other.argmax(-1)).sum())
    longest = max(mine.shape[1], other.shape[1])
    mine, other = (torch.nn.functional.pad(part, (0, longest - part.shape[1])) for part in (mine, other))
    return int((mine == other).all(-1).sum())


# Beside a Trainer


def trainer(job: Job) -> Figures:
    """Time a step of our loop and of a Trainer: same module, batches, order, optimiser, one micro-batch a step."""
    subject, size = begin(job), job.batch[1]
    mine, other = (train(subject, job, _COMPARED_STEPS, False).losses for train in (_ours, _theirs))
    apart = max(abs(one - two) / abs(two) for one, two in zip(mine, other, strict=True))
    steps = max(4, min(30, round(job.seconds / 4 / (job.more.get("seconds per step") or 1.0))))
    seconds = {name: median(train(subject, job, steps, True).seconds)
               for name, train in (("ours", _ours), ("transformers.Trainer", _theirs))}
    found = {"batch": size, "steps": steps, "losses apart": apart, "seconds": seconds,
             "times as long": seconds["transformers.Trainer"] / seconds["ours"]}
    limit = TOLERANCE if job.precision == "fp32" else LOOSE
    return found if apart <= limit else {**found, "problem": f"losses without dropout differ by {apart:.2g}"}


def _ours(subject: Subject, job: Job, steps: int, dropout: bool) -> Ran:
    task = subject.task(job.batch[1] * steps, job.device, dropout)
    return looped(task, loop_settings({"epochs": 1, "batch_size": job.batch[1], "precision": job.precision,
                                       "schedule": "constant"}), min(2, steps - 1))


def _theirs(subject: Subject, job: Job, steps: int, dropout: bool) -> Ran:
    task = subject.task(job.batch[1] * steps, job.device, dropout)
    return by_trainer(task, job.batch[1], job.precision == "bf16", min(2, steps - 1), on_cpu=job.device == "cpu")


# Profile


def profile(job: Job) -> Figures:
    """Count kernels, waits and copies of a training step, and the share of its time in which the device works."""
    subject, (size, micro) = begin(job), job.batch
    task = silent(subject.task(_PROFILED * size, job.device))
    settings = loop_settings({**subject.training(), "epochs": 1, "batch_size": size, "micro_batch": micro,
                              "precision": job.precision})
    run = partial(fit, task, settings, Nowhere(), partial(derived_seed, SEED))
    run()
    synchronise(job.device)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if job.device == "cuda" else []
    started = time.perf_counter()
    with torch.profiler.profile(activities=kinds, acc_events=True) as seen:
        run()
        synchronise(job.device)
    return {"micro-batches": -(-size // micro), **counted(seen.events(), _PROFILED),
            "seconds per step, profiled": (time.perf_counter() - started) / _PROFILED}


def counted(events: Any, steps: int) -> Figures:
    """Return what the profiler's events say of one step of several."""
    kernels = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA
               and not event.name.startswith(("Optimizer.", "ProfilerStep"))]  # spans that are no kernels
    names = [event.name for event in events if event.device_type != torch.autograd.DeviceType.CUDA]
    copies = [event for event in kernels if "Memcpy" in event.name or "Memset" in event.name]
    busy = sum(event.time_range.elapsed_us() for event in kernels) / 1e6
    found = {"operations": sum(name.startswith("aten::") for name in names)}
    if kernels:
        span = max(event.time_range.end for event in kernels) - min(event.time_range.start for event in kernels)
        found |= {"kernels": len(kernels) - len(copies),
                  "copies to the host": sum("DtoH" in event.name for event in copies),
                  "waits": sum(name in ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
                               for name in names)}
    per_step: Figures = {name: value / steps for name, value in found.items()}
    return per_step | ({"share of the time in kernels": busy * 1e6 / span} if kernels else {})


# Several processes


def processes(job: Job) -> Figures:
    """Train in two processes that share each step's micro-batches, and in one; compare losses and weights."""
    begin(job)
    steps = job.steps or _LEAST
    found = {}
    for count in (1, 2):
        file = Path(job.folder).with_suffix(f".{count}.json")
        given = json.dumps({**asdict(job), "steps": steps, "folder": str(file)})
        started = time.perf_counter()
        status = start_processes(["-m", "benchmarks.gpu.shared", given], count)
        if status:
            raise RuntimeError(f"{count} processes ended with status {status}")
        found[count] = {**json.loads(file.read_text(encoding="utf-8")), "in all": time.perf_counter() - started}
    loss = max(abs(one - two) / abs(one) for one, two in zip(found[1]["losses"], found[2]["losses"], strict=True))
    figures = {"steps": steps, "processes": 2, "losses apart": loss,
               "seconds per step": {f"{count} process(es)": one["seconds per step"] for count, one in found.items()},
               "times as fast": found[1]["seconds per step"] / found[2]["seconds per step"]}
    return figures if loss <= TOLERANCE else {**figures, "problem": f"losses differ by {loss:.2g}"}


def train_shared(job: Job) -> None:
    """Train as one of the processes of :func:`processes`; the first writes losses and time to ``job.folder``."""
    subject, (size, micro) = begin(job), job.batch
    with process_group(job.device) as device:
        task = silent(subject.task(size * (job.steps or _LEAST), device))
        settings = loop_settings({**subject.training(), "epochs": 1, "batch_size": size, "precision": job.precision,
                                  "micro_batch": min(micro, size // 2)})
        history = fit(task, settings, Nowhere(), partial(derived_seed, SEED, "gpu"))
        if is_first():
            found = {"losses": [row["train_loss"] for row in history.rows],
                     "seconds per step": history.speed.summary()["seconds_per_step_median"]}
            Path(job.folder).write_text(json.dumps(found), encoding="utf-8")


WORK: dict[str, Callable[[Job], Figures]] = {
    "agreement": agreement, "training": training, "decoding": decoding, "trainer": trainer, "profile": profile,
    "processes": processes}
