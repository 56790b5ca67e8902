"""Seconds per optimiser step: our training loop, and the same module in a Hugging Face ``Trainer``.

Each side trains in a process of its own, for the way of a process with memory is part of what is compared: stages
that train ask the C library to keep freed memory (``stages.run.processes``), and a plain script does not.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.gpu.sizes import Job
from benchmarks.gpu.subjects import subject_of
from benchmarks.harness import Context, Section
from benchmarks.trainings import (
    Ran,
    Sides,
    by_trainer,
    device,
    looped,
    place,
    same_training,
    sides,
    take_turns,
    weights_of,
)
from stages.common.training import loop_settings

# What is switched off, beside the defaults of the block train_hcl.
_MODELS: dict[str, dict[str, Any]] = {
    "the deterministic backbone": {"latent": {"enabled": False}, "keyword": {"condition": False}}, "HCL": {}}


@dataclass(frozen=True)
class Training:
    """One training; one that is compared draws nothing, and its weights at the end are looked at."""

    job: Job
    compared: bool = False
    steps: int = 5
    decay: float = 0.0

    def task(self) -> Any:
        """Return the task of the track's stage."""
        return subject_of(self.job).task(self.steps * self.job.batch[0], self.job.device, dropout=not self.compared)


def run(context: Context) -> list[Section]:
    """Compare both precisions.

    Texts are random words, and weights are random: what they mean has no part in what a step costs.
    """
    jobs = {(name, precision): Job("hcl", precision, device(), "tiny" if context.quick else "small", settings=settings)
            for name, settings in _MODELS.items() for precision in ("fp32", "bf16")}
    with sides(context.quick, torch.get_num_threads(), plain=True) as where:
        return [_section(f"{name}, {precision}", job, context.repeats, where)
                for (name, precision), job in jobs.items()]


def _section(title: str, job: Job, repeats: int, where: Sides) -> Section:
    bare = Training(job, compared=True)
    agreement = same_training("train_step", where.stage(ours, bare), where.plain(theirs, bare), steps=1)
    contenders = {"our loop": partial(where.stage, ours, Training(job)),
                  "transformers.Trainer": partial(where.plain, theirs, Training(job)),
                  "transformers.Trainer, freed memory kept": partial(where.kept, theirs, Training(job))}
    rows, table, _ = take_turns(contenders, repeats, job.batch[0], "triples", by_clock=True)
    encoder = job.size.encoder
    workload = (f"batches of {job.batch[0]} triples, encoder of {encoder['num_hidden_layers']} layers "
                f"{encoder['hidden_size']} wide, decoder of {job.size.decoder_layers}, {job.precision}, {place()}, "
                f"{torch.get_num_threads()} thread(s); from one step's end to the next's, collation, clipping and "
                f"fused AdamW included")
    return Section(title, workload, agreement, rows, _NOTES, table)


_NOTES = ["Both train the same module on the same batches in the same order; the Trainer's output goes nowhere: no "
          "logging, no checkpoints. What a step takes is the module's forward and backward passes, the same in both; "
          "ours collates in a thread, and reads losses and gradient norm once per step.",
          "Our stages keep freed memory for the next step; the last row gives the Trainer the same."]


def ours(training: Training) -> Ran:
    """Train with :func:`models.common.training.fit`."""
    task = training.task()
    return kept(in_our_loop(task, training), task.module, training)


def in_our_loop(task: Any, training: Training) -> Ran:
    """Train ``task`` as the stages do."""
    job = training.job
    settings = loop_settings({"epochs": 1, "batch_size": job.batch[0], "precision": job.precision,
                              "schedule": "constant", "weight_decay": training.decay})
    return looped(task, settings)


def theirs(training: Training) -> Ran:
    """Train with ``transformers.Trainer``, handing it the same optimiser."""
    task, job = training.task(), training.job
    return kept(by_trainer(task, job.batch[0], job.precision == "bf16"), task.module, training)


def kept(ran: Ran, module: nn.Module, training: Training) -> Ran:
    """Return what a training did, with the weights of ``module`` if they are looked at."""
    ran.weights = weights_of(module) if training.compared else {}
    return ran
