"""What benchmarks of trainings share: processes that keep freed memory or not, a clock of steps, a store of nothing."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import Row
from stages.runtime.memory import keep_freed_memory

_FREE = 0.9  # share of the time by the clock in which a contender worked
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
    """Keeps no checkpoint, and no copy of the best weights: after one epoch they are the module's own."""

    def due(self) -> bool:
        """Ask for nothing."""
        return False

    def save(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], values: Mapping[str, Any],
             best: bool) -> None:
        """Point at the weights."""
        self.weights = dict(weights)

    def load(self) -> None:
        """Find nothing."""

    def best(self) -> dict[str, Tensor]:
        """Return the weights of the only epoch."""
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


def in_process(train: Callable[[Any], Any], job: Any, threads: int, keep: bool, deterministic: bool) -> None:
    """Train in this process as one of :func:`process` would, for the sake of its memory."""
    _begin(threads, keep, deterministic)
    train(job)


def device() -> str:
    """Return where trainings run: the GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def place() -> str:
    """Return the name of :func:`device`."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def take_turns(contenders: Mapping[str, Callable[[], Ran]], repeats: int, items: int,
               unit: str) -> tuple[list[Row], list[dict[str, Any]], list[float]]:
    """Let ``contenders`` work in turn; return rows, a table of both clocks, and all losses.

    Rows have processor seconds, which work beside them disturbs less than it does the clock; on a GPU those of the
    clock.
    """
    ran = {name: Ran() for name in contenders}
    for _ in range(repeats):
        for name, work in contenders.items():
            ran[name] += work()
    spent = {name: one.seconds if device() == "cuda" else one.processor for name, one in ran.items()}
    first = next(iter(ran))
    rows = [Row(name, median(one), min(one), max(one), items / median(one), unit, median(one) / median(spent[first]))
            for name, one in spent.items()]
    table = [{"contender": name, "median processor seconds": median(one.processor),
              "median seconds": median(one.seconds),
              "times as long by the clock": median(one.seconds) / median(ran[first].seconds)}
             for name, one in ran.items()]
    return rows, table, [loss for one in ran.values() for loss in one.losses]


def of_clocks(table: list[dict[str, Any]]) -> str:
    """Return a sentence on which clock the rows of :func:`take_turns` are by, and whether other work ran beside."""
    if device() == "cuda":
        return "Times of the rows are by the clock."
    share = sum(row["median processor seconds"] for row in table) / sum(row["median seconds"] for row in table)
    busy = ("the cores were free" if share > _FREE else
            f"other work ran beside, and left {share:.0%} of a core to each contender in its turn")
    return f"Times of the rows are processor seconds, which on a free core are those of the clock; {busy}."


def _begin(threads: int, keep: bool, deterministic: bool) -> None:
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    if keep and not keep_freed_memory():
        raise RuntimeError("this C library cannot keep freed memory")
