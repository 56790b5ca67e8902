"""Loading ahead: while one micro-batch is computed, one thread puts the next ones together."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

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
