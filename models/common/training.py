"""One training loop for every method: exact accumulation, exact resume, selection on validation, several processes.

A checkpoint holds no random state: micro-batches and the order of an epoch are seeded by their numbers. Parameters that
are not trained are not stored; the task builds them again.
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
from models.common.processes import add_gradients_of_all, broadcast, from_first, place, total_of_all
from models.common.task import Batch, Parts, PartSums, Step, Task, moved

SeedOf = Callable[..., int]
Key = TypeVar("Key")
Value = TypeVar("Value")
POOL = 50  # batches sorted together: enough to find similar lengths, few enough to remain a shuffle
# Micro-batches loaded before a GPU needs them. On a CPU a loading thread takes a core from the step, which then takes
# 6 per cent longer (HCL in `benchmarks training`).
AHEAD = 2
_RECENT = 500  # steps whose durations are stored, for their median


@dataclass(frozen=True)
class Criterion:
    """A validation value that epochs are compared by; ``largest`` if more is better."""

    name: str = "loss"
    largest: bool = False


@dataclass(frozen=True)
class Settings:
    """How to train; plain values, which the params have checked."""

    epochs: int  # passes over the training items at most; 0 leaves the module as it is and validates it once
    batch_size: int  # items per optimiser step; the last batch of an epoch may be smaller
    micro_batch: int | None = None  # items per forward pass; None: the whole batch at once
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0  # of AdamW, which is Adam without it
    warmup: float = 0.0  # share of all steps over which the rates rise linearly from 0
    schedule: Literal["linear", "constant"] = "linear"  # of the rates after that; linear falls to 0
    # Of the matrix products (autocast); weights, gradients, optimiser and losses are fp32.
    precision: Literal["fp32", "bf16"] = "fp32"
    bucket: bool = False  # batches of items of similar length, drawn anew each epoch; the task needs lengths()
    clip: float | None = 1.0  # largest norm of the accumulated gradient, over all groups together
    patience: int | None = None  # epochs in a row without a better validation result that end the training
    # Step from which the objective is the final one (after annealing, pretraining). Epochs that end before it are no
    # candidates for the best one, and patience does not count them; if all do, the last one is the best.
    final_from_step: int = 0
    # The best epoch has the best first criterion; the next ones break ties, and then the earliest epoch wins.
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
        """Return the factor of every learning rate at the 0-based ``step`` of ``total``."""
        rising = round(self.warmup * total)
        if step < rising:
            return (step + 1) / rising
        return 1.0 if self.schedule == "constant" else (total - step) / max(1, total - rising)


@contextmanager
def loaded_ahead(load: Callable[[Key], Value], keys: Iterable[Key], ahead: int) -> Iterator[Iterator[Value]]:
    """Provide ``load(key)`` of each key in turn; a thread computes ``ahead`` of them in advance."""
    if not ahead:
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


# State and result


class CheckpointStore(Protocol):
    """Stores one state, tensors and plain values (JSON); only the first of several processes uses it."""

    def due(self) -> bool:
        """Return whether to save a state within an epoch; the answer does not change the result."""

    def save(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], values: Mapping[str, Any],
             best: bool) -> None:
        """Replace the stored state atomically; ``best`` weights are stored until others are the best."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]] | None:
        """Return weights, optimiser and values of the stored state; None if there is none."""

    def best(self) -> dict[str, Tensor]:
        """Return the weights that were saved as the best."""


class Bar(Protocol):
    """Shows the progress of a training."""

    def update(self, n: int = 1) -> object:
        """Count ``n`` more optimiser steps."""

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Show an epoch by its row of the history."""

    def close(self) -> None:
        """Remove the bar."""


@dataclass
class Speed:
    """Durations of the steps of a training, added up over resumed runs; they are part of no artifact."""

    steps: int = 0                      # without those that a kill undid
    items: int = 0
    seconds: float = 0.0                # of all steps, with waiting for data, without validation and checkpoints
    recent: list[float] = field(default_factory=list)   # of each of the last 500 steps
    checkpoints: int = 0                # saved states
    checkpoint_seconds: float = 0.0     # of saving them, without the state that a training resumed from

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
    best_epoch: int     # the 1-based epoch whose weights the module now has
    best: dict[str, float]  # its validation values
    stopped_early: bool     # patience ended the training
    final: bool = True      # the objective was final in the best epoch; False: in none, and the last epoch is the best
    speed: Speed = field(default_factory=Speed, compare=False)


@dataclass
class State:
    """The plain values of a training in progress, which JSON stores exactly."""

    step: int = 0       # optimiser steps done
    epoch: int = 0      # epochs done
    batch: int = 0      # batches of the current epoch done
    items: int = 0      # items of the current epoch done
    sums: dict[str, float] = field(default_factory=dict)        # of the current epoch: parts times items, and norms
    rows: list[dict[str, Any]] = field(default_factory=list)    # history of the epochs done
    best_key: list[float] | None = None     # criteria of the best epoch, smaller is better; None before the first
    best_epoch: int = 0     # its 1-based number; 0 before the first
    stale: int = 0          # epochs in a row that patience has counted
    finished: bool = False
    extra: dict[str, Any] = field(default_factory=dict)         # of a task that evaluates within epochs
    speed: Speed = field(default_factory=Speed)


# The loop


def fit(task: Task, settings: Settings, store: CheckpointStore, seed_of: SeedOf,
        open_bar: Callable[[int, int], Bar] | None = None) -> History:
    """Train ``task.module`` and leave the weights of its best epoch in it.

    A training that was killed at any moment and is called again with the same arguments resumes from its last
    checkpoint in ``store`` and ends in the same bytes as an uninterrupted one. ``seed_of`` maps ``("order", epoch)``,
    ``("step", step, micro-batch)`` and ``("validation",)`` to seeds; ``open_bar`` gets the steps in all and those done.

    The processes of an initialised ``torch.distributed`` group share the micro-batches of every step, which draw the
    same random numbers in any of them. The first process alone validates and saves, so that they need no common disk.
    Modules whose parameters are all frozen stay in evaluation mode. A loss, gradient or validation value that is not
    finite is a FloatingPointError.
    """
    switches: Any = torch.utils.deterministic
    fills = switches.fill_uninitialized_memory
    # Deterministic algorithms fill new tensors with NaN, a pass over all memory that a step allocates, to expose reads
    # of uninitialised memory. No step has such reads: its loss or gradient would not be finite.
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
        self.optimiser = torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0,
                                           betas=settings.betas, eps=settings.eps,
                                           weight_decay=settings.weight_decay, fused=True)
        self.rates: list[float] = [group["lr"] for group in self.optimiser.param_groups]
        self.parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.device = self.parameters[0].device
        self.state = State()

    def resume(self) -> None:
        """Restore the last checkpoint of the first process, if any; its weights are copied to all processes."""
        stored = self.store.load() if self.rank == 0 else None
        if stored is not None:
            load_tensors(self.task.module, stored[0])
        broadcast(self.task.module.state_dict().values())
        slots_and_values = from_first(lambda: None if stored is None else stored[1:])
        if slots_and_values is None:
            return
        slots, values = slots_and_values
        by_parameter: dict[int, dict[str, Tensor]] = {}
        for name, tensor in slots.items():
            number, _, slot = name.partition("/")
            by_parameter.setdefault(int(number), {})[slot] = tensor
        self.optimiser.load_state_dict({"state": by_parameter,
                                        "param_groups": self.optimiser.state_dict()["param_groups"]})
        self.state = State(**{**values, "speed": Speed(**values["speed"])})
        self.task.load_extra(self.state.extra)

    def run_epoch(self, bar: Bar | None) -> None:
        """Train the rest of the current epoch, validate, and save."""
        state, settings = self.state, self.settings
        order = epoch_batches(self.task.n_train, settings.batch_size, self.seed_of("order", state.epoch), self.lengths)
        batches = order[state.batch:]
        own = (run for batch in batches for run in settings.micro_batches(batch)[self.rank::self.world])
        _train_mode(self.task.module)
        with loaded_ahead(self._load, own, AHEAD if self.device.type == "cuda" else 0) as loaded:
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
        """Validate the module as it is, as epoch 0, and save."""
        values = from_first(self._validate)
        row = {"epoch": 0, "step": 0, **{f"validation_{name}": value for name, value in values.items()}, "best": True}
        self.state = replace(self.state, rows=[row], finished=True)
        self._save()

    def finish(self) -> History:
        """Load the best weights into the module and return the history."""
        if self.rank == 0:
            load_tensors(self.task.module, self.store.best())
        broadcast(self.task.module.state_dict().values())
        self.task.module.eval()
        row = self.state.rows[self.state.best_epoch - 1]
        best = {name.removeprefix("validation_"): value for name, value in row.items()
                if name.startswith("validation_")}
        final = row["step"] >= self.settings.final_from_step or self.settings.epochs == 0
        return History(self.state.rows, self.state.best_epoch, best, self.state.epoch < self.settings.epochs, final,
                       self.state.speed)

    def _load(self, items: Sequence[int]) -> Batch:
        batch = self.task.load(items)
        if self.device.type != "cuda":
            return batch
        with torch.cuda.device(self.device):  # the current device of a new thread is the first one
            return {name: tensor.pin_memory() for name, tensor in batch.items()}

    def _train_step(self, batch: list[int], loaded: Iterator[Batch]) -> None:
        started, state = time.perf_counter(), self.state
        factor = self.settings.rate_factor(state.step, self.total)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        step = Step(state.step, self.total, state.epoch, batch)
        self.task.begin_step(step)
        sums = self._accumulate(step, loaded)
        add_gradients_of_all(self.parameters)
        clip = self.settings.clip
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, inf if clip is None else clip)
        self.optimiser.step()
        self._count(batch, sums, norm)
        state.speed.add(len(batch), time.perf_counter() - started)

    def _accumulate(self, step: Step, loaded: Iterator[Batch]) -> PartSums:
        """Accumulate gradients and parts over this process's micro-batches of ``step``."""
        sums = PartSums()
        self.optimiser.zero_grad(set_to_none=True)
        runs = self.settings.micro_batches(step.batch)
        own = ((number, moved(next(loaded), self.device)) for number in range(self.rank, len(runs), self.world))
        if not self.task.contrasts or len(runs) == 1:
            for number, batch in own:
                with self._seeded(step, number):
                    loss, parts = self.task.train_batch(batch, step)
                loss.backward()
                sums.add({"loss": loss, **parts})
            return sums
        batches = list(own)
        parts, by_vectors = cached_contrast(self.task, step, runs, batches, partial(self._seeded, step))
        for number, batch in batches:
            with self._seeded(step, number):
                loss, own_parts, vectors = self.task.without_contrast(batch, step)
            torch.autograd.backward([loss, vectors], [None, by_vectors[number].to(vectors.dtype)])
            sums.add({"loss": loss, **own_parts})
        sums.add(parts)
        return sums

    def _seeded(self, step: Step, number: int) -> torch.autocast:
        """Seed the random numbers of a micro-batch of ``step``, and return the context of its precision."""
        _seed_all(self.seed_of("step", step.number, number), self.device)
        return products(self.device, self.settings.precision)

    def _count(self, batch: list[int], sums: PartSums, norm: torch.Tensor) -> None:
        """Add the step to the state; this is the only place of a step where the host waits for the device."""
        state = self.state
        sums.add({"/norm": norm / self.world})  # every process has the norm of the whole batch
        values = total_of_all(sums.read())
        for what, name in (("loss", "loss"), ("gradient", "/norm")):
            _check_finite(f"the {what} at step {state.step}", values[name])
        state.step, state.batch, state.items = state.step + 1, state.batch + 1, state.items + len(batch)
        for name, value in values.items():
            state.sums[name] = state.sums.get(name, 0.0) + value * (1 if name == "/norm" else len(batch))

    def _evaluate(self) -> None:
        """Evaluate within the epoch, if it is due; the random numbers of the next steps do not change."""
        task, steps = self.task, self.state.step
        if not task.evaluate_every or steps % task.evaluate_every:
            return
        task.on_evaluation(steps, from_first(lambda: self._in_evaluation(lambda: task.evaluate(steps))))
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
            _check_finite(f"validation {criterion.name} after epoch {self.state.epoch + 1}", values[criterion.name])
        return values

    def _end_epoch(self, validation: dict[str, float]) -> None:
        state, settings = self.state, self.settings
        key = [-validation[c.name] if c.largest else validation[c.name] for c in settings.select]
        final, last = state.step >= settings.final_from_step, state.epoch + 1 == settings.epochs
        # Where no epoch was final, the last one is the best.
        better = state.best_key is None or key < state.best_key if final else last
        if better:
            state.best_key, state.best_epoch = key, state.epoch + 1
        state.stale = 0 if better or not final else state.stale + 1
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
        """Save the state in the first process; at the end of the best epoch, its weights are also the best."""
        state = self.state
        if self.rank != 0:
            return
        started, best = time.perf_counter(), state.batch == 0 and state.best_epoch == state.epoch
        slots = {f"{number}/{slot}": tensor for number, slots in self.optimiser.state_dict()["state"].items()
                 for slot, tensor in slots.items()}  # by number of the parameter and name
        self.store.save(trained_tensors(self.task.module), slots, asdict(state), best)
        state.speed.checkpoints += 1
        state.speed.checkpoint_seconds += time.perf_counter() - started


def _train_mode(module: torch.nn.Module) -> None:
    """Set training mode, except for the parts whose parameters are all frozen."""
    module.train()
    for part in module.modules():
        parameters = list(part.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            part.eval()


def _seed_all(seed: int, device: torch.device) -> None:
    """Seed every global generator in use, so that dropout and the like depend on the step alone."""
    # Not torch.manual_seed, which stores a stack trace for each kind of device that is not in use.
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed_all(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def _check_finite(what: str, value: float) -> None:
    if not isfinite(value):
        raise FloatingPointError(f"{what} is {value}; lower the learning rate, or look at the data of that step")


def cached_contrast(task: Task, step: Step, runs: Sequence[Sequence[int]], own: Sequence[tuple[int, Batch]],
                    seeded: Callable[[int], AbstractContextManager[object]]) -> tuple[Parts, dict[int, Tensor]]:
    """Contrast one step's batch; return its parts, and its gradient by the vectors of this process's micro-batches.

    Gradient caching (Gao et al. 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup): each
    micro-batch passes the network once for its vectors alone. The contrast of all vectors then gives the gradient that
    a second pass, under the same seed, propagates. ``runs`` are the items of every micro-batch of the step, ``own``
    those of this process by their number; ``seeded`` seeds a micro-batch and returns the context of its precision.
    """
    of_run = {}
    for number, batch in own:
        # Gradients stay enabled: without them torch may choose other kernels, which draw other dropout.
        with seeded(number):
            of_run[number] = task.without_contrast(batch, step)[2].detach()
    ends = list(accumulate(map(len, runs)))
    rows = {number: slice(ends[number] - len(runs[number]), ends[number]) for number in of_run}
    like, width = next(task.module.parameters()), from_first(lambda: of_run[0].shape[1])
    vectors = torch.zeros(ends[-1], width, dtype=like.dtype, device=like.device)  # (B, W), of all processes
    for number, part in of_run.items():
        vectors[rows[number]] = part.to(like.dtype)
    processes = place()[1]
    if processes > 1:  # one process has a row, and the others add 0
        distributed.all_reduce(vectors)
    with seeded(0):
        loss, parts = task.contrast(vectors.requires_grad_(), step)
    gradient, = torch.autograd.grad(loss, vectors)
    # Every process has the contrast of the whole batch, and counts its share.
    shares: Parts = {name: value / processes for name, value in {"loss": loss, **parts}.items()}
    return shares, {number: gradient[rows[number]] for number in of_run}


# Tensors of a checkpoint


def trained_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that training changes: trainable parameters and persistent buffers, tied ones once."""
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
