"""What benchmarks of trainings share: processes that keep freed memory or not, a clock of steps, a store of nothing."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stages.runtime.memory import keep_freed_memory

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


class Nowhere:
    """Keeps no checkpoint."""

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Keep nothing."""

    def load(self) -> None:
        """Find nothing."""


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


def device() -> str:
    """Return where trainings run: the GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def place() -> str:
    """Return the name of :func:`device`."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def _begin(threads: int, keep: bool, deterministic: bool) -> None:
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    if keep and not keep_freed_memory():
        raise RuntimeError("this C library cannot keep freed memory")
