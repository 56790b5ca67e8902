"""Bootstrap over items, and over seeds and items: intervals of metrics, and paired tests of their differences.

A metric is a :class:`Statistic` of sums over items, so that a resample is a matrix product. An interval over items
treats the trained models as fixed; :func:`over_seeds` also resamples seeds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

# Numbers in a block of weights; bounds memory, and changes no value.
_BLOCK = 2_000_000
# Differences below this are ties: equal systems may differ in the last bit of a sum.
_TIE = 1e-12
POWER = 0.8     # share of experiments in which a difference of size `detectable` would be found
VERDICT = 3     # seeds that a verdict takes


@dataclass(frozen=True)
class Statistic:
    """A metric of sums over items: the summands of each item (n_items, k), and the metric of sums (..., k) -> (...)."""

    items: np.ndarray
    of_sums: Callable[[np.ndarray], np.ndarray]

    def value(self) -> float:
        """Return the metric of all items."""
        return float(self.of_sums(self.items.sum(axis=0)))


def mean_statistic(values: np.ndarray) -> Statistic:
    """Return the mean of ``values`` (n_items,) without NaN; the mean of no item is 0."""
    counted = ~np.isnan(values)
    return Statistic(np.stack([np.where(counted, values, 0.0), counted], axis=1),
                     lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1))


def resampled(statistics: Mapping[str, Statistic], resamples: int, seed: int) -> dict[str, np.ndarray]:
    """Return every statistic on the same bootstrap resamples of the items, each (resamples,)."""
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


def intervals(statistics: Mapping[str, Statistic], resamples: int, level: float,
              seed: int) -> dict[str, list[float]]:
    """Return the interval of every statistic, ``{metric: [low, high]}``; empty for no resamples."""
    samples = resampled(statistics, resamples, seed) if resamples else {}
    return {name: list(interval(values, level)) for name, values in samples.items()}


def p_value(differences: np.ndarray) -> float:
    """Return the two-sided p value of the paired bootstrap (Koehn 2004), from the differences on R resamples.

    It is min(1, 2 (min(#{d <= 0}, #{d >= 0}) + 1) / (R + 1)).
    """
    against = min((differences <= _TIE).sum(), (differences >= -_TIE).sum())
    return float(min(1.0, 2 * (against + 1) / (len(differences) + 1)))


@dataclass(frozen=True)
class Members:
    """A metric of a system under each of S seeds."""

    values: np.ndarray          # of all items (S,)
    samples: np.ndarray         # on the same R resamples of the items (S, R)
    seeds: Sequence[int] = ()   # empty for a system that is not trained, whose one member is paired with any seed

    @property
    def mean(self) -> float:
        """Mean over the members."""
        return float(np.mean(self.values))


@dataclass(frozen=True)
class OverSeeds:
    """A difference, first minus second, over seeds and items."""

    seeds: int              # pairs of seeds; if the systems share fewer than two, the smaller number of seeds
    difference: float       # of the means over these seeds
    low: float              # percentile interval, items and seeds drawn anew
    high: float
    p_value: float          # two-sided, of the t test over seeds: paired if two or more are shared, else Welch's
    detectable: float       # the difference that as many seeds and items would find in four experiments of five

    def sign(self, level: float) -> int:
        """Return 1 or -1 if interval and test agree at ``level``, else 0."""
        if self.p_value >= 1 - level:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def on_shared_seeds(first: Members, second: Members) -> tuple[Members, Members]:
    """Return both with the members that are paired by seed; as they are if they share fewer than two seeds."""
    pairs = _paired(first, second)
    if pairs is None or len(pairs[0]) < 2:
        return first, second
    left, right = (Members(row.values[places], row.samples[places], [row.seeds[place] for place in places if row.seeds])
                   for row, places in zip((first, second), pairs, strict=True))
    return left, right


def over_seeds(first: Members, second: Members, level: float, seed: int) -> OverSeeds | None:
    """Return the difference of two systems over seeds and items; None if a trained one has a single seed.

    Drawing S of S seeds with replacement gives only (S - 1) / S of the variance (Davison and Hinkley 1997, 2.3), so
    deviations from the mean over seeds are multiplied by sqrt(S / (S - 1)).
    """
    from scipy.special import stdtr, stdtrit  # slow to import: `keycontrast run` imports this module

    if first.samples.shape[1] != second.samples.shape[1]:
        raise ValueError(f"over_seeds: {first.samples.shape[1]} and {second.samples.shape[1]} resamples")
    draw = np.random.default_rng(seed)
    if (pairs := _paired(first, second)) is not None:
        left, right = pairs
        values, samples = first.values[left] - second.values[right], first.samples[left] - second.samples[right]
        count = len(values)
        if count < 2:
            return None
        spread, mean = _drawn(samples, draw), float(values.mean())
        freedom, error = count - 1.0, float(values.std(ddof=1)) / sqrt(count)
    else:
        counts = [len(first.values), len(second.values)]
        count = min(counts)
        if count < 2:
            return None
        spread = _drawn(first.samples, draw) - _drawn(second.samples, draw)
        mean = float(first.values.mean() - second.values.mean())
        parts = [float(system.values.var(ddof=1)) / len(system.values) for system in (first, second)]
        below = sum(part**2 / (size - 1) for part, size in zip(parts, counts, strict=True))
        error, freedom = sqrt(sum(parts)), sum(parts)**2 / below if below else float(sum(counts) - 2)   # Welch
    low, high = interval(spread, level)
    p_value = 2 * stdtr(freedom, -abs(mean) / error) if error else float(abs(mean) <= _TIE)
    detectable = (stdtrit(freedom, 1 - (1 - level) / 2) + stdtrit(freedom, POWER)) * spread.std(ddof=1)
    return OverSeeds(count, mean, low, high, float(p_value), float(detectable))


def _paired(first: Members, second: Members) -> tuple[list[int], list[int]] | None:
    """Return the places of the members that are paired by seed; None if fewer than two seeds are shared."""
    if not first.seeds or not second.seeds:
        count = max(len(first.values), len(second.values))
        every, same = list(range(count)), [0] * count   # a system without seeds is compared with each seed of the other
        return every if first.seeds else same, every if second.seeds else same
    common = sorted(set(first.seeds) & set(second.seeds))
    if len(common) < 2 and not (len(first.seeds) == 1 or len(second.seeds) == 1):
        return None
    return [list(first.seeds).index(seed) for seed in common], [list(second.seeds).index(seed) for seed in common]


def _drawn(samples: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return the mean of ``samples`` (S, R) over seeds that are drawn anew on each resample (R,)."""
    count, resamples = samples.shape
    chosen = draw.integers(count, size=(count, resamples))
    means = samples.mean(0)
    return means + sqrt(count / (count - 1)) * (np.take_along_axis(samples, chosen, axis=0).mean(0) - means)
