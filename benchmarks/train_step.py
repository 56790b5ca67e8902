"""Seconds per optimiser step: our training loop, and the same module in a Hugging Face ``Trainer``.

Each side trains in a process of its own, for the way of a process with memory is part of what is compared: stages
that train ask the C library to keep freed memory (``stages.runtime.memory``), and a plain script does not.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerBase

from benchmarks.harness import Context, Disagreement, Row, Section
from benchmarks.trainers import train_in_order
from benchmarks.trainings import Call, Clock, Nowhere, Ran, device, here, place, process
from models.encoders import special_ids
from models.hcl import HclConfig, HclModel, KeywordGraph, objective
from models.training import Parameters, Settings, Step, epoch_batches, fit
from stages.encoders import resolve_encoder
from stages.params.hcl import TrainHcl
from stages.runtime.errors import InputError
from stages.runtime.seeds import derived_seed
from stages.tracks.hcl.batches import TripleBatches
from stages.tracks.hcl.task import HclTask, ValidationNoise

TITLE = "An optimiser step of a training"
_SEED, _RATE, _MAX_LENGTH = 13, 1e-4, 20
_TOLERANCE = 1e-5
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# What is switched off, beside the defaults of the block train_hcl.
_MODELS: dict[str, dict[str, Any]] = {
    "the deterministic backbone": {"latent": {"enabled": False}, "keyword": {"condition": False}}, "HCL": {}}


@dataclass(frozen=True)
class Sizes:
    """How large model and batches are."""

    width: int = 384
    layers: int = 6
    heads: int = 12
    decoder_layers: int = 2
    nodes: int = 2000
    batch_size: int = 32
    steps: int = 5

    @property
    def items(self) -> int:
        """Items of one training."""
        return self.batch_size * self.steps


_QUICK = Sizes(width=32, layers=1, heads=2, decoder_layers=1, nodes=20, batch_size=4, steps=3)


@dataclass(frozen=True)
class Job:
    """One training: a model to begin with, what it learns, and how its products are computed."""

    model: HclModel
    train: TripleBatches
    eps: Tensor
    sizes: Sizes
    precision: str

    def order(self) -> list[int]:
        """Return all items in the order in which batches are cut from them."""
        batches = epoch_batches(self.sizes.items, self.sizes.batch_size, derived_seed(_SEED, "order", 0))
        return [item for batch in batches for item in batch]


def run(context: Context) -> list[Section]:
    """Compare both precisions; ``context.input`` is a Parquet file with columns ``source``, ``target``, ``negative``.

    Without it texts are random words of the vocabulary. Weights are random: what they mean has no part in what a
    step costs.
    """
    sizes = _QUICK if context.quick else Sizes()
    encoder = resolve_encoder("bundled")
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    items = _given(context, sizes) if context.input else _drawn(tokenizer, sizes)
    train = TripleBatches(items, tokenizer, _MAX_LENGTH, _MAX_LENGTH)
    with ExitStack() as stack:
        if context.quick:
            same = stack.enter_context(here(deterministic=True))  # as in trainings
            sides = _Sides(same, same)
        else:
            sides = _Sides(*(stack.enter_context(process(torch.get_num_threads(), keep)) for keep in (True, False)))
        return [_section(name, precision, train, tokenizer, sizes, context.repeats, sides)
                for name in _MODELS for precision in ("fp32", "bf16")]


@dataclass(frozen=True)
class _Sides:
    """Two processes that train: one keeps freed memory, as our stages do, the other is as it comes."""

    kept: Call
    plain: Call


def _section(name: str, precision: str, train: TripleBatches, tokenizer: PreTrainedTokenizerBase, sizes: Sizes,
             repeats: int, sides: _Sides) -> Section:
    job = Job(_model(_MODELS[name], tokenizer, sizes, train.mean_target_length), train,
              torch.randn(sizes.items, 200, generator=torch.Generator().manual_seed(_SEED)), sizes, precision)
    bare = replace(job, model=_without_dropout(job.model))
    agreement = _agreement(sides.kept(ours, bare), sides.plain(theirs, bare))
    contenders = {"our loop": partial(sides.kept, ours), "transformers.Trainer": partial(sides.plain, theirs),
                  "transformers.Trainer, freed memory kept": partial(sides.kept, theirs)}
    ran: dict[str, Ran] = {who: Ran() for who in contenders}
    for _ in range(repeats):
        for who, train_with in contenders.items():
            found = train_with(job)
            ran[who].seconds += found.seconds
            ran[who].processor += found.processor
    first = median(ran["our loop"].seconds)
    rows = [Row(who, median(one.seconds), min(one.seconds), max(one.seconds), sizes.batch_size / median(one.seconds),
                "triples", median(one.seconds) / first) for who, one in ran.items()]
    table = [{"contender": who, "median processor seconds": median(one.processor)} for who, one in ran.items()]
    workload = (f"batches of {sizes.batch_size} triples, encoder of {sizes.layers} layers {sizes.width} wide, decoder "
                f"of {sizes.decoder_layers}, {precision}, {place()}, {torch.get_num_threads()} thread(s); from one "
                f"step's end to the next's, collation, clipping and fused AdamW included")
    return Section(f"{name}, {precision}", workload, agreement, rows, _NOTES, table)


_NOTES = ["Both train the same module on the same batches in the same order; the Trainer's output goes nowhere: no "
          "logging, no checkpoints. What a step takes is the module's forward and backward passes, the same in both; "
          "ours collates in a thread, and reads losses and gradient norm once per step.",
          "Our stages keep freed memory for the next step; the last row gives the Trainer the same."]


def _agreement(mine: "Ran", other: "Ran") -> str:
    """Say how far losses and weights of two trainings without dropout lie apart.

    Raises:
        Disagreement: further than 1e-5.
    """
    loss = abs(mine.losses[0] - other.losses[0])
    gap = max(float((mine.weights[name] - other.weights[name]).abs().max()) for name in mine.weights)
    if not (loss <= _TOLERANCE and gap <= _TOLERANCE and len(mine.losses) == len(other.losses)):
        raise Disagreement(f"train_step: without dropout, the first losses differ by {loss:.3g} and the weights after "
                           f"{len(mine.losses)} steps by up to {gap:.3g}")
    return (f"without dropout, the first loss differs by {loss:.2g} and the weights after {len(mine.losses)} steps by "
            f"at most {gap:.2g}")


def _ran(clock: Clock, losses: list[Tensor], model: HclModel) -> Ran:
    weights = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    return Ran(*clock.spent(skip=1), [float(loss) for loss in losses], weights)


# Our loop


class _Fixed(HclTask):
    """The task of stage train_hcl, with noise fixed per item and no validation."""

    losses: list[Tensor]
    noise_of: Tensor

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        return {**super().load(items), "eps": self.noise_of[list(items)]}

    def train_batch(self, batch: Mapping[str, Tensor], step: Step) -> tuple[Tensor, dict[str, Tensor | float]]:
        loss, parts = super().train_batch(batch, step)
        self.losses.append(loss.detach())
        return loss, parts

    def parameter_groups(self) -> Sequence[Parameters]:
        return [Parameters("all", list(self.model.parameters()), _RATE)]

    def validate(self) -> dict[str, float]:
        return {"loss": 0.0}


def ours(job: Job) -> Ran:
    """Train with :func:`models.training.fit`."""
    model, clock, sizes = copy.deepcopy(job.model), Clock(), job.sizes
    nn.Module.to(model, device())
    nothing = ValidationNoise(torch.zeros(0), torch.zeros(0))
    task = _Fixed(model, job.train, job.train, nothing, {"micro_batch": sizes.batch_size}, annealing_steps=0)
    task.losses, task.noise_of = [], job.eps
    settings = Settings(epochs=1, batch_size=sizes.batch_size, schedule="constant",
                        precision="bf16" if job.precision == "bf16" else "fp32")
    fit(task, settings, Nowhere(), partial(derived_seed, _SEED), lambda total, done: clock)
    return _ran(clock, task.losses, model)


# The Trainer


class _Learner(nn.Module):
    """The model as a Trainer wants it: the loss of a batch comes out of its forward pass."""

    def __init__(self, model: HclModel) -> None:
        super().__init__()
        self.model = model
        self.losses: list[Tensor] = []

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        loss, _ = objective(self.model(batch), self.model.config, kl_weight=1.0)
        self.losses.append(loss.detach())
        return {"loss": loss}


def theirs(job: Job) -> Ran:
    """Train with ``transformers.Trainer``, handing it the same optimiser."""
    learner, clock, sizes = _Learner(copy.deepcopy(job.model)), Clock(), job.sizes
    nn.Module.to(learner, device())
    optimiser = torch.optim.AdamW(learner.parameters(), lr=_RATE, weight_decay=0.0, fused=True)
    train_in_order(learner, range(sizes.items), lambda items: _collated(job, items), job.order(), sizes.batch_size,
                   optimiser, clock, job.precision == "bf16")
    return _ran(clock, learner.losses, learner.model)


def _collated(job: Job, items: list[int]) -> dict[str, Tensor]:
    return {**job.train.batch(items), "eps": job.eps[items]}


# Models and texts


def _model(changes: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, sizes: Sizes,
           mean_target_length: float) -> HclModel:
    values = TrainHcl.model_validate({**changes, "decoder": {"layers": sizes.decoder_layers}}).model_dump()
    encoder = BertConfig(vocab_size=len(tokenizer), hidden_size=sizes.width, num_hidden_layers=sizes.layers,
                         num_attention_heads=sizes.heads, intermediate_size=4 * sizes.width)
    graph = _graph(sizes)
    config = HclConfig.from_params(values, encoder, special_ids(tokenizer), graph.num_nodes, graph.num_edges,
                                   mean_target_length)
    torch.manual_seed(_SEED)
    return HclModel.from_parts(config, graph=graph)


def _graph(sizes: Sizes) -> KeywordGraph:
    random = np.random.default_rng(_SEED)
    pairs = np.unique(random.integers(0, sizes.nodes, (10 * sizes.nodes, 2)), axis=0)
    target, source = torch.from_numpy(pairs).unbind(-1)
    sign = torch.from_numpy(random.choice([-1, 1], len(pairs)))
    vectors = torch.from_numpy(random.normal(size=(sizes.nodes, sizes.width)).astype("f4"))
    return KeywordGraph.from_edges(vectors, target, source, sign)


def _without_dropout(model: HclModel) -> HclModel:
    config = copy.deepcopy(model.config)
    config.encoder |= _NO_DROPOUT
    config.decoder["dropout"] = 0.0
    bare = HclModel(config)
    bare.load_state_dict(model.state_dict())
    return bare


def _drawn(tokenizer: PreTrainedTokenizerBase, sizes: Sizes) -> pd.DataFrame:
    random = np.random.default_rng(_SEED)
    words = np.array(sorted(word for word in tokenizer.get_vocab() if word.isalpha()))
    return _items([[" ".join(random.choice(words, random.integers(4, 16))) for _ in range(3)]
                   for _ in range(sizes.items)], sizes)


def _given(context: Context, sizes: Sizes) -> pd.DataFrame:
    rows = pd.read_parquet(context.input)
    missing = [name for name in ("source", "target", "negative") if name not in rows]
    if missing:
        raise InputError(f"{context.input}: no column {missing[0]!r}; train_step needs source, target and negative.")
    rows = rows.dropna(subset=["source", "target", "negative"])
    if len(rows) < sizes.items:
        raise InputError(f"{context.input}: {len(rows)} triples, and a measurement takes {sizes.items}. Give more.")
    return _items(rows[["source", "target", "negative"]].head(sizes.items).values.tolist(), sizes)


def _items(texts: Sequence[Sequence[str]], sizes: Sizes) -> pd.DataFrame:
    """Return rows as of ``joined_items``, with keywords drawn at random."""
    nodes = np.random.default_rng(_SEED).integers(0, sizes.nodes, (len(texts), 3))
    return pd.DataFrame({
        "example_id": range(len(texts)), "source": [row[0] for row in texts], "target": [row[1] for row in texts],
        "negatives": [[row[2]] for row in texts], "input_node": nodes[:, 0], "output_node": nodes[:, 1],
        "negative_node": nodes[:, 2]})
