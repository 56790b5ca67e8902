"""The training loop."""

import random
from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np
import torch

from models.training.parallel import add_up, place, wait
from models.training.settings import Settings, warmup_then_decay
from models.training.state import State, load_tensors, pack, trained_tensors, unpack
from models.training.task import Bar, CheckpointStore, History, Step, Task

SeedOf = Callable[..., int]


def fit(task: Task, settings: Settings, store: CheckpointStore, seed_of: SeedOf,
        open_bar: Callable[[int, int], Bar] | None = None) -> History:
    """Train ``task.module`` and leave the weights of its best epoch in it.

    A training that was killed at any moment and is called again with the same arguments goes on from its
    last checkpoint and ends in the same bytes as one that ran through.

    With an initialised ``torch.distributed`` group, its processes share the micro-batches of every step and
    add up their gradients. What a micro-batch draws does not depend on who computes it, so any number of
    processes trains the same model up to the rounding of sums. Each process validates; the first one saves.

    Args:
        task: module, items, loss and validation.
        settings: epochs, batches, rates, patience, selection.
        store: keeps the state; the caller sees to it that it holds only states of these very arguments.
        seed_of: maps names to a seed, e.g. ``partial(derived_seed, seed, "train_hcl")``; called with
            ``("order", epoch)``, ``("step", step, micro-batch)`` and ``("validation",)``.
        open_bar: given the number of steps and of those done, returns a progress bar.

    Raises:
        ValueError: nothing to train on, or a checkpoint of another model.
        FloatingPointError: a loss, gradient or validation value is not finite.

    Example:
        >>> history = fit(task, Settings(epochs=3, batch_size=32), store, partial(derived_seed, 13, "train"))
        >>> history.best_epoch  # doctest: +SKIP
        2
    """
    loop = _Loop(task, settings, store, seed_of)
    loop.resume()
    bar = open_bar(loop.total, loop.state.step) if open_bar else None
    try:
        while not loop.state.finished:
            loop.run_epoch(bar)
    finally:
        if bar is not None:
            bar.close()
    return loop.finish()


class _Loop:
    """One training: the task, its optimiser, and the state that a checkpoint holds."""

    def __init__(self, task: Task, settings: Settings, store: CheckpointStore, seed_of: SeedOf) -> None:
        if task.n_train < 1:
            raise ValueError("there is no training item")
        self.task, self.settings, self.store, self.seed_of = task, settings, store, seed_of
        self.per_epoch = settings.steps_per_epoch(task.n_train)
        self.total = settings.total_steps(task.n_train)
        self.optimiser = _optimiser(task, settings)
        self.rates: list[float] = [group["lr"] for group in self.optimiser.param_groups]
        self.parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.best: dict[str, torch.Tensor] = {}
        self.state = State()

    def resume(self) -> None:
        """Go back to the last checkpoint, if there is one."""
        stored = self.store.load()
        if stored is not None:
            tensors, values = stored
            self.best = unpack(tensors, self.task.module, self.optimiser)
            self.state = State(**values)
        wait()  # nobody saves while another still reads

    def run_epoch(self, bar: Bar | None) -> None:
        """Train the rest of the current epoch, validate, and take a checkpoint."""
        state, size = self.state, self.settings.batch_size
        order = np.random.default_rng(self.seed_of("order", state.epoch)).permutation(self.task.n_train).tolist()
        self.task.module.train()
        while state.batch < self.per_epoch:
            self._train_step(order[state.batch * size:(state.batch + 1) * size])
            if bar is not None:
                bar.update(1)
            if state.step % self.settings.checkpoint_steps == 0 and state.batch < self.per_epoch:
                self._save()
        self._end_epoch(self._validate())
        self._save()

    def finish(self) -> History:
        """Put the best weights into the module and sum up."""
        load_tensors(self.task.module, self.best)
        self.task.module.eval()
        row = self.state.rows[self.state.best_epoch - 1]
        best = {name.removeprefix("validation_"): value for name, value in row.items()
                if name.startswith("validation_")}
        return History(self.state.rows, self.state.best_epoch, best, self.state.epoch < self.settings.epochs)

    def _train_step(self, batch: list[int]) -> None:
        state = self.state
        step = Step(state.step, self.total, state.epoch, batch)
        factor = warmup_then_decay(state.step, self.total, self.settings.warmup)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        sums = self._accumulate(step)
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip))
        _finite(f"the gradient at step {state.step}", norm)
        self.optimiser.step()
        state.step, state.batch, state.items = state.step + 1, state.batch + 1, state.items + len(batch)
        for name, value in sums.items():
            state.sums[name] = state.sums.get(name, 0.0) + value * len(batch)
        state.sums["/norm"] = state.sums.get("/norm", 0.0) + norm

    def _accumulate(self, step: Step) -> dict[str, float]:
        """Add up gradients and parts over the micro-batches of ``step``."""
        sums: dict[str, float] = {}
        rank, world = place()
        self.optimiser.zero_grad(set_to_none=True)
        for number, items in enumerate(self.settings.micro_batches(list(step.batch))):
            if number % world != rank:
                continue
            _seed_all(self.seed_of("step", step.number, number))
            loss, parts = self.task.train_batch(items, step)
            _finite(f"the loss at step {step.number}", float(loss.detach()))
            loss.backward()
            for name, value in {"loss": loss.detach(), **parts}.items():
                sums[name] = sums.get(name, 0.0) + float(value)
        return add_up(self.parameters, sums)

    def _validate(self) -> dict[str, float]:
        _seed_all(self.seed_of("validation"))
        self.task.module.eval()
        with torch.no_grad():
            values = {name: float(value) for name, value in self.task.validate().items()}
        for criterion in self.settings.select:
            _finite(f"validation {criterion.name} after epoch {self.state.epoch + 1}", values[criterion.name])
        return values

    def _end_epoch(self, validation: dict[str, float]) -> None:
        state, settings = self.state, self.settings
        key = [-validation[c.name] if c.largest else validation[c.name] for c in settings.select]
        better = state.best_key is None or key < state.best_key
        if better:
            state.best_key, state.best_epoch = key, state.epoch + 1
            self.best = {name: tensor.clone() for name, tensor in trained_tensors(self.task.module).items()}
        if better or state.step < settings.patience_from:
            state.stale = 0
        else:
            state.stale += 1
        state.rows.append(self._row(validation, better))
        state.epoch, state.batch, state.items, state.sums = state.epoch + 1, 0, 0, {}
        patient = settings.patience is None or state.stale < settings.patience
        state.finished = state.epoch == settings.epochs or not patient

    def _row(self, validation: dict[str, float], better: bool) -> dict[str, Any]:
        state, groups = self.state, self.optimiser.param_groups
        sums = dict(state.sums)
        norm = sums.pop("/norm") / self.per_epoch
        return {"epoch": state.epoch + 1, "step": state.step,
                **{f"rate_{group['name']}": group["lr"] for group in groups}, "gradient_norm": norm,
                **{f"train_{name}": value / state.items for name, value in sums.items()},
                **{f"validation_{name}": value for name, value in validation.items()}, "best": better}

    def _save(self) -> None:
        if place()[0] == 0:
            self.store.save(pack(self.task.module, self.optimiser, self.best), self.state.as_values())


def _optimiser(task: Task, settings: Settings) -> torch.optim.Optimizer:
    groups = [{"name": group.name, "params": [p for p in group.parameters if p.requires_grad], "lr": group.rate}
              for group in task.parameter_groups()]
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimiser]
    return kind([group for group in groups if group["params"]], lr=0.0, betas=settings.betas, eps=settings.eps,
                weight_decay=settings.weight_decay)


def _seed_all(seed: int) -> None:
    """Seed every global generator, so that dropout and the like depend on the step alone."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def _finite(what: str, value: float) -> None:
    if not isfinite(value):
        raise FloatingPointError(f"{what} is {value}; lower the learning rate, or look at the data of that step")
