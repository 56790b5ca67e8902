"""What a classifier's probabilities say of each text: how sure it is, and how far it is from the right class."""

import numpy as np
import pandas as pd

from stages.metrics.classification import Sureness, bin_of

_SMALLEST = float(np.finfo(np.float64).tiny)


def sureness_of(labels: np.ndarray, probabilities: np.ndarray, bins: int) -> Sureness:
    """Return what ``probabilities`` (n, N) say of texts of the classes ``labels`` (n,).

    Args:
        labels: index of the class of each text.
        probabilities: of the classes; rows sum to 1.
        bins: of the calibration error.
    """
    return Sureness(probabilities.max(1), nll(labels, probabilities), brier(labels, probabilities), bins)


def nll(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return -log of the probability of the right class (n,), in nats; of a probability of 0, some 700.

    Args:
        labels: index of the class of each text (n,).
        probabilities: of the classes (n, N).
    """
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _SMALLEST))


def brier(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the squared distance of probabilities from the right class (n,), in [0, 2] (Brier 1950).

    Args:
        labels: index of the class of each text (n,).
        probabilities: of the classes (n, N).
    """
    right = np.eye(probabilities.shape[1])[labels]
    return ((probabilities - right) ** 2).sum(1)


def calibration_table(probability: np.ndarray, correct: np.ndarray, bins: int) -> pd.DataFrame:
    """Return table ``calibration``: how often a classifier is right when it is so sure (Guo et al. 2017).

    Args:
        probability: of the predicted class (n,).
        correct: whether it is the class (n,).
        bins: of equal width, see :func:`stages.metrics.classification.bin_of`.
    """
    placed = bin_of(probability, bins)
    texts = np.bincount(placed, minlength=bins)
    filled = np.where(texts > 0, texts, np.nan)
    return pd.DataFrame({
        "bin": np.arange(1, bins + 1, dtype=np.int32), "from": np.arange(bins) / bins,
        "to": np.arange(1, bins + 1) / bins, "texts": texts,
        "confidence": np.bincount(placed, probability, bins) / filled,
        "accuracy": np.bincount(placed, correct, bins) / filled})
