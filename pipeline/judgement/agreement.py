"""How far raters agree: Fleiss' and Cohen's kappa (METHODS E.5)."""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, get_args

import numpy as np
import pandas as pd

from stages.runtime.errors import InputError, nearest

Weights = Literal["none", "linear", "quadratic"]
_WEIGHTS: dict[str, Weights] = {name: name for name in get_args(Weights)}
# Proportions are sums of fractions: what is below this is 0 but for rounding.
_ROUNDING = 1e-12


def weights_called(name: str) -> Weights:
    """Return the weights of disagreements called ``name``.

    Raises:
        InputError: there are none of that name.
    """
    if name not in _WEIGHTS:
        raise InputError(f"--weights: no weights are called {name!r}; {nearest(name, _WEIGHTS)}")
    return _WEIGHTS[name]


def fleiss_kappa(counts: np.ndarray) -> float:
    """Return Fleiss' kappa.

    P_i = (sum_c n_ic^2 - n) / (n (n - 1)), Pe = sum_c p_c^2, kappa = (mean P - Pe) / (1 - Pe).

    >>> round(fleiss_kappa(np.array([[2, 1, 0], [1, 2, 0], [0, 1, 2], [1, 1, 1]])), 6)
    -0.148936

    Args:
        counts: (N, C) raters who put item i into category c; every row has the same sum n >= 2.

    Returns:
        At most 1; NaN where it is undefined, because all ratings are one category or there are none.

    Raises:
        ValueError: rows have different sums, or fewer than two raters.
    """
    counts = np.asarray(counts, dtype=float)
    if not len(counts):
        return float("nan")
    raters = counts.sum(1)
    if len(set(raters)) > 1 or raters[0] < 2:
        raise ValueError("every item needs the same number of raters, two or more")
    n = raters[0]
    observed = ((counts**2).sum(1) - n) / (n * (n - 1))
    expected = float(((counts.sum(0) / counts.sum()) ** 2).sum())
    if 1 - expected < _ROUNDING:
        return float("nan")
    return float((observed.mean() - expected) / (1 - expected))


def cohen_kappa(first: Sequence[int], second: Sequence[int], points: Sequence[int],
                weights: Weights = "none") -> float:
    """Return Cohen's kappa of two raters of the same items.

    Args:
        first, second: (N,) scores.
        points: of the scale, in order.
        weights: of disagreements: all alike, by their distance on the scale, or by its square.

    Returns:
        At most 1; NaN where it is undefined: no items, or both raters gave one and the same score throughout.
    """
    place = {point: index for index, point in enumerate(points)}
    size = len(points)
    table = np.zeros((size, size))
    for one, other in zip(first, second, strict=True):
        table[place[one], place[other]] += 1
    total = table.sum()
    if not total:
        return float("nan")
    distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    cost = {"none": distance > 0, "linear": distance, "quadratic": distance**2}[weights].astype(float)
    expected = float((cost * np.outer(table.sum(1), table.sum(0)) / total).sum())
    if expected < _ROUNDING:
        return float("nan")
    return 1 - float((cost * table).sum()) / expected


def rating_counts(judgements: pd.DataFrame, points: Sequence[int], judges: int) -> np.ndarray:
    """Return how many raters gave each score to each output, for outputs that all their raters have judged.

    Args:
        judgements: columns item, run, rater, score, of one criterion.
        points: of the scale.
        judges: raters of each item.

    Returns:
        (N, C) as :func:`fleiss_kappa` takes it.
    """
    counts = judgements.groupby(["item", "run", "score"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=list(points), fill_value=0)
    return counts[counts.sum(axis=1) == judges].to_numpy()


def pairwise_kappas(judgements: pd.DataFrame, points: Sequence[int],
                    weights: Weights = "none") -> dict[tuple[str, str], tuple[float, int]]:
    """Return Cohen's kappa and the number of outputs for every two raters who share some.

    Args:
        judgements: columns item, run, rater, score, of one criterion.
        points: of the scale.
        weights: see :func:`cohen_kappa`.
    """
    scores = judgements.set_index(["item", "run", "rater"])["score"].unstack()
    found = {}
    for first, second in combinations(sorted(scores.columns, key=_in_order), 2):
        both = scores[[first, second]].dropna().astype(int)
        if len(both):
            kappa = cohen_kappa(both[first].tolist(), both[second].tolist(), points, weights)
            found[first, second] = kappa, len(both)
    return found


def _in_order(rater: str) -> tuple[int, str]:
    return len(rater), rater
