"""What trainings cost, roughly, and sizes that fit a machine: what the ``cost`` module of each track is written in.

Nothing is loaded for it: matrix products alone, texts of mean length. ``models.common.training.throughput`` counts
what a
training really does. No artifact depends on any of this.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from stages.params import Params

Kind = Literal["few cores", "many cores", "GPU", "large GPU"]

PIECES_PER_WORD = 1.3   # of WordPiece
KEPT = 20               # values of a layer kept per token for the backward pass, in widths
_BYTES = 20             # of a parameter in training: weight, gradient, two averages of Adam, the best so far
# Width, inner width, layers, vocabulary of encoders that are known by name; of others, BERT-base's.
_BUNDLED, _BERT = (384, 1536, 6, 30522), (768, 3072, 12, 30522)
# Share of the encoder's layers that HCL and the pair classifier keep frozen.
_FROZEN: dict[Kind, float] = {"few cores": 2 / 3, "many cores": 1 / 3, "GPU": 0.0, "large GPU": 0.0}
# Items of a forward pass at most, and words of a text at most.
_MICRO: dict[Kind, int] = {"few cores": 32, "many cores": 64, "GPU": 64, "large GPU": 256}
_LONGEST: dict[Kind, int] = {"few cores": 32, "many cores": 64, "GPU": 126, "large GPU": 126}
# Optimiser steps that a training should have at least; batches are halved until it has.
_STEPS = 500
FEW_PAIRS = 20_000      # training items below which models that learn words are small


@dataclass(frozen=True)
class Extent:
    """Roughly what the examples of a data set are.

    Attributes:
        train: items of the training split, and so on; ``ingest.max_train`` and its like are kept to.
        inputs: words that the input of 95 items in 100 does not exceed.
        outputs: likewise of outputs; of labelled texts those of inputs.
        words: of an input in the mean.
    """

    train: int
    validation: int
    test: int
    inputs: int
    outputs: int
    words: float

    @property
    def items(self) -> int:
        """Items of all splits."""
        return self.train + self.validation + self.test


@dataclass(frozen=True)
class Work:
    """What a training computes: floating-point operations, micro-batches, and GiB beside what any process has."""

    flops: float
    passes: int
    gib: float


@dataclass(frozen=True)
class Stack:
    """A Transformer of so many layers; ``crossed`` ones attend to a memory too."""

    width: int
    inner: int
    layers: int
    frozen: int = 0
    crossed: bool = False

    @property
    def parameters(self) -> int:
        """Weights of all layers."""
        return self.layers * ((8 if self.crossed else 4) * self.width**2 + 2 * self.width * self.inner)

    def flops(self, tokens: float) -> float:
        """Operations of a forward and backward pass; layers that are frozen have no backward pass."""
        passes = 3 * self.layers - 2 * self.frozen
        return 2 * self.parameters / max(1, self.layers) * passes * tokens


@dataclass(frozen=True)
class Budget:
    """How long a training may be.

    Attributes:
        items: that it may go through: minutes on one core. A GPU trains as long as the papers do.
        epochs: at most: of the papers, so few as a small data set bears.
        batch: smallest and largest.
    """

    items: Mapping[Kind, int]
    epochs: int
    batch: tuple[int, int]

    def training(self, kind: Kind, extent: Extent, passes: int = 1) -> dict[str, int]:
        """Return epochs and batches: as many items as the budget allows, in as many steps as learning takes."""
        budget, items = self.items.get(kind), max(1, extent.train * passes)
        epochs = self.epochs if budget is None else max(1, min(self.epochs, budget // items))
        least, batch = self.batch
        while batch > least and items * epochs < _STEPS * batch:
            batch //= 2
        return {"epochs": epochs, "batch_size": batch, "micro_batch": min(batch, _MICRO[kind])}


@dataclass(frozen=True)
class Cost:
    """What trainings of a kind cost.

    Attributes:
        rates: floating-point operations per second, of one thread or of a GPU. Those of CPU threads are of the
            sample's trainings on two cores of a server processor; those of GPUs are guesses, which the first run
            there replaces.
        sizes: given params, a machine and the largest data set, returns values nested like ``params.yaml``.
        work: given params, a model (or data set, where there is one model each) and its data set's extent.
    """

    rates: Mapping[Kind, float]
    sizes: Callable[["Params", Kind, Extent], dict[str, Any]]
    work: Callable[["Params", str, Extent], Work]


def work_of(flops: float, training: Any, items: int, parameters: float, kept: float) -> Work:
    """Return the work of a training: ``flops`` and ``kept`` values per item, ``parameters`` in all."""
    micro = min(getattr(training, "micro_batch", training.batch_size), training.batch_size)
    return Work(flops * items * training.epochs, -(-items // micro) * training.epochs,
                (_BYTES * parameters + 4 * micro * kept) / 2**30)


def encoder_work(source: str, training: Any, tokens: float, items: int) -> Work:
    """Return the work of a training that is an encoder's, with so many ``tokens`` per item."""
    width, inner, layers, words = shape(source)
    encoder = Stack(width, inner, layers, min(training.freeze_layers, layers))
    return work_of(encoder.flops(tokens), training, items, encoder.parameters + width * words,
                   tokens * KEPT * width * layers)


def shape(source: str) -> tuple[int, int, int, int]:
    """Return width, inner width, layers and vocabulary of an encoder."""
    if found := _config(source):
        width, inner, layers, words = (int(found[name]) for name in (
            "hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"))
        return width, inner, layers, words
    return _BUNDLED if source in ("bundled", "scratch") or source.startswith("characters:") else _BERT


def frozen_layers(source: str, kind: Kind) -> int:
    """Return how many layers of an encoder are kept as they are: none where their number cannot be known."""
    layers = _BUNDLED[2] if source == "bundled" else int(_config(source).get("num_hidden_layers", 0))
    return round(_FROZEN[kind] * layers)


def _config(source: str) -> dict[str, Any]:
    path = Path(source.removeprefix("path:")) / "config.json"
    found: dict[str, Any] = (json.loads(path.read_text(encoding="utf-8"))
                             if source.startswith("path:") and path.exists() else {})
    return found


def read_length(words: int, per_word: float, kind: Kind) -> int:
    """Return how many pieces of a text are read: those of ``words``, in steps of four, within the machine's limit."""
    return min(_LONGEST[kind], max(8, -(-int(words * per_word) // 4) * 4))
