"""Differences of systems over seeds and items together, for models trained under several seeds.

An interval over items takes the trained models as they are: it does not tell how the next training would end. Here
seeds and items are both drawn, and a difference counts if the interval leaves 0 out and the test over seeds agrees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from stages.metrics.resampling import interval

POWER = 0.8     # share of experiments in which a difference of the size `detectable` would be found


@dataclass(frozen=True)
class Members:
    """A metric of a system under each of S seeds."""

    values: np.ndarray          # of all items (S,)
    samples: np.ndarray         # on the same R resamples of the items (S, R)
    seeds: Sequence[int] = ()   # empty for a system that is not trained, whose one member is paired with any seed


@dataclass(frozen=True)
class OverSeeds:
    """A difference, first minus second, over seeds and items."""

    seeds: int              # pairs of seeds; where the systems share fewer than two, the smaller number of seeds
    difference: float       # of the means over these seeds
    low: float              # percentile interval, items and seeds drawn anew
    high: float
    p_value: float          # two-sided, of the t-test over seeds: paired where two or more are shared, else Welch's
    detectable: float       # the difference that as many seeds and items would find in four experiments of five

    def sign(self, level: float) -> int:
        """Return 1 or -1 if interval and test both say so at ``level``, else 0."""
        if self.p_value >= 1 - level:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def over_seeds(first: Members, second: Members, level: float, seed: int) -> OverSeeds | None:
    """Return the difference of two systems over seeds and items; None where a trained one has a single seed.

    Of S seeds drawn from S, the spread is (S - 1) / S of the right one (Davison and Hinkley 1997, 2.3): deviations from
    the mean over seeds are stretched by the root of its inverse. Different numbers of resamples are a ValueError.
    """
    from scipy.special import stdtr, stdtrit  # not at the top: `keycontrast run` would wait for it

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
        parts = [float(one.values.var(ddof=1)) / len(one.values) for one in (first, second)]
        below = sum(part**2 / (size - 1) for part, size in zip(parts, counts, strict=True))
        error, freedom = sqrt(sum(parts)), sum(parts)**2 / below if below else float(sum(counts) - 2)   # Welch
    low, high = interval(spread, level)
    p_value = 2 * stdtr(freedom, -abs(mean) / error) if error else float(mean == 0)
    detectable = (stdtrit(freedom, 1 - (1 - level) / 2) + stdtrit(freedom, POWER)) * spread.std(ddof=1)
    return OverSeeds(count, mean, low, high, float(p_value), float(detectable))


def _paired(first: Members, second: Members) -> tuple[list[int], list[int]] | None:
    """Return the places of the members that belong together; None where none do."""
    if not first.seeds or not second.seeds:
        count = max(len(first.values), len(second.values))
        every, same = list(range(count)), [0] * count   # a system without seeds is compared with each seed of the other
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
