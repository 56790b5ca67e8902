"""From items to batches on a device: their order in an epoch, loading ahead, validation in batches of one size."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from models.common.training.accumulation import PartSums
from models.common.training.task import Parameters

POOL = 50  # batches sorted together: long enough to find equals, short enough to stay a shuffle


def epoch_batches(n_items: int, batch_size: int, seed: int, lengths: Sequence[int] | None = None) -> list[list[int]]:
    """Return the batches of one epoch: every item once, the last batch drawn possibly smaller.

    Without lengths, the batches are cut from a permutation. With them, the permutation is cut into pools of
    50 batches; each pool is sorted by length (equals stay in the permutation's order) and cut into batches,
    so that little is padded, and the batches of all pools are shuffled. Within a batch items stay sorted, so
    that its micro-batches are of similar lengths too.

    Args:
        n_items: items are ``0 .. n_items - 1``.
        batch_size: items per batch; at most one batch has fewer.
        seed: of this epoch.
        lengths: of each item, in any unit.

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
    ``load`` comes out where its result would have. The thread ends with the block, however that ends.

    >>> with loaded_ahead(load, range(3), ahead=2) as batches:  # doctest: +SKIP
    ...     for batch in batches: ...

    Args:
        load: called in the order of ``keys``, never twice at once.
        keys: what to load.
        ahead: 0 for none, and no thread.
    """
    if ahead == 0:
        yield map(load, keys)
        return
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
    try:
        yield _in_turn(executor, load, keys, ahead)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _in_turn(executor: ThreadPoolExecutor, load: Callable[[Key], Loaded], keys: Iterable[Key],
             ahead: int) -> Iterator[Loaded]:
    waiting: deque[Future[Loaded]] = deque()
    for key in keys:
        waiting.append(executor.submit(load, key))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def pinned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return ``tensors`` in page-locked memory, from which a GPU copies while it computes."""
    return {name: tensor.pin_memory() for name, tensor in tensors.items()}


def moved(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return ``tensors`` on ``device``; copies from pinned memory do not hold up the caller."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}


def batches_in_order(load: Callable[[Sequence[int]], Mapping[str, Tensor]], count: int, size: int,
                     device: torch.device) -> Iterator[dict[str, Tensor]]:
    """Yield ``load`` of the items ``0 .. count - 1`` on ``device``, ``size`` of them at a time.

    Args:
        load: returns the tensors of items, on the CPU.
        count: number of items.
        size: items per batch; the last may have fewer.
        device: of the model.
    """
    for start in range(0, count, size):
        yield moved(load(range(start, min(start + size, count))), device)


class BatchedTask:
    """Base of tasks that train every parameter at one rate, and whose validation values are sums over batches.

    Attributes:
        module: what is trained, on its device.
        train: the training items.
        validation: the validation items.
        learning_rate: of every parameter.
        batch_size: items per forward pass in validation.
    """

    module: Any  # nn.Module; a subclass says which
    train: Sized
    validation: Sized
    learning_rate: float
    batch_size: int

    @property
    def n_train(self) -> int:
        """Number of training items."""
        return len(self.train)

    def parameter_groups(self) -> list[Parameters]:
        """Return one group: everything at one rate."""
        module: nn.Module = self.module
        return [Parameters("all", list(module.parameters()), self.learning_rate)]

    def load_validation(self, items: Sequence[int]) -> Mapping[str, Tensor]:
        """Return the tensors of validation items, on the CPU."""
        raise NotImplementedError

    def validation_sums(self, sums: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]) -> dict[str, float]:
        """Return what ``sums`` finds of each batch of validation items, added up name by name."""
        total = PartSums()
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            total.add(sums(batch))
        return total.read()
