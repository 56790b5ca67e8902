"""Numbers that say what the picture of the latent space says, from the points themselves."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from stages.metrics.resampling import interval, mean_statistic, resampled

NEIGHBOURS = 5
# To the input's point, mu_p.
RESAMPLES, LEVEL = 1000, 0.95
_FROM_INPUT = ("positive", "negative", "output_keyword", "impostor_keyword")


def separation(points: pd.DataFrame, pairs: pd.DataFrame) -> dict[str, object]:
    """Return the measures of a model's points; those that nothing can be said about are None.

    - ``distance_from_input``: for each kind, the mean Euclidean distance between an item's point of that kind and its
      input's, mu_p; ``intervals`` has those of these means, and of the three shares that follow, over items.
    - ``share_positive_nearer``: share of items with a negative whose mu_q(y+) is nearer to mu_p than mu_q(y-) is.
    - ``share_positive_nearer_kl``: the same by KL(q || p), the distance that the instance contrast is about.
    - ``share_output_keyword_nearer``: share of items with an impostor whose output keyword is nearer to q(z|x,y+) than
      the impostor by Mahalanobis distance, as the contrast between levels wants it.
    - ``share_same_kind``: mean share of a point's five nearest neighbours that are of its own kind, and
      ``share_same_kind_by_chance``, what it would be if kinds were shuffled. Far above it, kinds lie apart.
    - ``share_own_target``: share of inputs whose nearest mu_q(y+) of all items is their own; likewise by chance.

    Args:
        points: columns ``example_id``, ``kind`` and ``vector``.
        pairs: see :class:`stages.tracks.hcl.probing.points.LatentPoints`.
    """
    if points.empty:
        return {}
    by_kind = {str(kind): rows.set_index("example_id")["vector"] for kind, rows in points.groupby("kind")}
    distances = {kind: _from_input(by_kind, kind) for kind in _FROM_INPUT if kind in by_kind}
    shares = {"share_positive_nearer": _smaller(distances.get("positive"), distances.get("negative")),
              "share_positive_nearer_kl": _smaller(pairs["kl_positive"], pairs["kl_negative"]),
              "share_output_keyword_nearer": _smaller(pairs["level_output"], pairs["level_impostor"])}
    return {"distance_from_input": {kind: _mean(values.to_numpy()) for kind, values in distances.items()},
            **{name: _mean(values) for name, values in shares.items()},
            "intervals": {**{name: mean_interval(values.to_numpy()) for name, values in distances.items()},
                          **{name: mean_interval(values) for name, values in shares.items()}},
            **_same_kind(points), **_own_target(by_kind)}


def mean_interval(values: np.ndarray) -> list[float] | None:
    """Return the bootstrap interval of the mean of ``values`` (n,), one per item; None for no item."""
    if not len(values):
        return None
    found = resampled({"mean": mean_statistic(values.astype(np.float64))}, RESAMPLES, 0)
    return list(interval(found["mean"], LEVEL))


def _from_input(by_kind: Mapping[str, pd.Series], kind: str) -> pd.Series:
    """Return the distance of each item's point of ``kind`` to its input's, by example id."""
    inputs, others = by_kind["input"], by_kind[kind]
    here = inputs.loc[others.index]
    gaps = np.stack(list(others)) - np.stack(list(here))
    return pd.Series(np.linalg.norm(gaps.astype(np.float64), axis=1), index=others.index)


def _smaller(one: pd.Series | None, other: pd.Series | None) -> np.ndarray:
    """Return whether ``one`` is smaller, for each of the items that have both."""
    if one is None or other is None:
        return np.zeros(0, dtype=bool)
    both = pd.concat([one, other], axis=1, keys=["one", "other"]).dropna()
    return (both["one"] < both["other"]).to_numpy()


def _same_kind(points: pd.DataFrame) -> dict[str, float | None]:
    vectors, kinds = np.stack(list(points["vector"])).astype(np.float64), points["kind"].to_numpy()
    count = min(NEIGHBOURS, len(points) - 1)
    if count < 1:
        return {"share_same_kind": None, "share_same_kind_by_chance": None}
    distances = cdist(vectors, vectors)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :count]
    sizes = pd.Series(kinds).value_counts().to_numpy()
    return {"share_same_kind": _mean((kinds[nearest] == kinds[:, None]).mean(axis=1)),
            "share_same_kind_by_chance": float((sizes * (sizes - 1)).sum() / (len(kinds) * (len(kinds) - 1)))}


def _own_target(by_kind: Mapping[str, pd.Series]) -> dict[str, float | None]:
    inputs, targets = by_kind["input"], by_kind["positive"]
    distances = cdist(*(np.stack(list(vectors)).astype(np.float64) for vectors in (inputs, targets)))
    found = targets.index.to_numpy()[distances.argmin(axis=1)]
    return {"share_own_target": _mean(found == inputs.index.to_numpy()),
            "share_own_target_by_chance": 1 / len(targets)}


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
