"""What training sees of the texts that are evaluated (METHODS A.1, step 6)."""

from typing import Any

import numpy as np

from stages.common.schemas import SPLITS
from stages.ingest.items import Items
from stages.ingest.splits import TEST, TRAIN, VALIDATION
from stages.ingest.texts import NO_TEXT, TextFile, letter_hashes, text_mask


def same_letters(texts: TextFile) -> np.ndarray:
    """Return for each text a number that texts of the same letters and digits share, (n_texts,)."""
    return np.unique(letter_hashes(texts), return_inverse=True)[1].astype(np.int32)


def leak_report(items: Items, split: np.ndarray, group: np.ndarray, alike: np.ndarray) -> dict[str, Any]:
    """Count the texts of validation and test that training items use too.

    Targets are all references of an item. Texts are counted once, however many items share them. ``split`` is
    (n_items,), ``group`` (n_texts,) the component of each text, ``alike`` what :func:`same_letters` returns.
    """
    n_texts, training = len(group), split == TRAIN
    texts, owner = items.outputs
    negatives = items.negative[training]
    outputs = [text_mask(n_texts, texts[split[owner] == which]) for which in range(len(SPLITS))]
    as_input = text_mask(n_texts, items.source[training])
    as_negative = text_mask(n_texts, negatives[negatives != NO_TEXT])
    seen = as_input | outputs[TRAIN] | as_negative
    leaky = _with_seen(items, seen)
    leaky_alike = _with_seen(items, text_mask(n_texts, alike[seen])[alike])
    splits = np.zeros(n_texts, dtype=np.int8)
    for which in range(len(SPLITS)):
        splits[group[items.source[split == which]]] |= 1 << which
    shared = (splits & (splits - 1)) != 0
    report: dict[str, Any] = {}
    for which in (VALIDATION, TEST):
        mine, targets = split == which, outputs[which]
        sources = text_mask(n_texts, items.source[mine])
        total, with_leak = int(mine.sum()), int((leaky & mine).sum())
        report[SPLITS[which]] = {
            "items": total, "targets": int(targets.sum()), "sources": int(sources.sum()),
            "targets_as_training_inputs": int((targets & as_input).sum()),
            "targets_as_training_targets": int((targets & outputs[TRAIN]).sum()),
            "targets_as_training_negatives": int((targets & as_negative).sum()),
            "sources_in_training": int((sources & seen).sum()),
            "items_with_a_leak": with_leak, "share_with_a_leak": round(with_leak / total, 6) if total else 0.0,
            "items_with_a_leak_by_letters_and_digits": int((leaky_alike & mine).sum()),
            "items_of_a_component_in_two_splits": int((mine & shared[group[items.source]]).sum())}
    return report


def _with_seen(items: Items, seen: np.ndarray) -> np.ndarray:
    """Return which items have a source or reference among the texts that are ``seen`` (n_texts,), (n_items,) bool."""
    found = seen[items.source]
    texts, owner = items.outputs
    found[owner[seen[texts]]] = True
    return found
