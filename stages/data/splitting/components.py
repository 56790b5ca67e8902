"""Connected components of texts, by hooking and pointer jumping over a stream of pairs."""

from collections.abc import Iterable

import numpy as np

_CHUNK = 2**17


def components(n_texts: int, pair_arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Return the (n_texts,) connected component of each text, numbered by first text.

    Twelve bytes per text; the pairs are only passed over. Each round hooks roots onto smaller roots (Shiloach
    and Vishkin, 1982) and halves every path it walks, so that a chain of n texts takes log n rounds.

    Args:
        n_texts: number of texts.
        pair_arrays: arrays (n, 2) of text numbers.
    """
    parent = np.arange(n_texts, dtype=np.int32)
    for pairs in pair_arrays:
        for start in range(0, len(pairs), _CHUNK):
            one, other = pairs[start:start + _CHUNK].T
            while len(one):
                one, other = _roots(parent, one), _roots(parent, other)
                apart = one != other
                one, other = one[apart], other[apart]
                np.minimum.at(parent, np.maximum(one, other), np.minimum(one, other))
    for start in range(0, n_texts, _CHUNK):
        _roots(parent, np.arange(start, min(start + _CHUNK, n_texts), dtype=np.int32))
    # A root is the first text of its component, so components are numbered by the roots before them.
    number = np.cumsum(parent == np.arange(n_texts, dtype=np.int32), dtype=np.int32)
    number -= 1
    return number[parent]


def _roots(parent: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return the root of each of ``texts`` and point them nearer to it."""
    while True:
        above = parent[texts]
        top = parent[above]
        if np.array_equal(above, top):
            return above
        parent[texts] = top
