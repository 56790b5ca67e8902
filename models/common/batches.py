"""From items to batches on a device, and from micro-batches to sums of parts and gradients."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

POOL = 50  # batches sorted together: long enough to find equals, short enough to stay a shuffle


def epoch_batches(n_items: int, batch_size: int, seed: int, lengths: Sequence[int] | None = None) -> list[list[int]]:
    """Return the batches of one epoch: every item once, the last batch drawn possibly smaller.

    Without lengths, the batches are cut from a permutation. With them, the permutation is cut into pools of
    50 batches; each pool is sorted by length (equals stay in the permutation's order) and cut into batches,
    so that little is padded, and the batches of all pools are shuffled. Within a batch items stay sorted, so
    that its micro-batches are of similar lengths too.

    Raises:
        ValueError: not one length per item.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(n_items)
    if lengths is None:
        return _cut(order, batch_size)
    if len(lengths) != n_items:
        raise ValueError(f"{len(lengths)} lengths for {n_items} items")
    of_item = np.asarray(lengths)
    batches: list[list[int]] = []
    for start in range(0, n_items, POOL * batch_size):
        pool = order[start:start + POOL * batch_size]
        batches += _cut(pool[np.argsort(of_item[pool], kind="stable")], batch_size)
    return [batches[number] for number in random.permutation(len(batches))]


def _cut(order: np.ndarray, size: int) -> list[list[int]]:
    return [order[start:start + size].tolist() for start in range(0, len(order), size)]


Key = TypeVar("Key")
Loaded = TypeVar("Loaded")


@contextmanager
def loaded_ahead(load: Callable[[Key], Loaded], keys: Iterable[Key], ahead: int) -> Iterator[Iterator[Loaded]]:
    """Give ``load(key)`` of each key in turn, up to ``ahead`` of them computed in advance by one thread.

    What is given does not depend on ``ahead``, if ``load`` is a function of its key alone. An exception of
    ``load`` comes out where its result would have. The thread ends with the block, however that ends; 0 ``ahead``
    starts none.
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


def pinned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return ``tensors`` in page-locked memory, from which a GPU copies while it computes."""
    return {name: tensor.pin_memory() for name, tensor in tensors.items()}


def moved(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return ``tensors`` on ``device``; copies from pinned memory do not hold up the caller."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}


def batches_in_order(load: Callable[[Sequence[int]], Mapping[str, Tensor]], count: int, size: int,
                     device: torch.device) -> Iterator[dict[str, Tensor]]:
    """Yield ``load`` of the items ``0 .. count - 1``, which is on the CPU, on ``device``, ``size`` items at a time."""
    for start in range(0, count, size):
        yield moved(load(range(start, min(start + size, count))), device)


class PartSums:
    """Named sums in double precision; tensors stay where they are until :meth:`read`."""

    def __init__(self) -> None:
        self._tensors: list[tuple[str, Tensor]] = []
        self._plain: list[tuple[str, float]] = []

    def add(self, parts: Mapping[str, float | Tensor]) -> None:
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


def add_gradients(outputs: Sequence[Tensor], weights: Sequence[Tensor | None],
                  parameters: Sequence[nn.Parameter]) -> None:
    """Add the gradients of ``outputs`` to those that ``parameters`` have.

    A backward pass adds them parameter by parameter, one launch each on a GPU: a sixth of all that a micro-batch
    launches. Here all are added at once, for which they are all held for a moment; the sums are the same to the bit.
    ``weights`` are the gradients by the outputs, None for a scalar's 1.
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
