"""One training loop for every method: exact accumulation, exact resume, selection on validation.

A state keeps no generator: the loop seeds every micro-batch by name (step and position), and the order of an epoch
likewise, so ``step``, ``epoch`` and ``batch`` stand for every random state and for the position in the data. The
schedule is a function of ``step``. Parameters that are not trained are not stored; the task builds them again.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import inf, isfinite
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from models.common.losses import products
from models.common.parallel import add_gradients_of_all, from_first, place, spread, tensors_of_first, total_of_all
from models.common.task import (
    Bar,
    Batch,
    CheckpointStore,
    History,
    Parts,
    PartSums,
    Settings,
    Speed,
    Step,
    Task,
    epoch_batches,
    loaded_ahead,
    moved,
)

SeedOf = Callable[..., int]
Value = TypeVar("Value")


def fit(task: Task, settings: Settings, store: CheckpointStore, seed_of: SeedOf,
        open_bar: Callable[[int, int], Bar] | None = None) -> History:
    """Train ``task.module`` and leave the weights of its best epoch in it.

    A training that was killed at any moment and is called again with the same arguments goes on from its last
    checkpoint in ``store`` and ends in the same bytes as one that ran through; ``store`` holds only states of these
    very arguments. ``seed_of`` maps ``("order", epoch)``, ``("step", step, micro-batch)`` and ``("validation",)`` to
    seeds; ``open_bar``, given the number of steps and of those done, returns a progress bar.

    With an initialised ``torch.distributed`` group, its processes share the micro-batches of every step and add up
    their gradients. What a micro-batch draws does not depend on who computes it, so any number of processes trains the
    same model up to the rounding of sums. The first process validates, for all of them, saves, and tells the others
    where a training goes on: they need no disk in common.

    Modules all of whose parameters are frozen stay in evaluation mode: they have no dropout, and, where nothing trained
    comes before them, no graph.

    Raises:
        ValueError: nothing to train on, buckets without lengths, or a checkpoint of another model.
        FloatingPointError: a loss, gradient or validation value is not finite.
    """
    with _memory_as_it_comes():
        loop = _Loop(task, settings, store, seed_of)
        loop.resume()
        bar = open_bar(loop.total, loop.state.step) if open_bar else None
        try:
            while not loop.state.finished:
                if settings.epochs:
                    loop.run_epoch(bar)
                else:
                    loop.validate_only()
        finally:
            if bar is not None:
                bar.close()
        return loop.finish()


@contextmanager
def _memory_as_it_comes() -> Iterator[None]:
    """Spare new tensors the NaN that deterministic algorithms fill them with, a pass over all that a step allocates.

    It is for programs that read what they never wrote. No step does: its loss or gradient would not be finite.
    """
    switches: Any = torch.utils.deterministic
    found = switches.fill_uninitialized_memory
    switches.fill_uninitialized_memory = False
    try:
        yield
    finally:
        switches.fill_uninitialized_memory = found


class _Loop:
    """One training: the task, its optimiser, and the state that a checkpoint holds."""

    def __init__(self, task: Task, settings: Settings, store: CheckpointStore, seed_of: SeedOf) -> None:
        if task.n_train < 1:
            raise ValueError("there is no training item")
        self.task, self.settings, self.store, self.seed_of = task, settings, store, seed_of
        self.per_epoch = settings.steps_per_epoch(task.n_train)
        self.total = settings.total_steps(task.n_train)
        self.lengths = task.lengths() if settings.bucket else None
        self.optimiser = _optimiser(task, settings)
        self.rates: list[float] = [group["lr"] for group in self.optimiser.param_groups]
        self.parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.device = self.parameters[0].device
        self.state = State()

    def resume(self) -> None:
        """Go back to the last checkpoint of the first process, if there is one; its weights are those of all."""
        weights, slots, stored = (self.store.load() if place()[0] == 0 else None) or ({}, {}, None)
        if stored is not None:
            load_tensors(self.task.module, weights)
        spread(self.task.module.state_dict().values())
        values = from_first(lambda: stored)
        if values is None:
            return
        load_optimiser(self.optimiser, tensors_of_first(slots, self.device))
        self.state = State(**{**values, "speed": Speed(**values["speed"])})
        self.task.load_extra(self.state.extra)

    def run_epoch(self, bar: Bar | None) -> None:
        """Train the rest of the current epoch, validate, and take a checkpoint."""
        state, settings = self.state, self.settings
        order = epoch_batches(self.task.n_train, settings.batch_size, self.seed_of("order", state.epoch), self.lengths)
        batches, (rank, world) = order[state.batch:], place()
        own = (run for batch in batches for run in settings.micro_batches(batch)[rank::world])
        _train_mode(self.task.module)
        with loaded_ahead(self._load, own, settings.prefetch) as loaded:
            for batch in batches:
                self._train_step(batch, loaded)
                if bar is not None:
                    bar.update(1)
                self._evaluate()
                if state.batch < self.per_epoch:
                    self._save(only_if_due=True)
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
        if place()[0] == 0:
            load_tensors(self.task.module, self.store.best())
        spread(self.task.module.state_dict().values())
        self.task.module.eval()
        row = self.state.rows[self.state.best_epoch - 1]
        best = {name.removeprefix("validation_"): value for name, value in row.items()
                if name.startswith("validation_")}
        stopped_early = self.state.epoch < self.settings.epochs
        settled = row["step"] >= self.settings.final_from_step or self.settings.epochs == 0
        return History(self.state.rows, self.state.best_epoch, best, stopped_early, settled, self.state.speed)

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
        sums, (rank, world) = PartSums(), place()
        self.optimiser.zero_grad(set_to_none=True)
        runs = self.settings.micro_batches(step.batch)
        own = ((number, moved(next(loaded), self.device)) for number in range(rank, len(runs), world))
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
        sums.add({"/norm": norm / place()[1]})  # every process has the norm of the whole batch
        values = total_of_all(sums.read())
        for what, name in (("loss", "loss"), ("gradient", "/norm")):
            _finite(f"the {what} at step {state.step}", values[name])
        state.step, state.batch, state.items = state.step + 1, state.batch + 1, state.items + len(batch)
        for name, value in values.items():
            weight = 1 if name == "/norm" else len(batch)
            state.sums[name] = state.sums.get(name, 0.0) + value * weight

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
        """Return what ``compute`` makes of the model in evaluation mode, without gradients."""
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

    def _save(self, only_if_due: bool = False) -> None:
        """Save the state in the first process; at the end of its epoch, the best weights are the module's own."""
        state = self.state
        if place()[0] != 0 or (only_if_due and not self.store.due()):
            return
        started, best = time.perf_counter(), state.batch == 0 and state.best_epoch == state.epoch
        self.store.save(trained_tensors(self.task.module), optimiser_tensors(self.optimiser), asdict(state), best)
        state.speed.add_checkpoint(time.perf_counter() - started)


def add_gradients(outputs: Sequence[Tensor], weights: Sequence[Tensor | None],
                  parameters: Sequence[nn.Parameter]) -> None:
    """Add the gradients of ``outputs`` to those that ``parameters`` have.

    ``weights`` are the gradients by the outputs, None for a scalar's 1. A backward pass adds parameter by parameter,
    one launch each on a GPU: a sixth of all that a micro-batch launches. Here all are added at once; the sums are the
    same to the bit.
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


def _optimiser(task: Task, settings: Settings) -> torch.optim.Optimizer:
    groups = [{"name": group.name, "params": [p for p in group.parameters if p.requires_grad], "lr": group.rate}
              for group in task.parameter_groups()]
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimiser]
    return kind([group for group in groups if group["params"]], lr=0.0, betas=settings.betas, eps=settings.eps,
                weight_decay=settings.weight_decay, fused=True)


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
    micro-batch goes through the network once for its vectors alone; the contrast of all vectors gives the gradient by
    each of them; then each micro-batch goes through again, under the same seed, and is differentiated from its own
    vectors' gradient on. That is the gradient of the whole batch, with the memory of a micro-batch and one forward
    pass more.

    ``runs`` are the items of every micro-batch of the step, ``own`` those of this process by their place among them;
    ``begun``, given such a place, seeds what the micro-batch draws and sets the precision of a block. Parts, ``loss``
    first, are this process's share.
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


def trained_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return what training changes in ``module``: its trainable parameters and persistent buffers, tied ones once."""
    tensors = {name: parameter.data for name, parameter in module.named_parameters() if parameter.requires_grad}
    kept = set(module.state_dict())
    tensors |= {name: buffer for name, buffer in module.named_buffers() if name in kept}
    return tensors


def load_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy ``tensors`` into the tensors of the same names; other names, of another model, are a ValueError."""
    own = trained_tensors(module)
    if set(own) != set(tensors):
        other = sorted(set(own) ^ set(tensors))
        raise ValueError(f"the checkpoint is of another model: {other[0]!r} is in one of them only")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of ``optimiser`` by ``number of the parameter/name``: its own tensors, not copies."""
    return {f"{number}/{slot}": tensor for number, slots in optimiser.state_dict()["state"].items()
            for slot, tensor in slots.items()}


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load ``tensors`` of :func:`optimiser_tensors` into ``optimiser``."""
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, slot = name.partition("/")
        slots.setdefault(int(number), {})[slot] = tensor
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": slots, "param_groups": groups})
