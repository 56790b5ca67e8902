"""Splits by connected component, by hash, by item or by class, and seeded samples."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from keycontrast.errors import InputError
from stages.common.schemas import SPLITS
from stages.common.seeds import derived_seed, generator

TRAIN, VALIDATION, TEST = range(len(SPLITS))  # as in ALL_SPLITS
LARGEST_HASH = np.iinfo(np.uint64).max


def split_groups(item_groups: np.ndarray, n_groups: int, validation: float, test: float, seed: int,
                 fixed: np.ndarray | None = None) -> np.ndarray:
    """Return the split (index into ``SPLITS``) of each component, filled by the seed up to its share of the items.

    Components of more than a tenth of a share come last, so that the largest are in training. Components without items
    (whose texts may be negatives) are drawn by the same shares. ``item_groups`` is the (n_items,) component of each
    item, ``fixed`` the (n_groups,) published split, 0 for none or training; a split that occurs there takes no other
    component.
    """
    sizes = np.bincount(item_groups, minlength=n_groups).astype(np.int32)
    fixed = np.zeros(n_groups, dtype=np.int8) if fixed is None else fixed
    wanted = _wanted(np.unique(fixed).tolist(), validation, test)
    free_items = int(sizes[fixed == 0].sum())
    filled = int(np.count_nonzero(sizes[fixed == 0]))
    if filled < len(wanted) + 1:
        *names, last = [SPLITS[TRAIN], *(SPLITS[which] for which, _ in wanted[::-1])]
        listed = f"{', '.join(names)} and {last}" if names else last
        raise InputError(f"{free_items} examples in {filled} connected groups of texts cannot be cut into {listed}, "
                         f"which may share no text: at least {len(names) + 1} groups are needed. Give more data.")
    rng = generator(seed, "ingest", "splits")
    shuffled = rng.permutation(n_groups).astype(np.int32)
    drawn_validation, drawn_test = (dict(wanted).get(which, 0.0) for which in (VALIDATION, TEST))
    parts = [1 - drawn_validation - drawn_test, drawn_validation, drawn_test]
    split = rng.choice(len(SPLITS), size=n_groups, p=parts).astype(np.int8)
    split[sizes > 0] = TRAIN
    split[fixed > 0] = fixed[fixed > 0]
    assigned = (sizes == 0) | (fixed > 0)
    for left, (which, share) in enumerate(wanted):
        free = shuffled[~assigned[shuffled]]
        chosen = _fill(free, sizes, max(1, round(share * free_items)), len(free) - len(wanted) + left)
        split[chosen] = which
        assigned[chosen] = True
    return split


def split_by_hash(hashes: np.ndarray, sizes: np.ndarray, validation: float, test: float, seed: int,
                 fixed: np.ndarray | None = None) -> np.ndarray:
    """Return the split (index into ``SPLITS``) of each component, drawn by its hash and the seed.

    Data sets of the same rows, seed and shares agree, whatever items they make: no text that one evaluates is trained
    on by another. Shares are met on average. A component is in training if it has more texts than a tenth of the
    smaller share and more than the average component. ``hashes`` (uint64), ``sizes`` (texts in pairs) and ``fixed`` (as
    of ``split_groups``) are (n_components,).
    """
    drawn = _drawn(hashes, derived_seed(seed, "ingest", "splits", "hashed"))
    split = np.full(len(hashes), TRAIN, dtype=np.int8)
    fixed = split if fixed is None else fixed
    small = ~large_components(sizes, min(validation, test)) & (fixed == TRAIN)
    for which, low, share in ((TEST, 0.0, test), (VALIDATION, test, validation)):
        if not (fixed == which).any():
            split[small & (drawn >= low) & (drawn < low + share)] = which
    return np.where(fixed == TRAIN, split, fixed)


def in_range(hashes: np.ndarray, part: Sequence[float], seed: int) -> np.ndarray:
    """Return which components have a second draw in ``part``, a lower and an excluded upper bound, (n_components,)."""
    drawn = _drawn(hashes, derived_seed(seed, "ingest", "splits", "part"))
    return (drawn >= part[0]) & (drawn < part[1])


def _drawn(hashes: np.ndarray, salt: int) -> np.ndarray:
    """Return the hashes, salted and well mixed (the finaliser of SplitMix64), as numbers in [0, 1)."""
    mixed = hashes ^ np.uint64(salt)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def large_components(sizes: np.ndarray, share: float) -> np.ndarray:
    """Return which components are too large to be evaluated, (n_components,) bool; see ``split_by_hash``."""
    filled = int(np.count_nonzero(sizes))
    return sizes > max(share * int(sizes.sum()) / 10, int(sizes.sum()) / max(1, filled))


def split_items(rank: np.ndarray, published: Collection[int], validation: float, test: float, seed: int,
                outside: np.ndarray | None = None) -> np.ndarray:
    """Return the split of each item where texts may be in several (``split_by: pair``): drawn by the seed.

    ``rank`` (n_items,) is the published split of each, 0 where it is free or training; the splits in ``published`` take
    no other item. Those ``outside`` (n_items,) are not drawn. Raises ``InputError`` if there are too few items.
    """
    split = rank.astype(np.int8)
    free = np.flatnonzero(rank == 0 if outside is None else (rank == 0) & ~outside).astype(np.int32)
    wanted = _wanted(published, validation, test)
    if len(free) < len(wanted) + 1:
        raise InputError(f"{len(free)} examples cannot be cut into {len(wanted) + 1} splits. Give more data.")
    shuffled = generator(seed, "ingest", "splits").permutation(free)
    start = 0
    for which, share in wanted:
        end = start + max(1, round(share * len(free)))
        split[shuffled[start:end]] = which
        start = end
    return split


def split_classes(label: np.ndarray, names: list[str], rank: np.ndarray, published: Collection[int],
                  validation: float, test: float, seed: int, single: np.ndarray | None = None) -> np.ndarray:
    """Return the split of each labelled text: the published one, or drawn from training class by class.

    Every class gives its share, rounded down, and those with the largest remainders one more, up to the share of all
    texts. Every class keeps one text for training.

    Args:
        label: (n,) number of the class in ``names``.
        rank: (n,) published split, 0 for none or training; those in ``published`` take no other text.
        single: (n,) whether a text occurs once; others stay in training, so that no text is trained on and evaluated.
    """
    split = rank.astype(np.int8)
    free = np.flatnonzero(rank == 0)
    single = np.ones(len(label), dtype=bool) if single is None else single
    sizes = np.bincount(label[free], minlength=len(names))
    wanted = _wanted(published, validation, test)
    starts = np.zeros(len(names), dtype=np.int64)
    if len(free) < len(wanted) + 1:
        raise InputError(f"{len(free)} labelled texts cannot be cut into {len(wanted) + 1} splits. Give more data.")
    orders = [generator(seed, "ingest", "classes", name).permutation(free[(label[free] == number) & single[free]])
              for number, name in enumerate(names)]
    spare = np.minimum([len(order) for order in orders], np.maximum(sizes - 1, 0))
    for which, share in wanted:
        counts = _shares(sizes, share, spare - starts)
        if not counts.any():
            raise InputError(f"no class has a text to spare for {SPLITS[which]}: each keeps one for training. Give "
                             f"more data, or name a file under splits.{SPLITS[which]}.")
        for order, start, count in zip(orders, starts.tolist(), counts.tolist(), strict=True):
            split[order[start:start + count]] = which
        starts += counts
    return split


def _shares(sizes: np.ndarray, share: float, spare: np.ndarray) -> np.ndarray:
    """Return how many texts each class gives, at most those to ``spare``: together ``share`` of all, at least one."""
    exact = share * sizes
    counts = np.minimum(np.floor(exact).astype(np.int64), spare)
    for number in np.argsort(-(exact - np.floor(exact)), kind="stable").tolist():
        if counts.sum() >= max(1, round(share * int(sizes.sum()))):
            break
        counts[number] += counts[number] < spare[number]
    return counts


def _wanted(published: Collection[int], validation: float, test: float) -> list[tuple[int, float]]:
    """Return the splits that are to be drawn, in the order of drawing, and their shares."""
    return [(which, share) for which, share in ((TEST, test), (VALIDATION, validation)) if which not in published]


def sample_items(split: np.ndarray, limits: Mapping[str, int | None], seed: int,
                 outside: np.ndarray | None = None) -> np.ndarray:
    """Return the places of the items to keep, sorted: at most ``limits[name]`` of each split, drawn by the seed, and
    none of ``outside`` (n_items,)."""
    kept = np.ones(len(split), dtype=bool) if outside is None else ~outside
    for which, name in enumerate(SPLITS):
        limit = limits[name]
        places = np.flatnonzero((split == which) & kept)
        if limit is None or len(places) <= limit:
            continue
        kept[places] = False
        kept[generator(seed, "ingest", "sample", name).choice(places, size=limit, replace=False)] = True
    return np.flatnonzero(kept).astype(np.int32)


def _fill(groups: np.ndarray, sizes: np.ndarray, quota: int, most: int) -> list[int]:
    """Return at most ``most`` of ``groups`` that fill ``quota`` without passing it; the smallest if none fits."""
    large = sizes[groups] > max(1, quota // 10)
    chosen: list[int] = []
    left = quota
    for part in (groups[~large], groups[large]):
        for group in part:
            if left == 0 or len(chosen) >= most:
                break
            if sizes[group] <= left:
                chosen.append(int(group))
                left -= int(sizes[group])
    return chosen or [int(groups[sizes[groups].argmin()])]
