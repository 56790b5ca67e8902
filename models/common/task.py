"""What a training is: its settings, its task, the order of its batches, and what it leaves behind."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from statistics import median
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

Batch = Mapping[str, Tensor]
Parts = Mapping[str, float | Tensor]
Key = TypeVar("Key")
Loaded = TypeVar("Loaded")
POOL = 50  # batches sorted together: long enough to find equals, short enough to stay a shuffle
_RECENT = 500  # steps whose durations are kept, for their median


@dataclass(frozen=True)
class Criterion:
    """One validation value by which epochs are compared; ``largest`` if more is better."""

    name: str = "loss"
    largest: bool = False


@dataclass(frozen=True)
class Settings:
    """How to train; plain values, which the params have checked."""

    epochs: int  # passes over the training items at most; 0 keeps the module as it begins, validated once
    batch_size: int  # items per optimiser step; the last batch of an epoch may be smaller
    micro_batch: int | None = None  # items per forward pass; None: the whole batch at once
    optimiser: Literal["adamw", "adam"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0  # decoupled under adamw, added to the gradient under adam
    warmup: float = 0.0  # share of all steps over which the rates rise linearly from 0
    schedule: Literal["linear", "constant"] = "linear"  # of the rates after that; linear falls to 0
    # Of the matrix products (autocast); weights, gradients, optimiser and, by the task's care, losses are fp32.
    precision: Literal["fp32", "bf16"] = "fp32"
    bucket: bool = False  # batches of items of similar length, drawn anew each epoch; the task needs lengths()
    prefetch: int = 2  # micro-batches that a thread loads ahead of the one in work
    clip: float | None = 1.0  # largest norm of the accumulated gradient, over all groups together
    patience: int | None = None  # epochs in a row without a better validation result that end the training
    # Step from which the objective is the final one (after annealing, pretraining). Epochs that end before it are no
    # candidates for the best one, and patience does not count them; if all do, the last one is taken.
    final_from_step: int = 0
    # The best epoch has the best first criterion; the next ones break its ties, and the earliest of equals wins.
    select: tuple[Criterion, ...] = (Criterion(),)

    def steps_per_epoch(self, n_train: int) -> int:
        """Return the number of optimiser steps of one epoch over ``n_train`` items."""
        return ceil(n_train / self.batch_size)

    def total_steps(self, n_train: int) -> int:
        """Return the number of optimiser steps of all epochs, early stopping aside."""
        return self.epochs * self.steps_per_epoch(n_train)

    def micro_batches(self, batch: Sequence[int]) -> list[Sequence[int]]:
        """Cut ``batch`` into runs of ``micro_batch`` items."""
        size = self.micro_batch or self.batch_size
        return [batch[start:start + size] for start in range(0, len(batch), size)]

    def rate_factor(self, step: int, total: int) -> float:
        """Return the factor on every learning rate at the 0-based ``step`` of ``total``.

        It is 1 at the last of the first ``round(warmup * total)`` steps, and would be 0 at step ``total``.
        """
        rising = round(self.warmup * total)
        if step < rising:
            return (step + 1) / rising
        return 1.0 if self.schedule == "constant" else (total - step) / max(1, total - rising)


# Batches of items


def epoch_batches(n_items: int, batch_size: int, seed: int, lengths: Sequence[int] | None = None) -> list[list[int]]:
    """Return the batches of one epoch, every item once, cut from a permutation.

    With lengths, one per item, the permutation is cut into pools of 50 batches, and each pool is sorted by length, so
    that little is padded; then the batches of all pools are shuffled. Within a batch items stay sorted, so that its
    micro-batches are of similar lengths too.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(n_items)
    if lengths is None:
        return _cut(order, batch_size)
    of_item = np.asarray(lengths)
    batches: list[list[int]] = []
    for pool in np.split(order, range(POOL * batch_size, n_items, POOL * batch_size)):
        batches += _cut(pool[np.argsort(of_item[pool], kind="stable")], batch_size)
    return [batches[number] for number in random.permutation(len(batches))]


def _cut(order: np.ndarray, size: int) -> list[list[int]]:
    return [order[start:start + size].tolist() for start in range(0, len(order), size)]


@contextmanager
def loaded_ahead(load: Callable[[Key], Loaded], keys: Iterable[Key], ahead: int) -> Iterator[Iterator[Loaded]]:
    """Give ``load(key)`` of each key in turn, up to ``ahead`` of them computed in advance by one thread.

    An exception of ``load`` comes out where its result would have. The thread ends with the block; 0 starts none.
    """
    if ahead == 0:
        yield map(load, keys)
        return
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")

    def in_turn() -> Iterator[Loaded]:
        waiting: deque[Future[Loaded]] = deque()
        for key in keys:
            waiting.append(executor.submit(load, key))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield in_turn()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


class HostTensor(Tensor):
    """A tensor that stays in the host's memory when its batch goes to a device: what is needed to launch its work."""

    @classmethod
    def of(cls, values: Tensor) -> "HostTensor":
        """Return ``values``, which are on the CPU, as such a tensor."""
        return values.as_subclass(cls)

    def to(self, *args: Any, **kwargs: Any) -> "HostTensor":  # type: ignore[override]
        """Return itself."""
        return self

    pin_memory = to  # type: ignore[assignment]


def moved(tensors: Batch, device: torch.device) -> dict[str, Tensor]:
    """Return ``tensors`` on ``device``; copies from pinned memory do not hold up the caller."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}


def batches_in_order(load: Callable[[Sequence[int]], Batch], count: int, size: int,
                     device: torch.device) -> Iterator[dict[str, Tensor]]:
    """Yield ``load`` of the items ``0 .. count - 1``, which is on the CPU, on ``device``, ``size`` items at a time."""
    for start in range(0, count, size):
        yield moved(load(range(start, min(start + size, count))), device)


class PartSums:
    """Named sums in double precision; tensors stay where they are until :meth:`read`."""

    def __init__(self) -> None:
        self._tensors: list[tuple[str, Tensor]] = []
        self._plain: list[tuple[str, float]] = []

    def add(self, parts: Parts) -> None:
        """Add plain numbers and 0-d tensors to the sums of their names."""
        for name, value in parts.items():
            if isinstance(value, Tensor):
                self._tensors.append((name, value.detach()))
            else:
                self._plain.append((name, float(value)))

    def read(self) -> dict[str, float]:
        """Return the sums; all tensors come from the device in one message."""
        names, tensors = [name for name, _ in self._tensors], [tensor.double() for _, tensor in self._tensors]
        numbers = torch.stack(tensors).tolist() if tensors else []
        sums: dict[str, float] = {}
        for name, value in [*zip(names, numbers, strict=True), *self._plain]:
            sums[name] = sums.get(name, 0.0) + value
        return sums


# Task


@dataclass(frozen=True)
class Parameters:
    """A named group of parameters with its own learning rate; frozen ones are left out by the loop."""

    name: str
    parameters: Iterable[nn.Parameter]
    rate: float


@dataclass(frozen=True)
class Step:
    """The optimiser step that a micro-batch belongs to."""

    number: int             # 0-based count of optimiser steps, from which annealed weights are computed
    total: int              # steps of all epochs
    epoch: int              # 0-based
    batch: Sequence[int]    # every item of the step's whole batch, of which a micro-batch is a run


class Task:
    """What is trained, on what, and how it is judged. Items are numbers ``0 .. n_train - 1``."""

    module: Any  # nn.Module on its device; a subclass says which
    train: Sized
    validation: Sized
    learning_rate: float  # of every parameter, unless parameter_groups says otherwise
    batch_size: int  # items per forward pass in validation

    @property
    def n_train(self) -> int:
        """Number of training items."""
        return len(self.train)

    @property
    def contrasts(self) -> bool:
        """Whether a part of the loss contrasts the items of a batch, so that no micro-batch has a share in it.

        A batch of several micro-batches is then trained by gradient caching.
        """
        return False

    @property
    def evaluate_every(self) -> int | None:
        """Optimiser steps from one :meth:`evaluate` to the next, counted from the beginning; None for never."""
        return None

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the parameters to train, in the same order every time; here one group: everything at one rate."""
        module: nn.Module = self.module
        return [Parameters("all", list(module.parameters()), self.learning_rate)]

    def lengths(self) -> Sequence[int]:
        """Return the length of each training item, in any unit; a ValueError if the task has none."""
        raise ValueError(f"bucket: {type(self).__name__} has no lengths() to put items of similar length together")

    def load(self, items: Sequence[int]) -> Batch:
        """Return the tensors of ``items``, on the CPU; the loop moves them to the module's device.

        It runs in a thread, ahead of the micro-batch in work, so it must draw nothing at random and share
        nothing with :meth:`train_batch`.
        """
        raise NotImplementedError

    def train_batch(self, batch: Batch, step: Step) -> tuple[Tensor, Parts]:
        """Return the share of a micro-batch in the loss of the whole batch, a scalar with a graph, and its parts.

        Shares add up: the sum over micro-batches is the loss of ``step.batch``. So divide by what belongs to the whole
        batch (``len(step.batch)``, or the number of its items that have an impostor), never by the size of ``batch``.
        Parts, plain or 0-d, are added up in the same manner and averaged over the items of an epoch.
        """
        raise NotImplementedError

    def without_contrast(self, batch: Batch, step: Step) -> tuple[Tensor, Parts, Tensor]:
        """Return :meth:`train_batch` without the contrast, and what is contrasted: a vector (W) for each item.

        Called twice for a micro-batch, under one seed, and only of a task that ``contrasts``.
        """
        raise NotImplementedError

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, Parts]:
        """Return the weighted contrast of ``step.batch`` by its vectors (B, W), a scalar with a graph, and parts."""
        raise NotImplementedError

    def validate(self) -> Mapping[str, float]:
        """Return validation values by name; called in evaluation mode, without gradients."""
        raise NotImplementedError

    def load_validation(self, items: Sequence[int]) -> Batch:
        """Return the tensors of validation items, on the CPU."""
        raise NotImplementedError

    def validation_sums(self, sums: Callable[[Batch], Parts]) -> dict[str, float]:
        """Return what ``sums`` finds of each batch of validation items, added up name by name."""
        total = PartSums()
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            total.add(sums(batch))
        return total.read()

    def evaluate(self, steps: int) -> Any:
        """Return what the model does after ``steps`` optimiser steps, as plain values that JSON keeps.

        Called in evaluation mode, without gradients, and in the first of several processes alone.
        """
        raise NotImplementedError

    def on_evaluation(self, steps: int, found: Any) -> None:
        """Act on what :meth:`evaluate` found; called in every process."""

    def extra_state(self) -> dict[str, Any]:
        """Return plain values for the checkpoint, of what :meth:`on_evaluation` changes besides buffers."""
        return {}

    def load_extra(self, state: Mapping[str, Any]) -> None:
        """Go back to :meth:`extra_state`."""


# What a training is given, and what it leaves


class CheckpointStore(Protocol):
    """Keeps one state, tensors and plain values (JSON); of several processes, the first alone asks it for anything."""

    def due(self) -> bool:
        """Tell whether a state is worth saving within an epoch; whatever it answers, the result is the same."""

    def save(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], values: Mapping[str, Any],
             best: bool) -> None:
        """Replace the stored state, whole or not at all; ``best`` weights are kept until others are the best."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]] | None:
        """Return weights, optimiser and values of the stored state; None if there is none."""

    def best(self) -> dict[str, Tensor]:
        """Return the weights that were saved as the best; called after such a save only."""


class Bar(Protocol):
    """Shows how far a training has come."""

    def update(self, n: int = 1) -> object:
        """Count ``n`` more optimiser steps as done."""

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Show an epoch, whose row of the history is ``row``."""

    def close(self) -> None:
        """Take the bar away."""


@dataclass
class Speed:
    """Durations of the steps of a training, added up over the runs that it was resumed in; they enter no artifact."""

    steps: int = 0                      # without those that a kill undid
    items: int = 0
    seconds: float = 0.0                # of all steps, with waiting for data, without validation and checkpoints
    recent: list[float] = field(default_factory=list)   # of each of the last 500 steps
    checkpoints: int = 0                # saved states
    checkpoint_seconds: float = 0.0     # of saving them, but for the state that a training resumed from

    def add(self, items: int, seconds: float) -> None:
        """Count one optimiser step."""
        self.steps, self.items, self.seconds = self.steps + 1, self.items + items, self.seconds + seconds
        self.recent = [*self.recent[1 - _RECENT:], seconds]

    def add_checkpoint(self, seconds: float) -> None:
        """Count one saved state."""
        self.checkpoints, self.checkpoint_seconds = self.checkpoints + 1, self.checkpoint_seconds + seconds

    def summary(self) -> dict[str, Any]:
        """Return the values for the record of the stage; items per second are over steps and checkpoints together."""
        if not self.steps:
            return {}
        return {"steps": self.steps, "items_per_second": self.items / (self.seconds + self.checkpoint_seconds),
                "seconds_per_step_median": median(self.recent), "checkpoints": self.checkpoints,
                "checkpoint_seconds": self.checkpoint_seconds}


@dataclass(frozen=True)
class History:
    """What a training did."""

    # One per epoch, plain values: epoch (1-based), step (optimiser steps so far), rate_* (last learning rate of each
    # group), gradient_norm (mean, before clipping), train_* (the loss and its parts, means over items), validation_*
    # and best (whether it is the best epoch so far).
    rows: list[dict[str, Any]]
    best_epoch: int     # the 1-based epoch whose weights the module now holds
    best: dict[str, float]  # its validation values
    stopped_early: bool     # patience ended the training
    settled: bool = True    # the best epoch ended when the objective was final; else none did, and it is the last one
    speed: Speed = field(default_factory=Speed, compare=False)  # never the same twice
