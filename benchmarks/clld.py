"""CLLD: a training step of a classifier, beside the same one in a Hugging Face ``Trainer``, and with the contrast.

The encoder is the bundled one with its pooler, so that the library's own class for classification computes the very
same function (``models.clld.export``). Each side trains in a process of its own, as in benchmark ``train_step``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DataCollatorWithPadding

from benchmarks.gpu.sizes import Job
from benchmarks.gpu.texts import tokenizer_of
from benchmarks.harness import Context, Disagreement, Section, peak_memory
from benchmarks.train_step import Training, in_our_loop, kept
from benchmarks.trainings import (
    Clock,
    Ran,
    Sides,
    device,
    in_process,
    of_clocks,
    order_of,
    place,
    ran,
    same_training,
    sides,
    take_turns,
    train_in_order,
)
from models.clld import sequence_classifier as library_classifier
from stages.common.encoders import resolve_encoder

TRAINER = "transformers.Trainer"
_THREADS = 1
_CT, _CL = ({"pool": "pooler", "contrast": {"kind": kind}} for kind in ("none", "label_distance"))


def run(context: Context) -> list[Section]:
    """Check that both train the same, then time steps.

    Raises:
        Disagreement: losses or weights differ, or a loss is not finite.
    """
    with sides(context.quick, _THREADS) as where:
        return [_section(training(context.quick), context.quick, context.repeats, where)]


def training(quick: bool = False) -> Training:
    """Return a training of CT; ``quick`` takes a tiny encoder of random weights."""
    encoder = None if quick else str(resolve_encoder("bundled").location)
    return Training(Job("clld", "fp32", device(), "tiny" if quick else "small", encoder, settings=_CT), steps=6,
                    decay=0.1)


def contrasted(one: Training) -> Training:
    """Return the same of CT+CL."""
    return replace(one, job=replace(one.job, settings=_CL))


def _section(one: Training, quick: bool, repeats: int, where: Sides) -> Section:
    bare, other = replace(one, compared=True), contrasted(one)
    agreement = same_training("clld", where.stage(ours, bare), where.plain(theirs, bare))
    contenders: dict[str, Callable[[], Ran]] = {
        "ours, CT": partial(where.stage, ours, one),
        TRAINER: partial(where.plain, theirs, one),
        f"{TRAINER}, freed memory kept": partial(where.kept, theirs, one),
        "ours, CT+CL": partial(where.stage, ours, other)}
    size = one.job.batch[0]
    found, table, losses = take_turns(contenders, repeats, size, "texts")
    if not all(map(isfinite, losses)):
        raise Disagreement("clld: a loss is not finite")
    if not quick:
        table = [{**row, "MiB above the process": memory} for row, memory in zip(table, _memory(one, other),
                                                                                 strict=True)]
    texts = one.task().train
    workload = (f"{len(texts)} texts of {len(set(texts.labels))} classes, {texts.lengths.mean():.1f} tokens on average "
                f"and {texts.lengths.max()} at most, batches of {size}, "
                f"{'a tiny BERT' if quick else 'all-MiniLM-L6-v2'}, fp32, {place()}, {_THREADS} thread; from one "
                f"step's end to the next's: batch, forward and backward pass, clipping, fused AdamW")
    return Section("A training step of a classifier", workload, agreement, found, [of_clocks(table), *_NOTES], table)


_NOTES = [
    f"{TRAINER} trains BertForSequenceClassification with the weights of our model, on the same batches in the same "
    "order, with the same optimiser, collated by its DataCollatorWithPadding; it logs nothing and saves nothing. Ours "
    "is the training loop as stage train_clld runs it: deterministic algorithms, freed memory kept, dropout seeded at "
    "each step, losses and gradient checked.",
    "CT+CL encodes each text twice, and compares all vectors of a batch with each other; classifier and optimiser "
    "work as often as for CT."]


def _memory(one: Training, other: Training) -> list[float]:
    """Return the MiB that trainings of two steps take at most, in the order of the contenders."""
    asked = ((ours, one, True, True), (theirs, one, False, False), (theirs, one, True, False),
             (ours, other, True, True))
    return [peak_memory(in_process, train, replace(which, steps=2), _THREADS, keep, deterministic)
            for train, which, keep, deterministic in asked]


def ours(one: Training) -> Ran:
    """Train with :func:`models.common.training.fit`; the weights are those of the library's classifier."""
    task = one.task()
    found = in_our_loop(task, one)
    return kept(found, library_classifier(task.module.cpu()) if one.compared else task.module, one)


class _Learner(nn.Module):
    """The library's classifier, whose losses are kept."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.losses: list[Tensor] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Any:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
        self.losses.append(output.loss.detach())
        return output


def theirs(one: Training) -> Ran:
    """Train the library's classifier with ``transformers.Trainer``, handing it the same optimiser."""
    task, job = one.task(), one.job
    learner, clock = _Learner(library_classifier(task.module.cpu())), Clock()
    nn.Module.to(learner, device())
    optimiser = torch.optim.AdamW(learner.parameters(), lr=task.learning_rate, weight_decay=one.decay, fused=True)
    items = [{"input_ids": task.train.ids[item].tolist(), "label": int(task.train.labels[item])}
             for item in order_of(len(task.train), job.batch[0])]
    tokenizer = tokenizer_of(job.encoder, job.size.encoder["vocab_size"])
    train_in_order(learner, items, DataCollatorWithPadding(tokenizer), job.batch[0], optimiser, clock)
    return kept(ran(clock, learner.losses, None), learner.model, one)
