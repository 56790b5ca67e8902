"""Splits drawn by the texts of a component alone, so that data sets of the same files agree (METHODS A.1, step 6)."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from stages.common.seeds import derived_seed
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.deduplication.text_keys import text_key
from stages.ingest.splitting.splits import TEST, TRAIN, VALIDATION

_BATCH = 2**13
_HASHES = np.iinfo(np.uint64).max


def split_by_hash(marks: np.ndarray, sizes: np.ndarray, validation: float, test: float, seed: int,
                 fixed: np.ndarray | None = None) -> np.ndarray:
    """Return the split (index into ``SPLITS``) of each component, drawn for itself by its mark and the seed.

    Data sets made of the same rows with the same seed and shares agree, whichever rule, source of negatives or sample
    they take: no text that one evaluates is trained on by another. Shares are met only on average. A component that
    holds more than a tenth of the smaller share's texts, and more than components hold on average, is of training.

    Args:
        marks: (n_components,) uint64, as of ``component_marks``.
        sizes: (n_components,) number of texts in pairs.
        validation: share of components.
        test: likewise.
        seed: the project's seed.
        fixed: (n_components,) published split of each component, 0 where it is free or training; a split that
            occurs here takes no other component.
    """
    drawn = _drawn(marks, derived_seed(seed, "ingest", "splits", "hashed"))
    split = np.full(len(marks), TRAIN, dtype=np.int8)
    fixed = split if fixed is None else fixed
    small = ~large_components(sizes, min(validation, test)) & (fixed == TRAIN)
    for which, low, share in ((TEST, 0.0, test), (VALIDATION, test, validation)):
        if not (fixed == which).any():
            split[small & (drawn >= low) & (drawn < low + share)] = which
    return np.where(fixed == TRAIN, split, fixed)


def inside_part(marks: np.ndarray, part: Sequence[float], seed: int) -> np.ndarray:
    """Return which components have a second draw in ``part``, a lower bound and an excluded upper one, (n_components,).

    Data sets of the same rows whose parts do not overlap share no component.
    """
    drawn = _drawn(marks, derived_seed(seed, "ingest", "splits", "part"))
    return (drawn >= part[0]) & (drawn < part[1])


def _drawn(marks: np.ndarray, salt: int) -> np.ndarray:
    """Return the marks, salted and well mixed (the finaliser of SplitMix64), as numbers in [0, 1)."""
    mixed = marks ^ np.uint64(salt)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def large_components(sizes: np.ndarray, share: float) -> np.ndarray:
    """Return which components are too large to be evaluated, (n_components,) bool; see ``split_by_hash``."""
    filled = int(np.count_nonzero(sizes))
    return sizes > max(share * int(sizes.sum()) / 10, int(sizes.sum()) / max(1, filled))


def component_marks(texts: TextFile, group: np.ndarray) -> np.ndarray:
    """Return the smallest hash of the text keys of each component, (n_components,) uint64; ``group`` is (n_texts,)."""
    marks = np.full(int(group.max(initial=-1)) + 1, _HASHES, dtype=np.uint64)
    start = 0
    for batch in texts.batches(np.ones(len(group), dtype=bool), _BATCH):
        hashes = [blake2b(text_key(text).encode(), digest_size=8).digest() for text in batch]
        np.minimum.at(marks, group[start:start + len(batch)], np.frombuffer(b"".join(hashes), "<u8"))
        start += len(batch)
    return marks
