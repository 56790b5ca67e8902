"""Do two systems differ? The paired two-tailed t-test on per-item means (METHODS E.5)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedT:
    """A paired t-test.

    Attributes:
        items: N.
        difference: mean of first minus second.
        t: mean(d) / (sd(d) / sqrt(N)); infinite if all d are the same and not 0, NaN if they are all 0 or N < 2.
        df: N - 1.
        p: two-sided; NaN where t is.
    """

    items: int
    difference: float
    t: float
    df: int
    p: float


def paired_t(first: Sequence[float], second: Sequence[float]) -> PairedT:
    """Return the paired two-tailed t-test of two systems on the same items.

    Args:
        first, second: (N,) mean score of each item over its raters.
    """
    d = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    size = len(d)
    if size < 2:
        return PairedT(size, float(d.mean()) if size else float("nan"), float("nan"), max(0, size - 1), float("nan"))
    mean, sd = float(d.mean()), float(d.std(ddof=1))
    # Means over raters are fractions: equal differences differ in their last digits.
    if sd < _ROUNDING:
        same = abs(mean) < _ROUNDING
        t = float("nan") if same else float(np.copysign(np.inf, mean))
        return PairedT(size, 0.0 if same else mean, t, size - 1, float("nan") if same else 0.0)
    t = mean / (sd / np.sqrt(size))
    return PairedT(size, mean, float(t), size - 1, float(2 * student.sf(abs(t), size - 1)))
