"""Splits by connected component, and seeded samples of them (METHODS A.1, step 6)."""

from collections.abc import Mapping

import numpy as np

from stages.artifacts.schemas import SPLITS
from stages.runtime.errors import InputError
from stages.runtime.seeds import generator

TRAIN, VALIDATION, TEST = range(len(SPLITS))


def split_groups(item_groups: np.ndarray, n_groups: int, validation: float, test: float, seed: int) -> np.ndarray:
    """Return the split (index into ``SPLITS``) of each component.

    Components are shuffled by the seed; test, then validation, take them while they fit into their share of
    items. Components that would fill more than a tenth of a share come last, so that the largest end in
    train. Components without items (their texts may serve as negatives) are drawn by the same shares.

    Args:
        item_groups: (n_items,) component of each item.
        n_groups: number of components.
        validation: share of items.
        test: share of items.
        seed: the project's seed.

    Raises:
        InputError: fewer than three components hold items, so a split would be empty.
    """
    sizes = np.bincount(item_groups, minlength=n_groups)
    filled = np.count_nonzero(sizes)
    if filled < len(SPLITS):
        raise InputError(f"{len(item_groups)} examples in {filled} connected groups of texts cannot be cut into train, "
                         f"validation and test, which may share no text: at least {len(SPLITS)} groups are needed. "
                         f"Give more data.")
    rng = generator(seed, "ingest", "splits")
    shuffled = rng.permutation(n_groups)
    without = rng.choice(len(SPLITS), size=n_groups, p=[1 - validation - test, validation, test])
    split = np.where(sizes > 0, TRAIN, without)
    taken = sizes == 0
    for which, share, others in ((TEST, test, 2), (VALIDATION, validation, 1)):
        free = [int(number) for number in shuffled if not taken[number]]
        chosen = _fill(free, sizes, max(1, round(share * len(item_groups))), len(free) - others)
        split[chosen] = which
        taken[chosen] = True
    return split


def sample_items(split: np.ndarray, limits: Mapping[str, int | None], seed: int) -> np.ndarray:
    """Return the places of the items to keep, sorted: at most ``limits[name]`` of each split, by the seed."""
    kept = []
    for which, name in enumerate(SPLITS):
        places = np.flatnonzero(split == which)
        limit = limits[name]
        if limit is not None and len(places) > limit:
            places = generator(seed, "ingest", "sample", name).choice(places, size=limit, replace=False)
        kept.append(places)
    return np.sort(np.concatenate(kept))


def _fill(groups: list[int], sizes: np.ndarray, quota: int, most: int) -> list[int]:
    """Return at most ``most`` of ``groups`` that fill ``quota`` without passing it; the smallest if none fits."""
    chosen: list[int] = []
    left = quota
    for group in sorted(groups, key=lambda number: sizes[number] > max(1, quota // 10)):
        if sizes[group] <= left and len(chosen) < most:
            chosen.append(group)
            left -= sizes[group]
    return chosen or [min(groups, key=lambda number: sizes[number])]
