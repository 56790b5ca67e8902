"""Metrics of a classifier, as statistics that can be resampled (METHODS D.4, E.4).

    scores = text_scores(labels, predicted, probabilities)
    accuracy, macro = mean_statistic(scores["correct"]), macro_f1_statistic(labels, predicted, n_classes)
"""

from collections.abc import Sequence

import numpy as np

from stages.metrics.resampling import Statistic, mean_statistic

_SMALLEST = float(np.finfo(np.float64).tiny)


def class_statistics(labels: Sequence[int], predicted: Sequence[int], n_classes: int) -> dict[str, Statistic]:
    """Return accuracy, macro-F1 and weighted F1 as statistics.

    Macro-F1 is the mean of the F1 of the classes that are there or predicted; weighted F1 their mean by number of
    texts.

    Args:
        labels: index of the class of each text (n,).
        predicted: index of the class that it was given (n,).
        n_classes: N.
    """
    true, said = np.asarray(labels), np.asarray(predicted)
    identity = np.eye(n_classes)
    right = identity[true] * (true == said)[:, None]
    sums = np.concatenate([right, identity[true], identity[said]], axis=1)  # (n, 3 N)
    return {"accuracy": mean_statistic((true == said).astype(np.float64)),
            "macro_f1": Statistic(sums, _macro_f1), "weighted_f1": Statistic(sums, _weighted_f1)}


def _f1(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    right, texts, said = np.split(sums, 3, axis=-1)  # each (..., N)
    return 2 * right / np.maximum(texts + said, 1), texts, said


def _macro_f1(sums: np.ndarray) -> np.ndarray:
    scores, texts, said = _f1(sums)
    return scores.sum(-1) / np.maximum(((texts + said) > 0).sum(-1), 1)


def _weighted_f1(sums: np.ndarray) -> np.ndarray:
    scores, texts, _ = _f1(sums)
    return (scores * texts).sum(-1) / np.maximum(texts.sum(-1), 1)


def nll(labels: Sequence[int], probabilities: np.ndarray) -> np.ndarray:
    """Return -log of the probability of the right class (n,), in nats.

    Args:
        labels: index of the class of each text (n,).
        probabilities: of the classes (n, N).
    """
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), np.asarray(labels)], _SMALLEST))


def brier(labels: Sequence[int], probabilities: np.ndarray) -> np.ndarray:
    """Return the squared distance of probabilities from the right class (n,), in [0, 2] (Brier 1950).

    Args:
        labels: index of the class of each text (n,).
        probabilities: of the classes (n, N).
    """
    right = np.eye(probabilities.shape[1])[np.asarray(labels)]
    return ((probabilities - right) ** 2).sum(1)
