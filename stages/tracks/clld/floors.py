"""What a classifier must beat: the most frequent class, and a linear classifier on TF-IDF."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from keycontrast.errors import InputError


def majority_class(texts: Mapping[str, int]) -> str:
    """Return the class of most training texts; of equals the first.

    Args:
        texts: training texts of each class, in the order of the classes.
    """
    return max(texts, key=lambda name: texts[name])


def linear_probabilities(table: pd.DataFrame, items: pd.DataFrame, classes: Sequence[str]) -> np.ndarray:
    """Return the probabilities (n, N) that a linear classifier gives to the classes of each item, in their order.

    Args:
        table: ``linear_floor`` of the data set.
        items: evaluated texts, with ``example_id`` and ``label``.
        classes: name of each class, by index.

    Raises:
        InputError: an item is missing there, or it knows other classes.
    """
    rows = table.set_index("example_id")
    missing = [number for number in items["example_id"] if number not in rows.index]
    if missing:
        raise InputError(f"table linear_floor: example {missing[0]} was evaluated and is missing there, and "
                         f"{len(missing) - 1} more. Run linear_floor again.")
    found = np.stack(rows.loc[items["example_id"], "probabilities"].to_list())
    if found.shape[1] != len(classes) or rows.loc[items["example_id"], "label"].tolist() != items["label"].tolist():
        raise InputError(f"table linear_floor: its classes or labels are not those of the model, which knows "
                         f"{len(classes)} classes. Run linear_floor again, and train the model again.")
    return found
