"""Labelled texts, confusions and label distances of a classifier, as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from keycontrast.errors import InputError
from stages.common.examples import read_examples
from stages.common.paths import DatasetPaths
from stages.common.schemas import TEXTS
from stages.common.tables import read_frame

COLUMNS = ["example_id", "text_id", "split", "text", "label"]
_DISTANCES = ["evaluation", "epoch", "step", "strength", "class", "other", "distance"]

# Labelled texts


def read_labelled_texts(paths: DatasetPaths) -> pd.DataFrame:
    """Return the labelled texts of a data set; see :func:`labelled_texts`.

    Raises:
        InputError: it has none, or its tables do not belong together.
    """
    examples = read_examples(paths.table("examples"))
    if "label" not in examples.column_names:
        raise InputError(f"{paths.table('examples')}: holds pairs, and not texts with a class. Choose a data set of "
                         f"labelled texts, or run its stage ingest again.")
    return labelled_texts(examples.to_pandas(), read_frame(paths.table("texts"), TEXTS))


def labelled_texts(examples: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """Return the examples with their texts, sorted by id: ``example_id``, ``text_id``, ``split``, ``text``, ``label``.

    Args:
        examples: table ``labelled_examples``.
        texts: table ``texts``.

    Raises:
        InputError: a text is missing, the training or validation split is empty, or there is one class only.
    """
    joined = examples.merge(texts[["text_id", "text"]], on="text_id", how="left", validate="many_to_one")
    lost = joined[joined["text"].isna()]
    if len(lost):
        raise InputError(f"table texts: text {lost['text_id'].iloc[0]} of example {lost['example_id'].iloc[0]} is "
                         f"missing, and {len(lost) - 1} more; the tables are of different runs. Run the stage ingest "
                         f"again.")
    for split in ("train", "validation"):
        if not joined["split"].eq(split).any():
            raise InputError(f"table examples: the {split} split is empty. Give more data, or a larger share "
                             f"(ingest.validation).")
    if joined["label"].nunique() < 2:
        raise InputError(f"table examples: column label has no value but {joined['label'].iloc[0]!r}, and there is "
                         f"nothing to tell apart. Check columns.label of the data set.")
    return joined.sort_values("example_id", ignore_index=True)[COLUMNS]


def classes_of(labelled: pd.DataFrame) -> list[str]:
    """Return the classes of a data set in the order of their names, which is that of their indices.

    A class counts that only an evaluated split has: its texts cannot be got right, and they are not left out.

    Args:
        labelled: with column ``label``.
    """
    return sorted(labelled["label"].unique())


def class_numbers(labels: pd.Series, classes: list[str]) -> list[int]:
    """Return the index in ``classes`` of each label.

    Raises:
        InputError: a label is none of these.
    """
    places = {name: number for number, name in enumerate(classes)}
    unknown = sorted(set(labels) - places.keys())
    if unknown:
        raise InputError(f"label {unknown[0]!r} is no class of the model; it knows {', '.join(classes)}. Train the "
                         f"model again.")
    return [places[label] for label in labels]


# Confusions: how many texts of each class are given each class


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


# The label distance matrix over a training


def distance_table(first: np.ndarray | None, updates: Iterable[Mapping[str, Any]],
                   classes: Sequence[str]) -> pd.DataFrame:
    """Return table ``label_distance``, empty for a model without such a matrix.

    Args:
        first: the matrix that training began with (N, N), which is evaluation 0; None without one.
        updates: from :attr:`models.clld.ClldTask.updates`.
        classes: name of each class, by index.
    """
    if first is None:
        return pd.DataFrame({name: [] for name in _DISTANCES})
    beginning = {"evaluation": 0, "epoch": 0, "step": 0, "strength": np.nan, "ldm": first}
    names = np.array(classes, dtype=object)
    parts = [pd.DataFrame({**{name: one[name] for name in _DISTANCES[:4]}, "class": np.repeat(names, len(names)),
                           "other": np.tile(names, len(names)), "distance": np.asarray(one["ldm"]).reshape(-1)})
             for one in (beginning, *updates)]
    return pd.concat(parts, ignore_index=True)


def matrix_at(table: pd.DataFrame, evaluation: int | None = None) -> tuple[np.ndarray, list[str]]:
    """Return the matrix (N, N) of one evaluation, and the classes in its order.

    Args:
        table: ``label_distance``, not empty.
        evaluation: None for the last one.
    """
    wanted = table["evaluation"].max() if evaluation is None else evaluation
    rows = table[table["evaluation"] == wanted]
    classes = sorted(rows["class"].unique())
    square = rows.pivot(index="class", columns="other", values="distance").loc[classes, classes]
    return square.to_numpy(dtype=np.float64, copy=True), classes


def moved_pairs(table: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """Return the ordered pairs of classes whose distance changed most from the first matrix to the last.

    Args:
        table: ``label_distance``; an empty one gives no pairs.
        count: pairs at most.

    Returns:
        ``class``, ``other``, ``first``, ``last`` and ``change``, the largest change of either sign first, of equals
        the one first in the order of classes. A symmetric matrix gives a pair once, in the order of classes.
    """
    columns = ["class", "other", "first", "last", "change"]
    if table.empty:
        return pd.DataFrame(columns=columns)
    (first, classes), (last, _) = matrix_at(table, 0), matrix_at(table)
    symmetric = np.array_equal(first, first.T) and np.array_equal(last, last.T)
    change = np.triu(last - first, 1) if symmetric else last - first
    np.fill_diagonal(change, 0.0)
    moved = sorted((-abs(change[a, b]), int(a), int(b)) for a, b in np.argwhere(change))[:count]
    return pd.DataFrame([(classes[a], classes[b], first[a, b], last[a, b], change[a, b]) for _, a, b in moved],
                        columns=columns)
