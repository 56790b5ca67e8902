"""Metrics of classifiers as statistics of sums over texts."""

from dataclasses import dataclass

import numpy as np

from stages.metrics.resampling import Statistic, mean_statistic


@dataclass(frozen=True)
class Confidence:
    """The probabilities of a classifier for each text, (n,) each."""

    probability: np.ndarray     # of the predicted class
    nll: np.ndarray             # -log of the probability of the right class (nats)
    brier: np.ndarray           # squared distance of the probabilities from the right class, summed over classes
    bins: int = 15              # of equal width, for the calibration error


def class_statistics(labels: np.ndarray, predicted: np.ndarray, n_classes: int,
                     confidence: Confidence | None = None) -> dict[str, Statistic]:
    """Return the metrics of a classifier from the numbers of right and predicted classes (n,).

    ``macro_f1`` and ``weighted_f1`` are means over classes of F1 = 2 TP / (texts + predicted), the former without
    classes that neither occur nor are predicted. ``ece`` is the mean over texts of |accuracy - probability| in a bin.
    """
    correct = (labels == predicted).astype(np.float64)
    actual, given = _one_hot(labels, n_classes), _one_hot(predicted, n_classes)
    sums = np.concatenate([2 * actual * given, actual + given, actual], axis=1)
    metrics = {"accuracy": mean_statistic(correct),
               "macro_f1": Statistic(sums[:, :2 * n_classes], _macro_f1), "weighted_f1": Statistic(sums, _weighted_f1)}
    if confidence is not None:
        bins = _one_hot(bin_of(confidence.probability, confidence.bins), confidence.bins)
        gaps = (correct - confidence.probability)[:, None] * bins
        metrics |= {"nll": mean_statistic(confidence.nll), "brier": mean_statistic(confidence.brier),
                    "ece": Statistic(np.concatenate([gaps, np.ones((len(gaps), 1))], axis=1), _calibration_error)}
    return metrics


def bin_of(probability: np.ndarray, bins: int) -> np.ndarray:
    """Return the 0-based bin of each probability (n,): bin b is (b / bins, (b + 1) / bins], and 0 is in bin 0."""
    ends = np.arange(1, bins + 1) / bins
    return np.minimum(np.searchsorted(ends, probability, side="left"), bins - 1)


def _one_hot(numbers: np.ndarray, count: int) -> np.ndarray:
    return (np.asarray(numbers)[:, None] == np.arange(count)).astype(np.float64)  # (n, count)


def _macro_f1(sums: np.ndarray) -> np.ndarray:
    twice, counted = np.split(sums, 2, axis=-1)
    return (twice / np.where(counted > 0, counted, 1.0)).sum(-1) / np.maximum((counted > 0).sum(-1), 1)


def _weighted_f1(sums: np.ndarray) -> np.ndarray:
    twice, counted, texts = np.split(sums, 3, axis=-1)
    return (twice / np.where(counted > 0, counted, 1.0) * texts).sum(-1) / np.maximum(texts.sum(-1), 1)


def _calibration_error(sums: np.ndarray) -> np.ndarray:
    return np.abs(sums[..., :-1]).sum(-1) / np.maximum(sums[..., -1], 1)
