"""The label distance matrix over a training as a table, and the pairs of classes that it moved most."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = ["evaluation", "epoch", "step", "strength", "class", "other", "distance"]


def distance_table(first: np.ndarray | None, updates: Iterable[Mapping[str, Any]],
                   classes: Sequence[str]) -> pd.DataFrame:
    """Return table ``label_distance``, empty for a model without such a matrix.

    Args:
        first: the matrix that training began with (N, N), which is evaluation 0; None without one.
        updates: from :attr:`models.clld.ClldTask.updates`.
        classes: name of each class, by index.
    """
    if first is None:
        return pd.DataFrame({name: [] for name in COLUMNS})
    beginning = {"evaluation": 0, "epoch": 0, "step": 0, "strength": np.nan, "ldm": first}
    names = np.array(classes, dtype=object)
    parts = [pd.DataFrame({**{name: one[name] for name in COLUMNS[:4]}, "class": np.repeat(names, len(names)),
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
