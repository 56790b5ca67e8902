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


def read_labelled_texts(paths: DatasetPaths) -> pd.DataFrame:
    """Return the labelled texts of a data set; see :func:`labelled_texts`. It is an InputError if it has pairs."""
    examples = read_examples(paths.table("examples"))
    if "label" not in examples.column_names:
        raise InputError(f"{paths.table('examples')}: holds pairs, and not texts with a class. Choose a data set of "
                         f"labelled texts, or run its stage ingest again.")
    return labelled_texts(examples.to_pandas(), read_frame(paths.table("texts"), TEXTS))


def labelled_texts(examples: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """Return table ``labelled_examples`` with the texts of table ``texts``, sorted by id, in the order of ``COLUMNS``.

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
    """
    return sorted(labelled["label"].unique())


def class_numbers(labels: pd.Series, classes: list[str]) -> list[int]:
    """Return the index in ``classes`` of each label."""
    places = {name: number for number, name in enumerate(classes)}
    return [places[label] for label in labels]


def counted(true: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the confusion matrix (N, N) int64, rows true, columns predicted, of indices of classes (n,)."""
    return np.bincount(n_classes * true + predicted, minlength=n_classes**2).reshape(n_classes, n_classes)


def confusion_table(counts: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """Return ``counts`` (N, N) with one row per cell: ``label``, ``predicted``, ``texts``."""
    return _cells(classes, ("label", "predicted")).assign(texts=counts.reshape(-1))


def _cells(classes: Sequence[str], columns: tuple[str, str]) -> pd.DataFrame:
    """Return the ordered pairs of classes, in the order of a matrix read row by row."""
    names = np.array(classes, dtype=object)
    return pd.DataFrame({columns[0]: np.repeat(names, len(names)), columns[1]: np.tile(names, len(names))})


def _matrix(table: pd.DataFrame, rows: str, columns: str, values: str) -> tuple[np.ndarray, list[str]]:
    """Return the matrix (N, N) of a table of cells, whose rows may be in any order, and the classes in its order."""
    classes = sorted(table[rows].unique())
    return table.pivot(index=rows, columns=columns, values=values).loc[classes, classes].to_numpy(copy=True), classes


def counts_of(table: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Return the matrix (N, N) of a table of :func:`confusion_table`, and the classes in its order."""
    return _matrix(table, "label", "predicted", "texts")


def class_table(counts: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """Return table ``classes``: texts, precision, recall and F1 of each class, from the confusion matrix (N, N)."""
    right, texts, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    return pd.DataFrame({
        "number": np.arange(len(classes), dtype=np.int32), "class": list(classes), "texts": texts,
        "predicted": predicted, "precision": right / np.maximum(predicted, 1), "recall": right / np.maximum(texts, 1),
        "f1": np.where(texts + predicted > 0, 2 * right / np.maximum(texts + predicted, 1), np.nan)})


def distance_table(first: Any, updates: Iterable[Mapping[str, Any]], classes: Sequence[str]) -> pd.DataFrame:
    """Return table ``label_distance`` of the ``updates`` of a :class:`models.clld.clld.ClldTask`.

    ``first`` is the matrix that training began with (N, N), evaluation 0; without one, None, the table is empty.
    """
    if first is None:
        return pd.DataFrame({name: [] for name in _DISTANCES})
    beginning = {"evaluation": 0, "epoch": 0, "step": 0, "strength": np.nan, "ldm": first}
    cells = _cells(classes, ("class", "other"))
    return pd.concat([cells.assign(**{name: one[name] for name in _DISTANCES[:4]}, distance=np.ravel(one["ldm"]))
                      for one in (beginning, *updates)], ignore_index=True)[_DISTANCES]


def matrix_at(table: pd.DataFrame, evaluation: int | None = None) -> tuple[np.ndarray, list[str]]:
    """Return the matrix (N, N) of one evaluation of table ``label_distance``, the last by default, and its classes."""
    wanted = table["evaluation"].max() if evaluation is None else evaluation
    return _matrix(table[table["evaluation"] == wanted], "class", "other", "distance")
