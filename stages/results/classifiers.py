"""Classifiers on the same texts: their metrics as statistics, and McNemar's exact test of their accuracies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import bdtr

from stages.metrics.classification import Sureness, class_statistics
from stages.metrics.resampling import Statistic


@dataclass(frozen=True)
class Discordance:
    """How often two classifiers are right on the same texts.

    Attributes:
        both_right, first_only, second_only, both_wrong: texts.
        p_value: of McNemar's exact test, see :func:`mcnemar`.
    """

    both_right: int
    first_only: int
    second_only: int
    both_wrong: int
    p_value: float


def mcnemar(first: np.ndarray, second: np.ndarray) -> Discordance:
    """Compare two classifiers by the texts that one of them alone has right.

    If both were equally good, each of these n texts would fall to either with probability 1/2. The p value is the
    two-sided one of that binomial, 2 P(X <= min(b, c)), at most 1; 1 without such a text.

    Args:
        first: which texts the first has right (n,) bool.
        second: the same of the second.

    References:
        McNemar 1947; Dietterich 1998, section 2.1, there by its approximation.
    """
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    p = min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0
    return Discordance(int((first & second).sum()), b, c, int((~first & ~second).sum()), p)


def discordances(correct: Sequence[tuple[str, np.ndarray]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of table ``mcnemar`` on one set of texts, all columns but ``dataset``; every pair once.

    Args:
        correct: name of each run or floor, and which texts it has right.
    """
    for (first, one), (second, other) in combinations(correct, 2):
        found = mcnemar(one, other)
        yield {"first": first, "second": second, "items": len(one), **vars(found)}


def class_metrics(scores: pd.DataFrame, bins: int) -> dict[str, Statistic]:
    """Return every metric of one system as a statistic; of floor ``majority``, which gives no probabilities, fewer.

    Args:
        scores: rows of table ``class_scores``, all of one system.
        bins: of the calibration error.
    """
    names = sorted({*scores["label"], *scores["predicted"]})
    places = {name: place for place, name in enumerate(names)}
    labels, predicted = (scores[column].map(places).to_numpy(np.int64) for column in ("label", "predicted"))
    probability, nll, brier = (scores[column].to_numpy(np.float64, na_value=np.nan)
                               for column in ("probability", "nll", "brier"))
    known = not any(np.isnan(column).any() for column in (probability, nll, brier))
    return class_statistics(labels, predicted, len(names), Sureness(probability, nll, brier, bins) if known else None)
