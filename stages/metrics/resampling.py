"""Bootstrap over items: intervals of metrics, and paired tests of their differences.

A metric takes part as a :class:`Statistic`: what each item adds to some sums, and the value that follows from those
sums. That holds for means of per-item scores and for corpus metrics such as BLEU alike, and a resample then costs a
product of matrices and no counting of n-grams. Distinct-n and self-BLEU do not follow from sums: a resample has items
twice, and both would take the repetition for lack of variety.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

# Numbers of a block of weights: bounds memory to a few dozen MiB, and changes no value.
_BLOCK = 2_000_000
# Differences below this are ties: equal systems may differ in the last bit of a sum.
_TIE = 1e-12


@dataclass(frozen=True)
class Statistic:
    """A metric of sums over items: what each item adds (n_items, k), and the metric of sums (..., k) -> (...)."""

    items: np.ndarray
    of_sums: Callable[[np.ndarray], np.ndarray]

    def value(self) -> float:
        """Return the metric of all items."""
        return float(self.of_sums(self.items.sum(axis=0)))


@dataclass(frozen=True)
class Difference:
    """A metric of two systems on the same items, with percentile interval and p value of first minus second."""

    first: float
    second: float
    low: float
    high: float
    p_value: float

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first - self.second


def mean_statistic(values: np.ndarray) -> Statistic:
    """Return the mean of ``values`` (n_items,); NaN marks items that do not count, the mean of no item is 0."""
    counted = ~np.isnan(values)
    return Statistic(np.stack([np.where(counted, values, 0.0), counted], axis=1),
                     lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1))


def resampled(statistics: Mapping[str, Statistic], resamples: int, seed: int) -> dict[str, np.ndarray]:
    """Return every statistic on the same ``resamples`` bootstrap resamples of the items, each (resamples,).

    Calls with equal seed and number of items draw equal resamples, so that systems may be compared across calls.
    Different numbers of items, or none, are a ValueError.
    """
    if not statistics:
        return {}
    counts = {len(statistic.items) for statistic in statistics.values()}
    if len(counts) > 1 or 0 in counts:
        raise ValueError(f"statistics of the same items are resampled together, not of {sorted(counts)} items")
    columns = np.concatenate([statistic.items for statistic in statistics.values()], axis=1).astype(np.float64)
    ends = np.cumsum([statistic.items.shape[1] for statistic in statistics.values()])
    sums = np.concatenate([weights @ columns for weights in item_weights(len(columns), resamples, seed)])
    parts = np.split(sums, ends[:-1], axis=1)
    return {name: statistic.of_sums(part) for (name, statistic), part in zip(statistics.items(), parts, strict=True)}


def item_weights(items: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each item was drawn in each resample, in blocks (b, items) of float64; rows sum to ``items``."""
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // items)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = generator.integers(0, items, size=(count, items))
        places = (drawn + items * np.arange(count)[:, None]).ravel()
        yield np.bincount(places, minlength=count * items).reshape(count, items).astype(np.float64)


def interval(samples: np.ndarray, level: float) -> tuple[float, float]:
    """Return the percentile interval of a statistic on its resamples (Efron and Tibshirani 1993, chapter 13)."""
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def p_value(differences: np.ndarray) -> float:
    """Return the two-sided p value of the paired bootstrap (Koehn 2004), from the differences on R resamples.

    min(1, 2 (min(#{d <= 0}, #{d >= 0}) + 1) / (R + 1)): the level at which the percentile interval of the difference
    reaches 0, and never below 2 / (R + 1).
    """
    against = min((differences <= _TIE).sum(), (differences >= -_TIE).sum())
    return float(min(1.0, 2 * (against + 1) / (len(differences) + 1)))


def difference(first: float, second: float, first_samples: np.ndarray, second_samples: np.ndarray,
               level: float) -> Difference:
    """Return the difference of two systems from their values and from both on the same resamples (R,)."""
    differences = first_samples - second_samples
    low, high = interval(differences, level)
    return Difference(first, second, low, high, p_value(differences))


def paired_bootstrap(first: Statistic, second: Statistic, resamples: int = 1000, level: float = 0.95,
                     seed: int = 0) -> Difference:
    """Return the difference between two systems' ``first`` and ``second`` value of a metric on the same items."""
    samples = resampled({"first": first, "second": second}, resamples, seed)
    return difference(first.value(), second.value(), samples["first"], samples["second"], level)
