"""Whether probabilities mean what they say: how often a classifier is right when it is so sure (Guo et al. 2017)."""

import numpy as np
import pandas as pd

from stages.metrics.classification import bin_of


def calibration_table(probability: np.ndarray, correct: np.ndarray, bins: int) -> pd.DataFrame:
    """Return table ``calibration``.

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
