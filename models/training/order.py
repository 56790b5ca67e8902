"""In which batches an epoch takes its items: a pure function of a seed and the items' lengths."""

from collections.abc import Sequence

import numpy as np

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
