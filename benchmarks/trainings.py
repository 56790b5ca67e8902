"""What benchmarks of trainings share.

Processes that keep freed memory or not, a clock of steps, our loop and a Hugging Face ``Trainer`` over given batches,
and whether two trainings end in the same weights.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from benchmarks.harness import Disagreement, Row
from models.common.training import Settings, Step, epoch_batches, fit
from stages.common.seeds import derived_seed
from stages.run.log import configure
from stages.run.processes import keep_freed_memory

SEED = 13
TOLERANCE = 1e-5  # of losses and weights of two trainings without dropout
Call = Callable[[Callable[[Any], Any], Any], Any]  # a training and its job, to what the training found


class Clock:
    """Takes the time at which each step ends; a bar of our loop."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []
        self.update()

    def update(self, n: int = 1) -> None:
        """Take the time, all work of an accelerator done."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append((time.perf_counter(), time.process_time()))

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Do nothing: steps are timed, not epochs."""

    def close(self) -> None:
        """Do nothing: there is no bar to close."""

    def spent(self, skip: int = 0) -> tuple[list[float], list[float]]:
        """Return seconds and processor seconds of each step but the first ``skip``."""
        seconds, processor = np.diff(self.times, axis=0)[skip:].T.tolist()
        return seconds, processor


@dataclass
class Ran:
    """What one training did, or several: seconds and processor seconds of each step that counts, and losses.

    Attributes:
        weights: at the end, where they are compared.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def __iadd__(self, other: "Ran") -> "Ran":
        """Add what another training found."""
        self.seconds += other.seconds
        self.processor += other.processor
        self.losses += other.losses
        return self


class Nowhere:
    """Keeps no checkpoint, only a copy of the best weights, on their device."""

    def due(self) -> bool:
        """Ask for nothing."""
        return False

    def save(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], values: Mapping[str, Any],
             best: bool) -> None:
        """Keep the weights if they are the best."""
        if best:
            self.weights = {name: tensor.detach().clone() for name, tensor in weights.items()}

    def load(self) -> None:
        """Find nothing."""

    def best(self) -> dict[str, Tensor]:
        """Return the weights of the best epoch."""
        return self.weights


@contextmanager
def here(deterministic: bool) -> Iterator[Call]:
    """Give what trains in this process."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(deterministic)
    try:
        yield lambda train, job: train(job)
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def process(threads: int, keep: bool, deterministic: bool = True) -> Iterator[Call]:
    """Give what trains in a process of its own, which keeps freed memory or hands it back as it comes."""
    with ProcessPoolExecutor(1, get_context("spawn"), _begin, (threads, keep, deterministic)) as executor:
        yield lambda train, job: executor.submit(train, job).result()


@dataclass(frozen=True)
class Sides:
    """Processes that train: ours, with the settings of our stages; a plain one; a plain one that keeps memory."""

    stage: Call
    plain: Call
    kept: Call


@contextmanager
def sides(quick: bool, threads: int, deterministic: bool = True, plain: bool = False) -> Iterator[Sides]:
    """Give the processes; if ``quick`` all of them are this one.

    Args:
        quick: see above.
        threads: of each.
        deterministic: whether a quick one takes deterministic algorithms alone.
        plain: whether those of the other processes but ours do.
    """
    with ExitStack() as stack:
        if quick:
            same = stack.enter_context(here(deterministic))
            yield Sides(same, same, same)
            return
        yield Sides(*(stack.enter_context(process(threads, keep, strict))
                      for keep, strict in ((True, True), (False, plain), (True, plain))))


def observed(task: Any) -> list[Tensor]:
    """Return a list to which ``task`` adds the loss of every micro-batch from now on."""
    losses: list[Tensor] = []
    inner = task.train_batch

    def train_batch(batch: Any, step: Step) -> Any:
        loss, parts = inner(batch, step)
        losses.append(loss.detach())
        return loss, parts

    task.train_batch = train_batch
    return losses


def silent(task: Any) -> Any:
    """Return ``task`` without validation."""
    task.validate = lambda: {"loss": 0.0, "accuracy": 0.0}
    return task


def looped(task: Any, settings: Settings, skip: int = 1) -> Ran:
    """Train with :func:`models.common.training.fit`, without validation; the first ``skip`` steps do not count."""
    clocks: list[Clock] = []
    losses = observed(silent(task))

    def opened(total: int, done: int) -> Clock:
        clocks.append(Clock())
        return clocks[0]

    fit(task, settings, Nowhere(), partial(derived_seed, SEED), opened)
    return ran(clocks[0], losses, None, skip)


def ran(clock: Clock, losses: Sequence[Tensor], model: nn.Module | None, skip: int = 1) -> Ran:
    """Return what a training did; with the weights of ``model``, if they are looked at."""
    return Ran(*clock.spent(skip), [float(loss) for loss in losses], {} if model is None else weights_of(model))


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name, on the CPU."""
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


def same_training(name: str, mine: Ran, other: Ran, steps: int | None = None) -> str:
    """Say how far the losses of the first ``steps``, all by default, and the weights of two trainings lie apart.

    Both are without dropout.

    Raises:
        Disagreement: further than 1e-5.
    """
    if len(mine.losses) != len(other.losses) or mine.weights.keys() != other.weights.keys():
        raise Disagreement(f"{name}: {len(mine.losses)} steps and {len(mine.weights)} weights, the Trainer has "
                           f"{len(other.losses)} and {len(other.weights)}")
    pairs = list(zip(mine.losses, other.losses, strict=True))[:steps]
    loss = max(abs(one - two) for one, two in pairs)
    gap = max(float((mine.weights[name] - other.weights[name]).abs().max()) for name in mine.weights)
    if not (loss <= TOLERANCE and gap <= TOLERANCE):
        raise Disagreement(f"{name}: without dropout, losses differ by up to {loss:.3g} and the weights after "
                           f"{len(mine.losses)} steps by up to {gap:.3g}")
    return (f"without dropout, the losses of {len(pairs)} steps differ by at most {loss:.2g}, and the weights after "
            f"{len(mine.losses)} by at most {gap:.2g}")


def device() -> str:
    """Return where trainings run: the GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def place() -> str:
    """Return the name of :func:`device`."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def take_turns(contenders: Mapping[str, Callable[[], Ran]], repeats: int, items: int, unit: str,
               by_clock: bool = False) -> tuple[list[Row], list[dict[str, Any]], list[float]]:
    """Let ``contenders`` work in turn; return rows, a table of both clocks, and all losses.

    Rows have processor seconds, which work beside them disturbs less than it does the clock; ``by_clock``, for
    contenders of several threads, and on a GPU those of the clock.
    """
    ran = {name: Ran() for name in contenders}
    for _ in range(repeats):
        for name, work in contenders.items():
            ran[name] += work()
    by_clock = by_clock or device() == "cuda"
    spent = {name: one.seconds if by_clock else one.processor for name, one in ran.items()}
    first = next(iter(ran))
    rows = [Row(name, median(one), min(one), max(one), items / median(one), unit, median(one) / median(spent[first]))
            for name, one in spent.items()]
    table = [{"contender": name, "median processor seconds": median(one.processor),
              "median seconds": median(one.seconds),
              "times as long by the clock": median(one.seconds) / median(ran[first].seconds)}
             for name, one in ran.items()]
    return rows, table, [loss for one in ran.values() for loss in one.losses]


def _begin(threads: int, keep: bool, deterministic: bool) -> None:
    configure()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    if keep and not keep_freed_memory():
        raise RuntimeError("this C library cannot keep freed memory")


class _Ends(TrainerCallback):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_step_end(self, *call: Any, **more: Any) -> None:
        self.clock.update()


class _Learner(nn.Module):
    """A task as a Trainer wants it: the loss comes out of a forward pass. Batches come in the order of collation."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.module, self.task = task.module, [task]
        self.waiting: list[Any] = []
        self.losses: list[Tensor] = []

    def collate(self, items: list[int]) -> dict[str, Tensor]:
        """Return the batch of ``items``."""
        self.waiting.append(items)
        return dict(self.task[0].load(items))

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        """Return the loss."""
        loss, _ = self.task[0].train_batch(batch, Step(0, 1, 0, self.waiting.pop(0)))
        self.losses.append(loss.detach())
        return {"loss": loss}


def by_trainer(task: Any, batch_size: int, bf16: bool = False, skip: int = 1, on_cpu: bool | None = None) -> Ran:
    """Train a task with ``transformers.Trainer``: the same module, batches, order and optimiser as our loop's."""
    learner, clock = _Learner(task), Clock()
    optimiser = torch.optim.AdamW([{"params": list(group.parameters), "lr": group.rate}
                                   for group in task.parameter_groups()], lr=0.0, weight_decay=0.0, fused=True)
    seed = derived_seed(SEED, "order", 0)
    batches = task.draw(batch_size, seed, False) if hasattr(task, "draw") else epoch_batches(
        task.n_train, batch_size, seed)
    train_in_order(learner, [item for batch in batches for item in batch], learner.collate, batch_size, optimiser,
                   clock, bf16, on_cpu)
    return ran(clock, learner.losses, None, skip)


def train_in_order(module: nn.Module, items: Sequence[Any], collate: Callable[[list[Any]], dict[str, Any]],
                   batch_size: int, optimiser: torch.optim.Optimizer, clock: Clock, bf16: bool = False,
                   on_cpu: bool | None = None) -> None:
    """Train ``module`` for one epoch with ``transformers.Trainer``, whose output goes nowhere.

    Args:
        module: returns a dictionary with ``loss``; on its device.
        items: in the order in which batches are cut from them.
        collate: makes a batch of items.
        batch_size: items of a batch.
        optimiser: over the module's parameters; its rate stays as it is.
        clock: takes the time at each step's end.
        bf16: autocast of the products.
        on_cpu: whatever devices there are; None takes the GPU if there is one.
    """
    on_cpu = device() == "cpu" if on_cpu is None else on_cpu
    constant = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=batch_size, max_grad_norm=1.0,
            bf16=bf16, use_cpu=on_cpu, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
            train_sampling_strategy="sequential", remove_unused_columns=False, dataloader_pin_memory=not on_cpu)
        trainer = Trainer(module, arguments, collate, list(items), optimizers=(optimiser, constant),  # type: ignore
                          callbacks=[_Ends(clock)])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
