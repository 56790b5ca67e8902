"""What filled sheets say: means, agreement of raters (Fleiss' and Cohen's kappa) and paired t-tests (METHODS E.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.stats import ttest_rel

from keycontrast.errors import InputError, nearest
from pipeline.judgement.design import Design

Weights = Literal["none", "linear", "quadratic"]
_WEIGHTS: dict[str, Weights] = {name: name for name in get_args(Weights)}
_COST = {"none": None, "linear": "linear", "quadratic": "quadratic"}    # as scikit-learn calls them
# Proportions are sums of fractions: what is below this is 0 but for rounding.
_ROUNDING = 1e-12
_DIGITS = 6


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
        weights: of disagreements: all alike, by their distance on the scale, or by its square.

    Returns:
        Kappas are at most 1; NaN where both raters gave one and the same score throughout.
    """
    from sklearn.metrics import cohen_kappa_score  # slow to import

    scores = judgements.set_index(["item", "run", "rater"])["score"].unstack()
    found = {}
    for first, second in combinations(sorted(scores.columns, key=_in_order), 2):
        both = scores[[first, second]].dropna().astype(int)
        if len(both):
            kappa = float("nan") if both.stack().nunique() == 1 else cohen_kappa_score(
                both[first], both[second], labels=list(points), weights=_COST[weights])
            found[first, second] = kappa, len(both)
    return found


def _in_order(rater: str) -> tuple[int, str]:
    return len(rater), rater


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
    found = ttest_rel(first, second)
    return PairedT(size, mean, float(found.statistic), size - 1, float(found.pvalue))


def summary(judgements: pd.DataFrame, design: Design, weights: Weights = "none") -> dict[str, Any]:
    """Return means, kappas and paired tests of ``judgements`` for JSON.

    What is undefined is None, with a note that says why; an infinite t is written so.

    Args:
        judgements: columns item, run, rater, criterion, score.
        design: of the evaluation.
        weights: of Cohen's kappa.

    Returns:
        ``systems`` (per run and criterion: mean and sd over items of the mean over raters, items, ratings),
        ``agreement`` (per criterion: Fleiss' kappa, outputs behind it, Cohen's kappa of every two raters) and
        ``tests`` (every two systems on every criterion).
    """
    by_criterion = {name: judgements[judgements["criterion"] == name] for name in design.criteria}
    means = {name: rows.groupby(["run", "item"])["score"].mean() for name, rows in by_criterion.items()}
    runs = sorted(judgements["run"].unique())
    return {
        "systems": {run: {name: _level(by_criterion[name], means[name], run) for name in design.criteria}
                    for run in runs},
        "agreement": {name: _agreement(rows, design, weights) for name, rows in by_criterion.items()},
        "tests": [_test(means[name], name, first, second) for name in design.criteria
                  for first, second in combinations(runs, 2)],
    }


def _level(rows: pd.DataFrame, means: pd.Series, run: str) -> dict[str, Any]:
    own = means.loc[run] if run in means.index.get_level_values("run") else means.iloc[:0]
    return {"mean": _number(own.mean()), "sd": _number(own.std(ddof=1)), "items": len(own),
            "ratings": int((rows["run"] == run).sum())}


def _agreement(rows: pd.DataFrame, design: Design, weights: Weights) -> dict[str, Any]:
    pairs = pairwise_kappas(rows, design.points, weights)
    known = [kappa for kappa, _ in pairs.values() if not np.isnan(kappa)]
    found: dict[str, Any] = {
        "cohen": [{"raters": list(raters), "kappa": _number(kappa), "outputs": outputs}
                  for raters, (kappa, outputs) in pairs.items()],
        "cohen_mean": _number(float(np.mean(known))) if known else None, "cohen_weights": weights}
    if design.judges < 2:
        return found | {"fleiss": None, "outputs": 0, "note": "undefined: one rater per output"}
    counts = rating_counts(rows, design.points, design.judges)
    kappa = fleiss_kappa(counts)
    found |= {"fleiss": _number(kappa), "outputs": len(counts)}
    if np.isnan(kappa):
        found["note"] = ("undefined: every rating is the same" if len(counts)
                         else "undefined: no output has been judged by all its raters")
    return found


def _test(means: pd.Series, criterion: str, first: str, second: str) -> dict[str, Any]:
    table = means.unstack("run").reindex(columns=[first, second]).dropna()
    made = paired_t(table[first].tolist(), table[second].tolist())
    found: dict[str, Any] = {"criterion": criterion, "first": first, "second": second, "items": made.items,
                             "difference": _number(made.difference), "t": _number(made.t), "df": made.df,
                             "p": _number(made.p)}
    if np.isinf(made.t):
        found |= {"t": "infinite" if made.t > 0 else "-infinite", "note": "every difference is the same"}
    elif np.isnan(made.t):
        found["note"] = "undefined: no differences" if made.items > 1 else "undefined: fewer than two items"
    return found


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.{_DIGITS}g}")
