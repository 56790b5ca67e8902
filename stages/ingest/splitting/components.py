"""Connected components of texts."""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def components(n_texts: int, pair_arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Return the (n_texts,) connected component of each text, numbered by first text.

    Args:
        n_texts: number of texts.
        pair_arrays: arrays (n, 2) of text numbers.
    """
    pairs = np.concatenate([np.empty((0, 2), np.int32), *pair_arrays])
    edges = coo_array((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(n_texts, n_texts))
    return connected_components(edges, directed=False)[1] if n_texts else np.empty(0, dtype=np.int32)
