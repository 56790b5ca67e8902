"""Confusions: how many texts of each class are given each class, and what follows for every class."""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def counted(true: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the confusion matrix (N, N) int64, rows true, columns predicted.

    Args:
        true: index of the class of each text (n,).
        predicted: index of the class that it was given (n,).
        n_classes: N.
    """
    cells = n_classes * true + predicted
    return np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)


def confusion_table(counts: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """Return ``counts`` (N, N) with one row per cell: ``label``, ``predicted``, ``texts``."""
    names = np.array(classes, dtype=object)
    return pd.DataFrame({"label": np.repeat(names, len(names)), "predicted": np.tile(names, len(names)),
                         "texts": counts.reshape(-1)})


def counts_of(table: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Return the matrix (N, N) of a table of :func:`confusion_table`, and the classes in its order.

    Args:
        table: rows in any order.
    """
    classes = sorted(table["label"].unique())
    square = table.pivot(index="label", columns="predicted", values="texts").loc[classes, classes]
    return square.to_numpy(dtype=np.int64, copy=True), classes


def class_table(counts: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """Return table ``classes``: texts, precision, recall and F1 of each class.

    Args:
        counts: confusion matrix (N, N).
        classes: name of each class, by index.
    """
    right, texts, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    return pd.DataFrame({
        "number": np.arange(len(classes), dtype=np.int32), "class": list(classes), "texts": texts,
        "predicted": predicted, "precision": right / np.maximum(predicted, 1), "recall": right / np.maximum(texts, 1),
        "f1": np.where(texts + predicted > 0, 2 * right / np.maximum(texts + predicted, 1), np.nan)})
