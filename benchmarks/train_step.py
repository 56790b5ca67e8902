"""Seconds per optimiser step: our training loop, and the same module in a Hugging Face ``Trainer``.

Each side trains in a process of its own, since its allocator is part of what is compared: stages that train ask the C
library to keep freed memory (``stages.run.processes``), and a plain script does not.
"""

import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import inf
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from benchmarks.gpu.subjects import SEED, Job, subject_of
from benchmarks.harness import Context, Disagreement, Section, timings
from models.common.training import Step, epoch_batches, fit
from stages.common.seeds import derived_seed
from stages.common.training import loop_settings
from stages.run.checkpoints import FolderCheckpoints
from stages.run.log import configure
from stages.run.processes import keep_freed_memory

TOLERANCE = 1e-5  # of losses and weights of two trainings without dropout
_STEPS = 5
# Track of each model, and settings that differ from the defaults of the block train_hcl.
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "the deterministic backbone": ("hcl", {"latent": {"enabled": False}, "keyword": {"condition": False}}),
    "HCL": ("hcl", {}), "PGKPR": ("pgkpr", {})}
_NOTES = ["Both train the same module on the same batches in the same order; the Trainer's output goes nowhere: no "
          "logging, no checkpoints. What a step takes is the module's forward and backward passes, the same in both; "
          "ours collates in a thread, and reads losses and gradient norm once per step.",
          "Our stages keep freed memory for the next step; the last row gives the Trainer the same."]


class Clock(TrainerCallback):
    """Takes the time at which each step ends: a bar of our loop and a callback of the Trainer."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []
        self.update()

    def update(self, n: int = 1) -> None:
        """Take the time once the device has finished its work."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append((time.perf_counter(), time.process_time()))

    def on_step_end(self, *call: Any, **more: Any) -> None:
        """Take the time of a step of the Trainer."""
        self.update()

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Do nothing: steps are timed, not epochs."""

    def close(self) -> None:
        """Do nothing: there is no bar to close."""


@dataclass
class Ran:
    """Seconds and processor seconds of the steps of a training but the first, losses, and weights at the end."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)


def run(context: Context) -> list[Section]:
    """Compare both precisions, on random words with random weights: the cost of a step does not depend on them."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with ExitStack() as stack:
        stage, plain, kept = (stack.enter_context(ProcessPoolExecutor(
            1, get_context("spawn"), _begin, (torch.get_num_threads(), keep))) for keep in (True, False, True))
        return [_section(name, Job(track, precision, device, "tiny" if context.quick else "small", settings=settings),
                         context.repeats, stage, plain, kept)
                for name, (track, settings) in _MODELS.items() for precision in ("fp32", "bf16")]


def _begin(threads: int, keep: bool) -> None:
    configure()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    if keep and not keep_freed_memory():
        raise RuntimeError("this C library cannot keep freed memory")


def _section(name: str, job: Job, repeats: int, stage: ProcessPoolExecutor, plain: ProcessPoolExecutor,
             kept: ProcessPoolExecutor) -> Section:
    agreement = same_training(stage.submit(ours, job, False).result(), plain.submit(theirs, job, False).result())
    contenders = {"our loop": (stage, ours), "transformers.Trainer": (plain, theirs),
                  "transformers.Trainer, freed memory kept": (kept, theirs)}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    processor: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for contender, (where, train) in contenders.items():
            ran = where.submit(train, job, True).result()
            seconds[contender] += ran.seconds
            processor[contender] += ran.processor
    rows = timings(seconds, job.batch[0], "items")
    for row in rows:
        row["processor seconds"] = median(processor[row["contender"]])
    place = torch.cuda.get_device_name() if job.device == "cuda" else f"CPU, {torch.get_num_threads()} thread(s)"
    workload = (f"batches of {job.batch[0]} items, {job.size}, {job.precision}, {place}; from one step's end to the "
                f"next's, collation, clipping and fused AdamW included")
    return Section(f"{name}, {job.precision}", workload, agreement, [rows], _NOTES)


def ours(job: Job, dropout: bool) -> Ran:
    """Train with :func:`models.common.training.fit`; weights are returned of a training without dropout."""
    task, clock = subject_of(job).task(_STEPS * job.batch[0], job.device, dropout), Clock()
    task.validate = lambda: {"loss": 0.0, "accuracy": 0.0}
    losses: list[Tensor] = []
    inner = task.train_batch

    def train_batch(batch: Any, step: Step) -> Any:
        loss, parts = inner(batch, step)
        losses.append(loss.detach())
        return loss, parts

    task.train_batch = train_batch
    settings = loop_settings({"epochs": 1, "batch_size": job.batch[0], "precision": job.precision,
                              "schedule": "constant", "weight_decay": 0.0})
    with tempfile.TemporaryDirectory() as folder:
        fit(task, settings, FolderCheckpoints(Path(folder), "benchmark", inf), partial(derived_seed, SEED),
            lambda total, done: clock)
    return _ran(clock, losses, task.module, dropout)


def theirs(job: Job, dropout: bool) -> Ran:
    """Train with ``transformers.Trainer``: the same module, batches, order and optimiser as our loop's."""
    task, clock, on_cpu = subject_of(job).task(_STEPS * job.batch[0], job.device, dropout), Clock(), job.device == "cpu"
    learner = _Learner(task)
    optimiser = torch.optim.AdamW([{"params": list(group.parameters), "lr": group.rate}
                                   for group in task.parameter_groups()], lr=0.0, weight_decay=0.0, fused=True)
    constant = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0)
    items = [item for batch in epoch_batches(task.n_train, job.batch[0], derived_seed(SEED, "order", 0))
             for item in batch]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=job.batch[0], max_grad_norm=1.0,
            bf16=job.precision == "bf16", use_cpu=on_cpu, save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, train_sampling_strategy="sequential", remove_unused_columns=False,
            dataloader_pin_memory=not on_cpu)
        trainer = Trainer(learner, arguments, learner.collate, items,  # type: ignore[arg-type]
                          optimizers=(optimiser, constant), callbacks=[clock])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return _ran(clock, learner.losses, task.module, dropout)


class _Learner(nn.Module):
    """A task as a Trainer wants it: the loss comes out of a forward pass. Batches come in the order of collation."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.module, self.task = task.module, [task]
        self.waiting: list[Any] = []
        self.losses: list[Tensor] = []

    def collate(self, items: list[int]) -> dict[str, Tensor]:
        """Return the batch of ``items``."""
        self.waiting.append(items)
        return dict(self.task[0].load(items))

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        """Return the loss."""
        loss, _ = self.task[0].train_batch(batch, Step(0, 1, 0, self.waiting.pop(0)))
        self.losses.append(loss.detach())
        return {"loss": loss}


def _ran(clock: Clock, losses: list[Tensor], module: nn.Module, dropout: bool) -> Ran:
    seconds, processor = np.diff(clock.times, axis=0)[1:].T.tolist()
    weights = {} if dropout else {name: one.detach().cpu() for name, one in module.named_parameters()}
    return Ran(seconds, processor, [float(loss) for loss in losses], weights)


def same_training(mine: Ran, other: Ran) -> str:
    """Say how far the first losses and the last weights of two trainings without dropout are apart.

    Raises:
        Disagreement: further than 1e-5.
    """
    if len(mine.losses) != len(other.losses) or mine.weights.keys() != other.weights.keys():
        raise Disagreement(f"train_step: {len(mine.losses)} losses and {len(mine.weights)} weights, the Trainer has "
                           f"{len(other.losses)} and {len(other.weights)}")
    loss = abs(mine.losses[0] - other.losses[0])
    gap = max(float((mine.weights[name] - other.weights[name]).abs().max()) for name in mine.weights)
    said = f"the first loss differs by {loss:.2g} and the weights after {len(mine.losses)} steps by up to {gap:.2g}"
    if not (loss <= TOLERANCE and gap <= TOLERANCE):
        raise Disagreement(f"train_step: without dropout, {said}")
    return f"without dropout, {said}"
