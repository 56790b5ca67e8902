"""Differences of systems over seeds and items together: what trainings under several seeds can tell (METHODS E.4).

An interval over items takes the trained models as they are: it says nothing of how the next training would end. Here
both are drawn anew, and a test over seeds stands beside it. A difference counts if both find it: the interval over
items and seeds leaves 0 out, and the p value over seeds is small. A system under one seed gets no such answer.

    a = Members(values=np.array([0.31, 0.33, 0.32]), samples=..., seeds=[13, 14, 15])   # samples (3, R)
    over_seeds(a, b, level=0.95, seed=0)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from stages.metrics.resampling import interval

POWER = 0.8     # share of tables in which a difference of the size `detectable` would be found


@dataclass(frozen=True)
class Members:
    """A metric of a system under each of its seeds.

    Attributes:
        values: of all items (S,).
        samples: on the same R resamples of the items (S, R).
        seeds: of the members; empty for a system that is not trained, whose one member goes with any seed.
    """

    values: np.ndarray
    samples: np.ndarray
    seeds: Sequence[int] = ()


@dataclass(frozen=True)
class OverSeeds:
    """A difference, first minus second, over seeds and items.

    Attributes:
        seeds: pairs of seeds; where the systems share fewer than two, the smaller of their numbers of seeds.
        difference: of the means over these seeds.
        low, high: percentile interval, items and seeds drawn anew.
        p_value: two-sided, of the t test over seeds: paired where two or more are shared, else Welch's.
        detectable: the difference that as many seeds and items would find in four tables of five.
    """

    seeds: int
    difference: float
    low: float
    high: float
    p_value: float
    detectable: float

    def sign(self, level: float) -> int:
        """Return 1 or -1 if interval and test both say so at ``level``, else 0."""
        if self.p_value >= 1 - level:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def over_seeds(first: Members, second: Members, level: float, seed: int) -> OverSeeds | None:
    """Return the difference of two systems over seeds and items; None where a trained one has a single seed.

    Of S seeds drawn from S, the spread is (S - 1) / S of what it should be (Davison and Hinkley 1997, 2.3), a half for
    two of them: deviations from the mean over seeds are stretched by the root of its inverse.

    Args:
        first, second: on the same resamples.
        level: of the interval, such as 0.95.
        seed: of the seeds that are drawn.

    Raises:
        ValueError: the samples are of different numbers of resamples.
    """
    if first.samples.shape[1] != second.samples.shape[1]:
        raise ValueError(f"over_seeds: {first.samples.shape[1]} and {second.samples.shape[1]} resamples")
    draw = np.random.default_rng(seed)
    if (pairs := _paired(first, second)) is not None:
        left, right = pairs
        values, samples = first.values[left] - second.values[right], first.samples[left] - second.samples[right]
        if len(values) < 2:
            return None
        spread = _drawn(samples, draw)
        freedom, error = len(values) - 1.0, float(values.std(ddof=1)) / sqrt(len(values))
        count, mean = len(values), float(values.mean())
    else:
        count = min(len(first.values), len(second.values))
        if count < 2:
            return None
        spread = _drawn(first.samples, draw) - _drawn(second.samples, draw)
        mean = float(first.values.mean() - second.values.mean())
        parts = [float(one.values.var(ddof=1)) / len(one.values) for one in (first, second)]
        error, freedom = sqrt(sum(parts)), _welch(parts, [len(first.values), len(second.values)])
    low, high = interval(spread, level)
    return OverSeeds(count, mean, low, high, _p_value(mean, error, freedom), _detectable(spread, freedom, level))


def _paired(first: Members, second: Members) -> tuple[list[int], list[int]] | None:
    """Return the places of the members that go together; None where nothing does."""
    if not first.seeds or not second.seeds:
        count = max(len(first.values), len(second.values))
        every, same = list(range(count)), [0] * count   # what has no seeds stands beside each seed of the other
        return every if first.seeds else same, every if second.seeds else same
    common = sorted(set(first.seeds) & set(second.seeds))
    if len(common) < 2 and not (len(first.seeds) == 1 or len(second.seeds) == 1):
        return None
    return [list(first.seeds).index(one) for one in common], [list(second.seeds).index(one) for one in common]


def _drawn(samples: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return the mean over seeds that are drawn anew on each resample (R,), of ``samples`` (S, R)."""
    count, resamples = samples.shape
    chosen = draw.integers(count, size=(count, resamples))
    means = samples.mean(0)
    return means + sqrt(count / (count - 1)) * (np.take_along_axis(samples, chosen, axis=0).mean(0) - means)


def _welch(parts: Sequence[float], counts: Sequence[int]) -> float:
    whole = sum(parts)
    below = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return whole**2 / below if below else float(sum(counts) - 2)


def _p_value(mean: float, error: float, freedom: float) -> float:
    from scipy.special import stdtr  # not at the top: `keycontrast run` would wait for it to find nothing to do

    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stdtr(freedom, -abs(mean) / error))


def _detectable(spread: np.ndarray, freedom: float, level: float) -> float:
    from scipy.special import stdtrit

    quantiles = stdtrit(freedom, 1 - (1 - level) / 2) + stdtrit(freedom, POWER)
    return float(quantiles * spread.std(ddof=1))
