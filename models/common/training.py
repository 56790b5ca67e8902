"""One training loop for every method: exact accumulation, exact resume, selection on validation, several processes.

A state keeps no generator: the loop seeds every micro-batch by name (step and position), and the order of an epoch
likewise, so ``step``, ``epoch`` and ``batch`` stand for every random state and for the position in the data. The
schedule is a function of ``step``. Parameters that are not trained are not stored; the task builds them again.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import ceil, inf, isfinite
from statistics import median
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from models.common.losses import products

Batch = Mapping[str, Tensor]
Parts = Mapping[str, float | Tensor]
SeedOf = Callable[..., int]
Key = TypeVar("Key")
Value = TypeVar("Value")
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
        """Return the factor on every learning rate at the 0-based ``step`` of ``total``, at which it would be 0."""
        rising = round(self.warmup * total)
        if step < rising:
            return (step + 1) / rising
        return 1.0 if self.schedule == "constant" else (total - step) / max(1, total - rising)


# Batches of items


def epoch_batches(n_items: int, batch_size: int, seed: int, lengths: Sequence[int] | None = None) -> list[list[int]]:
    """Return the batches of one epoch, every item once, cut from a permutation.

    With lengths, the permutation is cut into pools of 50 batches, each is sorted by length, and all batches are
    shuffled.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(n_items)
    if lengths is None:
        return _cut(order, batch_size)
    of_item = np.asarray(lengths)
    batches: list[list[int]] = []
    for pool in np.split(order, range(POOL * batch_size, n_items, POOL * batch_size)):
        batches += _cut(pool[np.argsort(of_item[pool], kind="stable")], batch_size)
    return [batches[number] for number in generator.permutation(len(batches))]


def _cut(order: np.ndarray, size: int) -> list[list[int]]:
    return [order[start:start + size].tolist() for start in range(0, len(order), size)]


@contextmanager
def loaded_ahead(load: Callable[[Key], Value], keys: Iterable[Key], ahead: int) -> Iterator[Iterator[Value]]:
    """Give ``load(key)`` of each key in turn, up to ``ahead`` of them computed in advance by one thread; 0: none."""
    if ahead == 0:
        yield map(load, keys)
        return
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")

    def in_turn() -> Iterator[Value]:
        waiting: deque[Future[Value]] = deque()
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
        self._parts: list[tuple[str, float | Tensor]] = []

    def add(self, parts: Parts) -> None:
        """Add plain numbers and 0-d tensors to the sums of their names."""
        self._parts += [(name, value.detach() if isinstance(value, Tensor) else float(value))
                        for name, value in parts.items()]

    def read(self) -> dict[str, float]:
        """Return the sums, those of tensors first; all of these come from the device in one message."""
        parts = sorted(self._parts, key=lambda part: not isinstance(part[1], Tensor))
        tensors = [value.double() for _, value in parts if isinstance(value, Tensor)]
        numbers = iter(torch.stack(tensors).tolist() if tensors else [])
        sums: dict[str, float] = {}
        for name, value in parts:
            sums[name] = sums.get(name, 0.0) + (next(numbers) if isinstance(value, Tensor) else value)
        return sums


# What is trained


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
    """The module to train, its data and its losses. Items are numbers ``0 .. n_train - 1``."""

    module: Any  # nn.Module on its device; a subclass says which
    train: Any  # of a length, and indexed by items unless load() is overridden
    validation: Any
    learning_rate: float  # of every parameter, unless parameter_groups says otherwise
    batch_size: int  # items per forward pass in validation
    evaluate_every: int | None = None  # optimiser steps from one evaluate() to the next, counted from the beginning

    @property
    def contrasts(self) -> bool:
        """Whether the loss contrasts the items of a batch; several micro-batches then need gradient caching."""
        return False

    @property
    def n_train(self) -> int:
        """Number of training items."""
        return len(self.train)

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the parameters to train, in the same order every time; here one group: everything at one rate."""
        return [Parameters("all", list(self.module.parameters()), self.learning_rate)]

    def lengths(self) -> Sequence[int]:
        """Return the length of each training item, in any unit; a ValueError if the task has none."""
        raise ValueError(f"bucket: {type(self).__name__} has no lengths() to put items of similar length together")

    def load(self, items: Sequence[int]) -> Batch:
        """Return the tensors of ``items``, on the CPU; a thread calls it, so it must draw nothing at random."""
        return self.tensors([self.train[item] for item in items])

    def train_batch(self, batch: Batch, step: Step) -> tuple[Tensor, Parts]:
        """Return the share of a micro-batch in the loss of ``step.batch``, a scalar with a graph, and its parts.

        Shares and parts add up: divide by what belongs to the whole batch (``len(step.batch)``), never to ``batch``.
        """
        raise NotImplementedError

    def without_contrast(self, batch: Batch, step: Step) -> tuple[Tensor, Parts, Tensor]:
        """Return :meth:`train_batch` without the contrast, and the vectors to contrast (M, W); called twice."""
        raise NotImplementedError

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, Parts]:
        """Return the weighted contrast of ``step.batch`` by its vectors (B, W), a scalar with a graph, and parts."""
        raise NotImplementedError

    def validate(self) -> Mapping[str, float]:
        """Return validation values by name; called in evaluation mode, without gradients."""
        raise NotImplementedError

    def load_validation(self, items: Sequence[int]) -> Batch:
        """Return the tensors of validation items, on the CPU."""
        return self.tensors([self.validation[item] for item in items])

    def tensors(self, rows: Sequence[Any]) -> Batch:
        """Return the tensors of ``rows`` of ``train`` or ``validation``."""
        raise NotImplementedError

    def validation_sums(self, sums: Callable[[Batch], Parts]) -> dict[str, float]:
        """Return ``sums`` of each batch of validation items, added up name by name."""
        total = PartSums()
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            total.add(sums(batch))
        return total.read()

    def evaluate(self, steps: int) -> Any:
        """Return plain values of the model, in evaluation mode, after ``steps`` steps; the first process alone asks."""
        raise NotImplementedError

    def on_evaluation(self, steps: int, found: Any) -> None:
        """Act on the values of :meth:`evaluate`; called in every process."""

    def extra_state(self) -> dict[str, Any]:
        """Return what :meth:`on_evaluation` changes besides buffers, as plain values for the checkpoint."""
        return {}

    def load_extra(self, state: Mapping[str, Any]) -> None:
        """Go back to :meth:`extra_state`."""


class CheckpointStore(Protocol):
    """Stores one state, tensors and plain values (JSON); of several processes, the first alone uses it."""

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
    """Shows the progress of a training."""

    def update(self, n: int = 1) -> object:
        """Count ``n`` more optimiser steps as done."""

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Show an epoch, whose row of the history is ``row``."""

    def close(self) -> None:
        """Remove the bar."""


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

    def summary(self) -> dict[str, Any]:
        """Return the values for the record of the stage; items per second are over steps and checkpoints together."""
        if not self.steps:
            return {}
        return {"steps": self.steps, "items_per_second": self.items / (self.seconds + self.checkpoint_seconds),
                "seconds_per_step_median": median(self.recent), "checkpoints": self.checkpoints,
                "checkpoint_seconds": self.checkpoint_seconds}


@dataclass(frozen=True)
class History:
    """The course and the result of a training."""

    # One per epoch, plain values: epoch (1-based), step (optimiser steps so far), rate_* (last learning rate of each
    # group), gradient_norm (mean, before clipping), train_* (the loss and its parts, means over items), validation_*
    # and best (whether it is the best epoch so far).
    rows: list[dict[str, Any]]
    best_epoch: int     # the 1-based epoch whose weights the module now holds
    best: dict[str, float]  # its validation values
    stopped_early: bool     # patience ended the training
    settled: bool = True    # the best epoch ended when the objective was final; else none did, and it is the last one
    speed: Speed = field(default_factory=Speed, compare=False)  # never the same twice


@dataclass
class State:
    """The plain values of a training in progress, which JSON keeps exactly."""

    step: int = 0       # optimiser steps done
    epoch: int = 0      # epochs done
    batch: int = 0      # batches of the current epoch done
    items: int = 0      # items of the current epoch done
    sums: dict[str, float] = field(default_factory=dict)        # of the current epoch: parts times items, and norms
    rows: list[dict[str, Any]] = field(default_factory=list)    # history of the epochs done
    best_key: list[float] | None = None     # criteria of the best epoch, smaller is better; None for none yet
    best_epoch: int = 0     # its 1-based number; 0 for none yet
    stale: int = 0          # epochs in a row that patience has counted
    finished: bool = False
    extra: dict[str, Any] = field(default_factory=dict)         # of a task that evaluates within epochs
    speed: Speed = field(default_factory=Speed)


# The loop


def fit(task: Task, settings: Settings, store: CheckpointStore, seed_of: SeedOf,
        open_bar: Callable[[int, int], Bar] | None = None) -> History:
    """Train ``task.module`` and leave the weights of its best epoch in it.

    A training that was killed at any moment and is called again with the same arguments goes on from its last
    checkpoint in ``store`` and ends in the same bytes as one that ran through. ``seed_of`` maps ``("order", epoch)``,
    ``("step", step, micro-batch)`` and ``("validation",)`` to seeds; ``open_bar``, given the number of steps and of
    those done, returns a progress bar.

    The processes of an initialised ``torch.distributed`` group share the micro-batches of every step; a micro-batch
    draws the same in each of them. The first one validates and saves: they need no disk in common. Modules all of whose
    parameters are frozen stay in evaluation mode. A loss, gradient or validation value that is not finite is a
    FloatingPointError.
    """
    switches: Any = torch.utils.deterministic
    fills = switches.fill_uninitialized_memory
    # Under deterministic algorithms torch fills new tensors with NaN, a pass over all that a step allocates, for
    # programs that read memory before they write it. No step does: its loss or gradient would not be finite.
    switches.fill_uninitialized_memory = False
    bar = None
    try:
        loop = _Loop(task, settings, store, seed_of)
        loop.resume()
        bar = open_bar(loop.total, loop.state.step) if open_bar else None
        while not loop.state.finished:
            if settings.epochs:
                loop.run_epoch(bar)
            else:
                loop.validate_only()
        return loop.finish()
    finally:
        if bar is not None:
            bar.close()
        switches.fill_uninitialized_memory = fills


class _Loop:
    """One training: the task, its optimiser, and the state that a checkpoint holds."""

    def __init__(self, task: Task, settings: Settings, store: CheckpointStore, seed_of: SeedOf) -> None:
        if task.n_train < 1:
            raise ValueError("there is no training item")
        self.task, self.settings, self.store, self.seed_of = task, settings, store, seed_of
        self.rank, self.world = place()
        self.per_epoch = settings.steps_per_epoch(task.n_train)
        self.total = settings.total_steps(task.n_train)
        self.lengths = task.lengths() if settings.bucket else None
        groups = [{"name": group.name, "params": [p for p in group.parameters if p.requires_grad], "lr": group.rate}
                  for group in task.parameter_groups()]
        kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimiser]
        self.optimiser = kind([group for group in groups if group["params"]], lr=0.0, betas=settings.betas,
                              eps=settings.eps, weight_decay=settings.weight_decay, fused=True)
        self.rates: list[float] = [group["lr"] for group in self.optimiser.param_groups]
        self.parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.device = self.parameters[0].device
        self.state = State()

    def resume(self) -> None:
        """Go back to the last checkpoint of the first process, if there is one; its weights are those of all."""
        weights, slots, stored = (self.store.load() if self.rank == 0 else None) or ({}, {}, None)
        if stored is not None:
            load_tensors(self.task.module, weights)
        spread(self.task.module.state_dict().values())
        values = from_first(lambda: stored)
        if values is None:
            return
        by_parameter: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors_of_first(slots, self.device).items():
            number, _, slot = name.partition("/")
            by_parameter.setdefault(int(number), {})[slot] = tensor
        self.optimiser.load_state_dict({"state": by_parameter,
                                        "param_groups": self.optimiser.state_dict()["param_groups"]})
        self.state = State(**{**values, "speed": Speed(**values["speed"])})
        self.task.load_extra(self.state.extra)

    def run_epoch(self, bar: Bar | None) -> None:
        """Train the rest of the current epoch, validate, and take a checkpoint."""
        state, settings = self.state, self.settings
        order = epoch_batches(self.task.n_train, settings.batch_size, self.seed_of("order", state.epoch), self.lengths)
        batches = order[state.batch:]
        own = (run for batch in batches for run in settings.micro_batches(batch)[self.rank::self.world])
        _train_mode(self.task.module)
        with loaded_ahead(self._load, own, settings.prefetch) as loaded:
            for batch in batches:
                self._train_step(batch, loaded)
                if bar is not None:
                    bar.update(1)
                self._evaluate()
                if state.batch < self.per_epoch and self.rank == 0 and self.store.due():
                    self._save()
        self._end_epoch(from_first(self._validate))
        self._save()
        if bar is not None:
            bar.end_epoch(state.rows[-1])

    def validate_only(self) -> None:
        """Validate the module as it begins, as epoch 0, and take a checkpoint."""
        found = from_first(self._validate)
        row = {"epoch": 0, "step": 0, **{f"validation_{name}": value for name, value in found.items()}, "best": True}
        self.state = replace(self.state, rows=[row], finished=True)
        self._save()

    def finish(self) -> History:
        """Put the best weights into the module and sum up."""
        if self.rank == 0:
            load_tensors(self.task.module, self.store.best())
        spread(self.task.module.state_dict().values())
        self.task.module.eval()
        row = self.state.rows[self.state.best_epoch - 1]
        best = {name.removeprefix("validation_"): value for name, value in row.items()
                if name.startswith("validation_")}
        settled = row["step"] >= self.settings.final_from_step or self.settings.epochs == 0
        return History(self.state.rows, self.state.best_epoch, best, self.state.epoch < self.settings.epochs, settled,
                       self.state.speed)

    def _load(self, items: Sequence[int]) -> Batch:
        batch = self.task.load(items)
        if self.device.type != "cuda":
            return batch
        with torch.cuda.device(self.device):  # a thread begins with the first device
            return {name: tensor.pin_memory() for name, tensor in batch.items()}

    def _train_step(self, batch: list[int], loaded: Iterator[Batch]) -> None:
        started, state = time.perf_counter(), self.state
        factor = self.settings.rate_factor(state.step, self.total)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        sums = self._accumulate(Step(state.step, self.total, state.epoch, batch), loaded)
        add_gradients_of_all(self.parameters)
        clip = self.settings.clip
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, inf if clip is None else clip)
        self.optimiser.step()
        self._count(batch, sums, norm)
        state.speed.add(len(batch), time.perf_counter() - started)

    def _accumulate(self, step: Step, loaded: Iterator[Batch]) -> PartSums:
        """Add up gradients and parts over this process's micro-batches of ``step``."""
        sums = PartSums()
        self.optimiser.zero_grad(set_to_none=True)
        runs = self.settings.micro_batches(step.batch)
        own = ((number, moved(next(loaded), self.device)) for number in range(self.rank, len(runs), self.world))
        if not self.task.contrasts or len(runs) == 1:
            for number, batch in own:
                with self._begun(step, number):
                    loss, parts = self.task.train_batch(batch, step)
                add_gradients([loss], [None], self.parameters)
                sums.add({"loss": loss, **parts})
            return sums
        batches = list(own)
        parts, by_vectors = cached_contrast(self.task, step, runs, batches, partial(self._begun, step))
        for number, batch in batches:
            with self._begun(step, number):
                loss, own_parts, vectors = self.task.without_contrast(batch, step)
            add_gradients([loss, vectors], [None, by_vectors[number].to(vectors.dtype)], self.parameters)
            sums.add({"loss": loss, **own_parts})
        sums.add(parts)
        return sums

    def _begun(self, step: Step, number: int) -> torch.autocast:
        """Seed what a micro-batch of ``step`` draws, and return the precision of its products."""
        _seed_all(self.seed_of("step", step.number, number), self.device)
        return products(self.device, self.settings.precision)

    def _count(self, batch: list[int], sums: PartSums, norm: torch.Tensor) -> None:
        """Take the step into the state; here, once per step, the device is waited for."""
        state = self.state
        sums.add({"/norm": norm / self.world})  # every process has the norm of the whole batch
        values = total_of_all(sums.read())
        for what, name in (("loss", "loss"), ("gradient", "/norm")):
            _finite(f"the {what} at step {state.step}", values[name])
        state.step, state.batch, state.items = state.step + 1, state.batch + 1, state.items + len(batch)
        for name, value in values.items():
            state.sums[name] = state.sums.get(name, 0.0) + value * (1 if name == "/norm" else len(batch))

    def _evaluate(self) -> None:
        """Let a task that evaluates within epochs do so, if it is due; nothing is drawn that a step would miss."""
        task, steps = self.task, self.state.step
        if not task.evaluate_every or steps % task.evaluate_every:
            return
        found = from_first(lambda: self._in_evaluation(lambda: task.evaluate(steps)))
        task.on_evaluation(steps, found)
        self.state.extra = task.extra_state()
        _train_mode(task.module)

    def _in_evaluation(self, compute: Callable[[], Value]) -> Value:
        """Return ``compute()``, with the model in evaluation mode and without gradients."""
        _seed_all(self.seed_of("validation"), self.device)
        self.task.module.eval()
        with torch.no_grad(), products(self.device, self.settings.precision):
            return compute()

    def _validate(self) -> dict[str, float]:
        values = {name: float(value) for name, value in self._in_evaluation(self.task.validate).items()}
        for criterion in self.settings.select:
            _finite(f"validation {criterion.name} after epoch {self.state.epoch + 1}", values[criterion.name])
        return values

    def _end_epoch(self, validation: dict[str, float]) -> None:
        state, settings = self.state, self.settings
        key = [-validation[c.name] if c.largest else validation[c.name] for c in settings.select]
        settled, last = state.step >= settings.final_from_step, state.epoch + 1 == settings.epochs
        # The last epoch is taken where no epoch has settled.
        better = state.best_key is None or key < state.best_key if settled else last
        if better:
            state.best_key, state.best_epoch = key, state.epoch + 1
        state.stale = 0 if better or not settled else state.stale + 1
        norm = state.sums.pop("/norm") / self.per_epoch
        state.rows.append({
            "epoch": state.epoch + 1, "step": state.step,
            **{f"rate_{group['name']}": group["lr"] for group in self.optimiser.param_groups}, "gradient_norm": norm,
            **{f"train_{name}": value / state.items for name, value in state.sums.items()},
            **{f"validation_{name}": value for name, value in validation.items()}, "best": better})
        state.epoch, state.batch, state.items, state.sums = state.epoch + 1, 0, 0, {}
        patient = settings.patience is None or state.stale < settings.patience
        state.finished = state.epoch == settings.epochs or not patient

    def _save(self) -> None:
        """Save the state in the first process; at the end of its epoch, the best weights are the module's own."""
        state = self.state
        if self.rank != 0:
            return
        started, best = time.perf_counter(), state.batch == 0 and state.best_epoch == state.epoch
        slots = {f"{number}/{slot}": tensor for number, slots in self.optimiser.state_dict()["state"].items()
                 for slot, tensor in slots.items()}  # by number of the parameter and name; not copies
        self.store.save(trained_tensors(self.task.module), slots, asdict(state), best)
        state.speed.checkpoints += 1
        state.speed.checkpoint_seconds += time.perf_counter() - started


def add_gradients(outputs: Sequence[Tensor], weights: Sequence[Tensor | None],
                  parameters: Sequence[nn.Parameter]) -> None:
    """Add the gradients of ``outputs``, with ``weights`` (None for a scalar's 1), to those that ``parameters`` have.

    All at once, to the same bits: a backward pass adds parameter by parameter, one launch each on a GPU.
    """
    if all(parameter.grad is None for parameter in parameters):
        torch.autograd.backward(outputs, weights)
        return
    found = torch.autograd.grad(outputs, parameters, weights, allow_unused=True)
    sums, summands = [], []
    for parameter, gradient in zip(parameters, found, strict=True):
        if gradient is None:
            continue
        if parameter.grad is None:
            parameter.grad = gradient.clone(memory_format=torch.contiguous_format)  # it may share its memory
        else:
            sums.append(parameter.grad)
            summands.append(gradient)
    if sums:
        torch._foreach_add_(sums, summands)


def _train_mode(module: torch.nn.Module) -> None:
    """Set training mode, but for the parts all of whose parameters are frozen."""
    module.train()
    for part in module.modules():
        parameters = list(part.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            part.eval()


def _seed_all(seed: int, device: torch.device) -> None:
    """Seed every global generator in use, so that dropout and the like depend on the step alone."""
    # Not torch.manual_seed: for each kind of device that is not in use it draws up a stack trace, and keeps it.
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed_all(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def _finite(what: str, value: float) -> None:
    if not isfinite(value):
        raise FloatingPointError(f"{what} is {value}; lower the learning rate, or look at the data of that step")


def cached_contrast(task: Task, step: Step, runs: Sequence[Sequence[int]], own: Sequence[tuple[int, Batch]],
                    begun: Callable[[int], AbstractContextManager[object]]) -> tuple[Parts, dict[int, Tensor]]:
    """Contrast one step's batch; return its parts, and its gradient by the vectors of this process's micro-batches.

    Gradient caching (Gao et al. 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup): each
    micro-batch goes through the network once for its vectors alone, and again, under the same seed, to be
    differentiated from the gradient of the contrast of all vectors on. ``runs`` are the items of every micro-batch of
    the step, ``own`` those of this process by their place; ``begun``, given a place, seeds it and sets the precision of
    a block.
    """
    found = {}
    for number, batch in own:
        # With a graph, dropped at once: without one torch may choose other kernels, which draw other dropout.
        with begun(number):
            found[number] = task.without_contrast(batch, step)[2].detach()
    ends = list(accumulate(map(len, runs)))
    rows = {number: slice(ends[number] - len(runs[number]), ends[number]) for number in found}
    like, width = next(task.module.parameters()), from_first(lambda: found[0].shape[1])
    vectors = torch.zeros(ends[-1], width, dtype=like.dtype, device=like.device)  # (B, W), of all processes
    for number, part in found.items():
        vectors[rows[number]] = part.to(like.dtype)
    if place()[1] > 1:  # a row is of one process, and the others add 0
        distributed.all_reduce(vectors)
    with begun(0):
        loss, parts = task.contrast(vectors.requires_grad_(), step)
    gradient, = torch.autograd.grad(loss, vectors)
    # Every process has the contrast of the whole batch, and counts its share of it.
    shares: Parts = {name: value / place()[1] for name, value in {"loss": loss, **parts}.items()}
    return shares, {number: gradient[rows[number]] for number in found}


# Tensors of a checkpoint


def trained_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return what training changes in ``module``: its trainable parameters and persistent buffers, tied ones once."""
    tensors = {name: parameter.data for name, parameter in module.named_parameters() if parameter.requires_grad}
    persistent = set(module.state_dict())
    return tensors | {name: buffer for name, buffer in module.named_buffers() if name in persistent}


def load_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy ``tensors`` into the tensors of the same names; other names, of another model, are a ValueError."""
    own = trained_tensors(module)
    if set(own) != set(tensors):
        other = sorted(set(own) ^ set(tensors))
        raise ValueError(f"the checkpoint is of another model: {other[0]!r} is in one of them only")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


# Several processes, of a ``torch.distributed`` group; without one there is one process, and these do nothing


def place() -> tuple[int, int]:
    """Return the number of this process and the number of processes; (0, 1) without a group."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def from_first(compute: Callable[[], Value]) -> Value:
    """Return ``compute()`` of the first process, in every process; the others do not call it.

    What steers a training must be the same everywhere to the bit, or one process goes on while another has stopped.
    """
    rank, world = place()
    if world == 1:
        return compute()
    message = [compute() if rank == 0 else None]
    distributed.broadcast_object_list(message, src=0)
    return message[0]  # type: ignore[return-value]


def gathered(value: Value) -> list[Value]:
    """Return every process's ``value``, by the number of the process."""
    values: list[Any] = [value] * place()[1]
    if len(values) > 1:
        distributed.all_gather_object(values, value)
    return values


def spread(tensors: Iterable[Tensor]) -> None:
    """Overwrite ``tensors`` in place by those of the first process, byte by byte and one after another."""
    if place()[1] == 1:
        return
    for tensor in tensors:
        flat = tensor.detach().contiguous()
        if flat.numel():
            distributed.broadcast(flat.view(-1).view(torch.uint8), src=0)
            tensor.detach().copy_(flat)


def tensors_of_first(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the first process's ``tensors`` in every process, on ``device``."""
    rank, world = place()
    if world == 1:
        return dict(tensors)
    shapes = from_first(lambda: {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()})
    found = {name: tensors[name].to(device) if rank == 0 else torch.empty(shape, dtype=kind, device=device)
             for name, (shape, kind) in shapes.items()}
    spread(found.values())
    return found


def total_of_all(sums: dict[str, float]) -> dict[str, float]:
    """Return the sum of all processes' ``sums``, name by name; a name that one of them lacks counts as 0."""
    total: dict[str, float] = {}
    for own in gathered(sums):
        for name, value in own.items():
            total[name] = total.get(name, 0.0) + value
    return total


def add_gradients_of_all(parameters: Sequence[nn.Parameter]) -> None:
    """Put the sum of all processes' gradients into the parameters; every process calls it once a step."""
    if place()[1] == 1:
        return
    without = [parameter.grad is None for parameter in parameters]
    there = torch.tensor([not lacks for lacks in without], dtype=torch.float32, device=parameters[0].device)
    distributed.all_reduce(there)
    flat = torch.cat([(torch.zeros_like(one) if one.grad is None else one.grad).flatten() for one in parameters])
    distributed.all_reduce(flat)
    for parameter, total in zip(parameters, flat.split([one.numel() for one in parameters]), strict=True):
        parameter.grad = total.view_as(parameter)
    if any(without):  # only then is the device waited for
        for parameter, count in zip(parameters, there.tolist(), strict=True):
            if not count:
                parameter.grad = None
