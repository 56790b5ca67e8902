"""What filled sheets say: means, agreement and tests, as plain values."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from pipeline.judgement.agreement import Weights, fleiss_kappa, pairwise_kappas, rating_counts
from pipeline.judgement.design import Design
from pipeline.judgement.significance import paired_t

_DIGITS = 6


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
