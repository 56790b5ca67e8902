"""A plane for points of the latent space: t-SNE, the same each time."""

import numpy as np
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

# Enough to draw by, and it hides the last bits of long sums.
_DECIMALS = 3
_EXACT = 1000


def tsne(vectors: np.ndarray, perplexity: float, seed: int) -> tuple[np.ndarray, float]:
    """Return a place in the plane for each vector.

    One thread, the two main axes as the start, and the exact gradient for up to a thousand points, so that nothing
    but the arguments decides.

    Args:
        vectors: points (n, d).
        perplexity: effective number of neighbours; capped at a third of the other points.
        seed: of the random parts of the start.

    Returns:
        Coordinates (n, 2), rounded, and the perplexity used; all 0 for fewer than four points, and for points that
        are all the same, which have no neighbourhoods.
    """
    used = min(perplexity, max(1.0, (len(vectors) - 1) / 3))
    if len(vectors) < 4 or not np.ptp(vectors, axis=0).any():
        return np.zeros((len(vectors), 2)), used
    # The start takes two axes; a latent variable of width 1 has one.
    points = np.pad(vectors.astype(np.float64), ((0, 0), (0, max(0, 2 - vectors.shape[1]))))
    method = "exact" if len(points) <= _EXACT else "barnes_hut"
    with threadpool_limits(limits=1):
        placed = TSNE(n_components=2, perplexity=used, init="pca", random_state=seed % 2**32, method=method,
                      n_jobs=1).fit_transform(points)
    return np.round(placed.astype(np.float64), _DECIMALS) + 0.0, used
