"""Labelled texts: one example per text, by published splits or drawn class by class."""

from typing import Any

import numpy as np

from stages.artifacts.schemas import SPLITS
from stages.ingestion.pairs import Taken
from stages.ingestion.rowlog import OTHER_SPLIT
from stages.ingestion.splits import sample_items, split_classes
from stages.params.data import Ingest


def labelled_examples(taken: Taken, params: Ingest, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places in ``taken`` of the examples, and their splits as indices into ``SPLITS``.

    Raises:
        InputError: a split would be empty.
    """
    split = split_classes(taken.label, taken.labels, taken.rank, taken.published, params.validation, params.test,
                          seed)
    limits = {"train": params.max_train, "validation": params.max_validation, "test": params.max_test}
    kept = sample_items(split, limits, seed)
    return kept, split[kept]


def labelled_counts(taken: Taken, kept: np.ndarray, split: np.ndarray) -> dict[str, Any]:
    """Return how many texts of each class each split has, and how many rows were left out for the test's sake."""
    classes = {name: np.bincount(taken.label[kept[split == which]], minlength=len(taken.labels)).tolist()
               for which, name in enumerate(SPLITS)}
    return {
        "classes": {name: dict(sorted(zip(taken.labels, found, strict=True))) for name, found in classes.items()},
        "published_splits": [SPLITS[which] for which in taken.published],
        "leak": {"rows_left_out_for_an_evaluated_split": taken.outcomes[OTHER_SPLIT]}}
