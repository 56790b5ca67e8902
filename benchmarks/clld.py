"""CLLD: a training step of a classifier, beside the same one in a Hugging Face ``Trainer``, and with the contrast.

The encoder is the bundled one with its pooler, so that the library's own class for classification computes the very
same function (``models.clld.export``). Each side trains in a process of its own, as in benchmark ``train_step``.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from benchmarks.harness import Context, Disagreement, Section, peak_memory
from benchmarks.trainings import (
    SEED,
    Clock,
    Ran,
    Sides,
    device,
    in_process,
    looped,
    of_clocks,
    order_of,
    place,
    ran,
    same_training,
    sides,
    take_turns,
    train_in_order,
    weights_of,
)
from models.clld import ClldConfig, ClldModel, ClldTask, LabelledTexts, load_text_encoder, plain_config
from models.clld import sequence_classifier as library_classifier
from models.training import Settings
from stages.encoders import resolve_encoder

TEXTS = Path("data") / "sample" / "questions.jsonl"
TRAINER = "transformers.Trainer"
_THREADS, _RATE, _DECAY, _CLIP = 1, 5e-5, 0.1, 1.0
_MAX_LENGTH = 32


@dataclass(frozen=True)
class Sizes:
    """How large batches and trainings are; ``tiny`` takes two layers of random weights in the encoder's place."""

    batch_size: int = 64
    steps: int = 6
    tiny: bool = False

    @property
    def items(self) -> int:
        """Texts of one training."""
        return self.batch_size * self.steps


_QUICK = Sizes(batch_size=4, steps=3, tiny=True)


@dataclass(frozen=True)
class Job:
    """One training: the model it begins with, what it learns, and whether its weights at the end are looked at."""

    model: ClldModel
    texts: LabelledTexts
    tokenizer: PreTrainedTokenizerBase
    batch_size: int
    compared: bool = False


def run(context: Context) -> list[Section]:
    """Check that both train the same, then time steps.

    Raises:
        Disagreement: losses or weights differ, or a loss is not finite.
    """
    sizes = _QUICK if context.quick else Sizes()
    rows = _sample(sizes)
    with sides(context.quick, _THREADS) as where:
        return [_section(rows, sizes, context.repeats, where)]


def _section(rows: pd.DataFrame, sizes: Sizes, repeats: int, where: Sides) -> Section:
    job = job_of(rows, sizes)
    bare = replace(job_of(rows, sizes, dropout=0.0), compared=True)
    agreement = same_training("clld", where.stage(ours, bare), where.plain(theirs, bare))
    contrasted = job_of(rows, sizes, contrast={"kind": "label_distance"})
    contenders: dict[str, Callable[[], Ran]] = {
        "ours, CT": partial(where.stage, ours, job),
        TRAINER: partial(where.plain, theirs, job),
        f"{TRAINER}, freed memory kept": partial(where.kept, theirs, job),
        "ours, CT+CL": partial(where.stage, ours, contrasted)}
    found, table, losses = take_turns(contenders, repeats, sizes.batch_size, "texts")
    if not all(map(isfinite, losses)):
        raise Disagreement("clld: a loss is not finite")
    if not sizes.tiny:
        table = [{**row, "MiB above the process": memory} for row, memory in zip(table, _memory(job, contrasted),
                                                                                 strict=True)]
    lengths = job.texts.lengths
    workload = (f"{len(rows)} texts of {len(set(rows['label']))} classes, {lengths.mean():.1f} tokens on average and "
                f"{lengths.max()} at most (cut at {_MAX_LENGTH}), batches of {sizes.batch_size}, "
                f"{'a tiny BERT' if sizes.tiny else 'all-MiniLM-L6-v2'}, fp32, {place()}, {_THREADS} thread; from one "
                f"step's end to the next's: batch, forward and backward pass, clipping, fused AdamW")
    return Section("A training step of a classifier", workload, agreement, found, [of_clocks(table), *_NOTES], table)


_NOTES = [
    f"{TRAINER} trains BertForSequenceClassification with the weights of our model, on the same batches in the same "
    "order, with the same optimiser, collated by its DataCollatorWithPadding; it logs nothing and saves nothing. Ours "
    "is the training loop as stage train_clld runs it: deterministic algorithms, freed memory kept, dropout seeded at "
    "each step, losses and gradient checked.",
    "CT+CL encodes each text twice, and compares the 128 vectors of a batch with each other; classifier and optimiser "
    "work as often as for CT."]


def _memory(job: Job, contrasted: Job) -> list[float]:
    """Return the MiB that trainings of two steps take at most, in the order of the contenders."""
    asked = ((ours, job, True, True), (theirs, job, False, False), (theirs, job, True, False),
             (ours, contrasted, True, True))
    return [peak_memory(in_process, train, _short(one), _THREADS, keep, deterministic)
            for train, one, keep, deterministic in asked]


def _short(job: Job) -> Job:
    """Return the first two batches of ``job``."""
    kept = order_of(len(job.texts), job.batch_size)[:2 * job.batch_size]
    return replace(job, texts=LabelledTexts([job.texts.ids[item] for item in kept], job.texts.labels[kept],
                                            job.texts.pad))


# Our loop


def ours(job: Job) -> Ran:
    """Train with :func:`models.training.fit`."""
    model = copy.deepcopy(job.model)
    nn.Module.to(model, device())
    task = ClldTask(model, job.texts, job.texts, _RATE, job.batch_size)
    settings = Settings(epochs=1, batch_size=job.batch_size, weight_decay=_DECAY, schedule="constant", clip=_CLIP)
    found = looped(task, settings)
    if job.compared:
        found.weights = weights_of(library_classifier(model.cpu()))
    return found


# The Trainer


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


def theirs(job: Job) -> Ran:
    """Train the library's classifier with ``transformers.Trainer``, handing it the same optimiser."""
    learner, clock = _Learner(library_classifier(job.model)), Clock()
    nn.Module.to(learner, device())
    optimiser = torch.optim.AdamW(learner.parameters(), lr=_RATE, weight_decay=_DECAY, fused=True)
    items = [{"input_ids": ids.tolist(), "label": int(label)}
             for ids, label in zip(job.texts.ids, job.texts.labels, strict=True)]
    train_in_order(learner, items, DataCollatorWithPadding(job.tokenizer), order_of(len(job.texts), job.batch_size),
                   job.batch_size, optimiser, clock)
    return ran(clock, learner.losses, learner.model if job.compared else None)


# Models and texts


def job_of(rows: pd.DataFrame, sizes: Sizes, dropout: float | None = None, **changes: Any) -> Job:
    """Return a training on ``rows`` (``text``, ``label``).

    Args:
        rows: texts with their classes.
        sizes: of batches, and of the encoder.
        dropout: everywhere; None takes the defaults of a training, 0.1 in the encoder and 0.5 before the classifier.
        changes: of the configuration.
    """
    location = resolve_encoder("bundled").location
    torch.manual_seed(SEED)
    encoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    if sizes.tiny:
        tokenizer = AutoTokenizer.from_pretrained(location)
        encoder = BertModel(_tiny(len(tokenizer), 0.1 if dropout is None else dropout))
    else:
        encoder, tokenizer = load_text_encoder(location, "pooler", 0.1 if dropout is None else dropout)
    classes = sorted(set(rows["label"]))
    config = ClldConfig("encoder", classes, plain_config(encoder.config), "pooler", 0.5 if dropout is None else dropout,
                        **changes)
    numbers = {name: number for number, name in enumerate(classes)}
    texts = LabelledTexts.of(tokenizer, rows["text"].tolist(), [numbers[label] for label in rows["label"]], _MAX_LENGTH)
    return Job(ClldModel.over(config, encoder), texts, tokenizer, sizes.batch_size)


def _tiny(words: int, dropout: float) -> BertConfig:
    return BertConfig(vocab_size=words, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                      intermediate_size=32, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)


def _sample(sizes: Sizes) -> pd.DataFrame:
    """Return the sample questions, over and over until there are enough."""
    lines = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]
    return pd.DataFrame(islice(cycle(lines), sizes.items))
