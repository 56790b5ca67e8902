"""What is measured. Each part runs in a process of its own and returns plain figures.

A part that finds two answers apart which should be one returns its figures with ``problem``, a sentence.
"""

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.agreement import Figures, agreement, begin
from benchmarks.gpu.sizes import Job
from benchmarks.gpu.subjects import Subject
from benchmarks.gpu.texts import SEED
from benchmarks.trainings import Clock, Nowhere
from models.common.training import fit
from models.common.training.state import trained_tensors
from stages.common.seeds import derived_seed
from stages.common.training import loop_settings
from stages.run.checkpoints import FolderCheckpoints

_EPOCHS, _LEAST = 2, 4  # epochs of a training, and its fewest steps
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
    if job.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    history = fit(task, settings, store, partial(derived_seed, SEED, "gpu"), bar.opened)
    memory = {"peak MiB of the device": torch.cuda.max_memory_allocated() / 2**20} if job.device == "cuda" else {}
    return {"steps": steps, "batch": size, "micro-batch": micro, **history.speed.summary(),
            "losses": [row["train_loss"] for row in history.rows], "validation": history.best["loss"],
            "seconds in all": time.perf_counter() - started, "digest": digest(task.module, history.rows),
            "resumed at": bar.done, **memory, **getattr(store, "figures", dict)()}


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


WORK: dict[str, Callable[[Job], Figures]] = {"agreement": agreement, "training": training}
