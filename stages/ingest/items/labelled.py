"""Labelled texts: one example per text or row, by published splits or drawn class by class."""

from typing import TYPE_CHECKING, Any

import numpy as np

from stages.common.schemas import SPLITS
from stages.ingest.deduplication.taken_rows import Taken
from stages.ingest.splitting.splits import TRAIN, split_classes

if TYPE_CHECKING:
    from stages.ingest.params import Ingest


def labelled_splits(taken: Taken, params: "Ingest", seed: int) -> np.ndarray:
    """Return the split of each row of ``taken`` as index into ``SPLITS``.

    Raises:
        InputError: a split would be empty.
    """
    single = np.bincount(taken.first, minlength=taken.n_texts)[taken.first] == 1
    return split_classes(taken.label, taken.labels, taken.rank, taken.published, params.validation, params.test, seed,
                         single)


def labelled_counts(taken: Taken, kept: np.ndarray, split: np.ndarray) -> dict[str, Any]:
    """Return how many texts of each class each split has, and which texts are in more than one place.

    Args:
        taken: the rows.
        kept: (n,) places of the examples in them.
        split: (n,) index into ``SPLITS``.
    """
    classes = {name: np.bincount(taken.label[kept[split == which]], minlength=len(taken.labels))
               for which, name in enumerate(SPLITS)}
    named = np.array(taken.labels, dtype=object)
    return {
        "classes": {name: dict(sorted(zip(taken.labels, found.tolist(), strict=True)))
                    for name, found in classes.items()},
        "classes_without_a_text": {name: sorted(named[found == 0]) for name, found in classes.items()},
        "leak": {"rows_left_out_for_an_evaluated_split": taken.rows.rejections().get("other split", 0),
                 **_copies(taken.first[kept], taken.label[kept], split, taken.n_texts)}}


def _copies(texts: np.ndarray, label: np.ndarray, split: np.ndarray, n_texts: int) -> dict[str, dict[str, int]]:
    """Count, for each split, the examples whose text is trained on, perhaps as another class, or stands twice.

    Without ``labelled_copies: keep`` all counts but that of the items are 0.
    """
    training = split == TRAIN
    trained = np.bincount(texts[training], minlength=n_texts)
    lowest, highest = np.full(n_texts, np.iinfo(np.int64).max), np.full(n_texts, -1)
    np.minimum.at(lowest, texts[training], label[training])
    np.maximum.at(highest, texts[training], label[training])
    found = {}
    for which, name in enumerate(SPLITS):
        mine, of = texts[split == which], label[split == which]
        elsewhere = trained[mine] > (which == TRAIN)
        contrary = elsewhere & ((lowest[mine] != of) | (highest[mine] != of))
        found[name] = {"items": len(mine), "repeated_within": len(mine) - len(np.unique(mine)),
                       "text_also_in_training": int(np.count_nonzero(elsewhere)),
                       "text_in_training_as_another_class": int(np.count_nonzero(contrary))}
    return found


def labelled_lines(counts: dict[str, Any]) -> list[str]:
    """Return in words what ``labelled_counts`` found besides the classes."""
    leak = counts["leak"]
    lines = [f"{name}: no text of {', '.join(missing)}"
             for name, missing in counts["classes_without_a_text"].items() if missing]
    lines.append(f"rows left out because their text is evaluated: {leak['rows_left_out_for_an_evaluated_split']}")
    return lines + [
        f"copies in {name}: {found['repeated_within']} of {found['items']} texts are repeated within; "
        f"{found['text_also_in_training']} have {'another' if name == 'train' else 'a'} copy in training, "
        f"{found['text_in_training_as_another_class']} of these as another class"
        for name, found in leak.items()
        if isinstance(found, dict) and found["repeated_within"] + found["text_also_in_training"]]
