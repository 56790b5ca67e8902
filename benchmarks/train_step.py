"""Seconds per optimiser step: our training loop, and the same module in a Hugging Face ``Trainer``.

Each side trains in a process of its own, for the way of a process with memory is part of what is compared: stages
that train ask the C library to keep freed memory (``stages.runtime.memory``), and a plain script does not.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerBase

from benchmarks.graph_attention import random_graph
from benchmarks.harness import Context, Section
from benchmarks.trainings import (
    SEED,
    Clock,
    Ran,
    Recording,
    Sides,
    device,
    looped,
    order_of,
    place,
    ran,
    same_training,
    sides,
    take_turns,
    train_in_order,
    weights_of,
)
from models.encoders import special_ids
from models.hcl import HclConfig, HclModel, objective
from models.training import Parameters, Settings
from stages.encoders import resolve_encoder
from stages.params.hcl import TrainHcl
from stages.tracks.hcl.batches import TripleBatches
from stages.tracks.hcl.task import HclTask, ValidationNoise

TITLE = "An optimiser step of a training"
_RATE, _MAX_LENGTH = 1e-4, 20
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


_QUICK = Sizes(width=32, layers=1, heads=2, decoder_layers=1, nodes=40, batch_size=4, steps=3)


@dataclass(frozen=True)
class Job:
    """One training: a model to begin with, what it learns, and how its products are computed."""

    model: HclModel
    train: TripleBatches
    eps: Tensor
    sizes: Sizes
    precision: str


def run(context: Context) -> list[Section]:
    """Compare both precisions.

    Texts are random words of the vocabulary, and weights are random: what they mean has no part in what a step costs.
    """
    sizes = _QUICK if context.quick else Sizes()
    encoder = resolve_encoder("bundled")
    tokenizer = AutoTokenizer.from_pretrained(encoder.location)
    items = _drawn(tokenizer, sizes)
    train = TripleBatches(items, tokenizer, _MAX_LENGTH, _MAX_LENGTH)
    with sides(context.quick, torch.get_num_threads(), plain=True) as where:
        return [_section(name, precision, train, tokenizer, sizes, context.repeats, where)
                for name in _MODELS for precision in ("fp32", "bf16")]


def _section(name: str, precision: str, train: TripleBatches, tokenizer: PreTrainedTokenizerBase, sizes: Sizes,
             repeats: int, where: Sides) -> Section:
    job = Job(_model(_MODELS[name], tokenizer, sizes, train.mean_target_length), train,
              torch.randn(sizes.items, 200, generator=torch.Generator().manual_seed(SEED)), sizes, precision)
    bare = replace(job, model=_without_dropout(job.model))
    agreement = same_training("train_step", where.stage(ours, bare), where.plain(theirs, bare), steps=1)
    contenders = {"our loop": partial(where.stage, ours, job),
                  "transformers.Trainer": partial(where.plain, theirs, job),
                  "transformers.Trainer, freed memory kept": partial(where.kept, theirs, job)}
    rows, table, _ = take_turns(contenders, repeats, sizes.batch_size, "triples", by_clock=True)
    workload = (f"batches of {sizes.batch_size} triples, encoder of {sizes.layers} layers {sizes.width} wide, decoder "
                f"of {sizes.decoder_layers}, {precision}, {place()}, {torch.get_num_threads()} thread(s); from one "
                f"step's end to the next's, collation, clipping and fused AdamW included")
    return Section(f"{name}, {precision}", workload, agreement, rows, _NOTES, table)


_NOTES = ["Both train the same module on the same batches in the same order; the Trainer's output goes nowhere: no "
          "logging, no checkpoints. What a step takes is the module's forward and backward passes, the same in both; "
          "ours collates in a thread, and reads losses and gradient norm once per step.",
          "Our stages keep freed memory for the next step; the last row gives the Trainer the same."]


# Our loop


class _Recorded(Recording, HclTask):
    """The task of stage train_hcl, with noise fixed per item, one rate, and no validation."""

    noise_of: Tensor

    def load(self, items: Sequence[int]) -> dict[str, Tensor]:
        return {**super().load(items), "eps": self.noise_of[list(items)]}

    def parameter_groups(self) -> Sequence[Parameters]:
        return [Parameters("all", list(self.model.parameters()), _RATE)]


def ours(job: Job) -> Ran:
    """Train with :func:`models.training.fit`."""
    model, sizes = copy.deepcopy(job.model), job.sizes
    nn.Module.to(model, device())
    nothing = ValidationNoise(torch.zeros(0), torch.zeros(0))
    task = _Recorded(model, job.train, job.train, nothing, {"micro_batch": sizes.batch_size}, annealing_steps=0)
    task.noise_of = job.eps
    settings = Settings(epochs=1, batch_size=sizes.batch_size, schedule="constant",
                        precision="bf16" if job.precision == "bf16" else "fp32")
    found = looped(task, settings)
    found.weights = weights_of(model)
    return found


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
    train_in_order(learner, range(sizes.items), lambda items: _collated(job, items),
                   order_of(sizes.items, sizes.batch_size), sizes.batch_size, optimiser, clock, job.precision == "bf16")
    return ran(clock, learner.losses, learner.model)


def _collated(job: Job, items: list[int]) -> dict[str, Tensor]:
    return {**job.train.batch(items), "eps": job.eps[items]}


# Models and texts


def _model(changes: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, sizes: Sizes,
           mean_target_length: float) -> HclModel:
    values = TrainHcl.model_validate({**changes, "decoder": {"layers": sizes.decoder_layers}}).model_dump()
    encoder = BertConfig(vocab_size=len(tokenizer), hidden_size=sizes.width, num_hidden_layers=sizes.layers,
                         num_attention_heads=sizes.heads, intermediate_size=4 * sizes.width)
    graph = random_graph(sizes.nodes, 10, sizes.width)
    config = HclConfig.from_params(values, encoder, special_ids(tokenizer), graph.num_nodes, graph.num_edges,
                                   mean_target_length)
    torch.manual_seed(SEED)
    return HclModel.from_parts(config, graph=graph)


def _without_dropout(model: HclModel) -> HclModel:
    config = copy.deepcopy(model.config)
    config.encoder |= _NO_DROPOUT
    config.decoder["dropout"] = 0.0
    bare = HclModel(config)
    bare.load_state_dict(model.state_dict())
    return bare


def _drawn(tokenizer: PreTrainedTokenizerBase, sizes: Sizes) -> pd.DataFrame:
    random = np.random.default_rng(SEED)
    words = np.array(sorted(word for word in tokenizer.get_vocab() if word.isalpha()))
    return _items([[" ".join(random.choice(words, random.integers(4, 16))) for _ in range(3)]
                   for _ in range(sizes.items)], sizes)


def _items(texts: Sequence[Sequence[str]], sizes: Sizes) -> pd.DataFrame:
    """Return rows as of ``joined_items``, with keywords drawn at random."""
    nodes = np.random.default_rng(SEED).integers(0, sizes.nodes, (len(texts), 3))
    return pd.DataFrame({
        "example_id": range(len(texts)), "source": [row[0] for row in texts], "target": [row[1] for row in texts],
        "negatives": [[row[2]] for row in texts], "input_node": nodes[:, 0], "output_node": nodes[:, 1],
        "negative_node": nodes[:, 2]})
