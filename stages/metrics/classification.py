"""Metrics of classifiers that follow from sums over texts, so that they can be bootstrapped (METHODS D.4, E.4).

>>> labels = predicted = np.array([0, 1, 1])
>>> {name: one.value() for name, one in class_statistics(labels, predicted, 2).items()}
{'accuracy': 1.0, 'macro_f1': 1.0, 'weighted_f1': 1.0}
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from stages.metrics.resampling import Statistic, mean_statistic


@dataclass(frozen=True)
class Sureness:
    """What a classifier's probabilities say of each text, (n,) each.

    Attributes:
        probability: of the predicted class.
        nll: -log of the probability of the right class (nats).
        brier: squared distance of the probabilities from the right class, summed over classes.
        bins: of equal width, for the calibration error.
    """

    probability: np.ndarray
    nll: np.ndarray
    brier: np.ndarray
    bins: int = 15


def class_statistics(labels: np.ndarray, predicted: np.ndarray, n_classes: int,
                     sureness: Sureness | None = None) -> dict[str, Statistic]:
    """Return every metric of a classifier as a statistic.

    ``accuracy``, ``macro_f1`` and ``weighted_f1``; with ``sureness`` also ``nll``, ``brier`` and ``ece``, the expected
    calibration error: the mean over bins of |accuracy - mean probability|, each with the weight of its texts.

    Args:
        labels: number of the class of each text (n,).
        predicted: number of the class that each was given (n,).
        n_classes: N.
        sureness: None for a system that gives no probabilities.
    """
    correct = (labels == predicted).astype(np.float64)
    found = {"accuracy": mean_statistic(correct), "macro_f1": macro_f1_statistic(labels, predicted, n_classes),
             "weighted_f1": weighted_f1_statistic(labels, predicted, n_classes)}
    if sureness is not None:
        found |= {"nll": mean_statistic(sureness.nll), "brier": mean_statistic(sureness.brier),
                  "ece": calibration_statistic(correct, sureness.probability, sureness.bins)}
    return found


def macro_f1_statistic(labels: np.ndarray, predicted: np.ndarray, n_classes: int) -> Statistic:
    """Return the mean over classes of F1 = 2 TP / (texts + predicted).

    A class that is neither there nor predicted is left out; on a resample that holds none of it, likewise.
    """
    there, said = _one_hot(labels, n_classes), _one_hot(predicted, n_classes)
    return Statistic(np.concatenate([2 * there * said, there + said], axis=1), partial(_macro_f1, n_classes=n_classes))


def weighted_f1_statistic(labels: np.ndarray, predicted: np.ndarray, n_classes: int) -> Statistic:
    """Return the mean over classes of F1, each with the weight of its texts."""
    there, said = _one_hot(labels, n_classes), _one_hot(predicted, n_classes)
    return Statistic(np.concatenate([2 * there * said, there + said, there], axis=1),
                     partial(_weighted_f1, n_classes=n_classes))


def calibration_statistic(correct: np.ndarray, probability: np.ndarray, bins: int) -> Statistic:
    """Return the expected calibration error over ``bins`` of equal width, see :func:`bin_of`.

    Args:
        correct: 1 for a text that is classified rightly, else 0 (n,).
        probability: of the predicted class (n,).
        bins: how many.
    """
    gaps = (correct - probability)[:, None] * _one_hot(bin_of(probability, bins), bins)
    return Statistic(np.concatenate([gaps, np.ones((len(gaps), 1))], axis=1), _calibration_error)


def bin_of(probability: np.ndarray, bins: int) -> np.ndarray:
    """Return the 0-based bin of each probability (n,): bin b holds those above b/bins up to (b + 1)/bins; 0 is in 0."""
    ends = np.arange(1, bins + 1) / bins
    return np.minimum(np.searchsorted(ends, probability, side="left"), bins - 1)


def _one_hot(numbers: np.ndarray, count: int) -> np.ndarray:
    return (np.asarray(numbers)[:, None] == np.arange(count)).astype(np.float64)  # (n, count)


def _f1(sums: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return F1 and whether it counts, (..., N) each."""
    twice, counted = sums[..., :n_classes], sums[..., n_classes:2 * n_classes]
    return twice / np.where(counted > 0, counted, 1.0), counted > 0


def _macro_f1(sums: np.ndarray, n_classes: int) -> np.ndarray:
    values, counts = _f1(sums, n_classes)
    return values.sum(-1) / np.maximum(counts.sum(-1), 1)


def _weighted_f1(sums: np.ndarray, n_classes: int) -> np.ndarray:
    values, _ = _f1(sums, n_classes)
    texts = sums[..., 2 * n_classes:]
    return (values * texts).sum(-1) / np.maximum(texts.sum(-1), 1)


def _calibration_error(sums: np.ndarray) -> np.ndarray:
    return np.abs(sums[..., :-1]).sum(-1) / np.maximum(sums[..., -1], 1)
