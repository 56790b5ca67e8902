"""Whether probabilities mean what they say (Guo et al. 2017): reliability by bins, and what is measured of it."""

import numpy as np
import pandas as pd


def bins_of(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Return the bin (n,), 0-based, of each probability (n,): bins are of equal width and include their upper end."""
    edges = np.arange(1, bins) / bins
    return np.searchsorted(edges, confidence, side="left")


def calibration_table(confidence: np.ndarray, right: np.ndarray, bins: int) -> pd.DataFrame:
    """Return table ``calibration``.

    Args:
        confidence: probability of the predicted class (n,).
        right: whether it is the class (n,).
        bins: how many.
    """
    placed = bins_of(confidence, bins)
    texts = np.bincount(placed, minlength=bins)
    filled = np.where(texts > 0, texts, np.nan)
    return pd.DataFrame({
        "bin": np.arange(1, bins + 1, dtype=np.int32), "from": np.arange(bins) / bins, "to": np.arange(1, bins + 1) / bins,
        "texts": texts, "confidence": np.bincount(placed, confidence, bins) / filled,
        "accuracy": np.bincount(placed, right, bins) / filled})


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int) -> float:
    """Return the mean over texts of how far apart accuracy and mean confidence of their bin are.

    It is biased upwards where bins are small, for chance alone sets the two apart.

    Args:
        confidence: probability of the predicted class (n,).
        right: whether it is the class (n,).
        bins: how many.
    """
    gaps = np.bincount(bins_of(confidence, bins), right.astype(np.float64) - confidence, bins)
    return float(np.abs(gaps).sum() / len(confidence))
