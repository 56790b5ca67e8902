"""What training sees of the texts that are evaluated (METHODS A.1, step 6)."""

from typing import Any

import numpy as np

from stages.common.schemas import SPLITS
from stages.ingest.items.items import NO_TEXT, Items
from stages.ingest.splitting.splits import TEST, TRAIN, VALIDATION


def leak_report(items: Items, split: np.ndarray, group: np.ndarray) -> dict[str, Any]:
    """Count the texts of validation and test that training items use too.

    Targets are all references of an item. Texts are counted once, however many items share them.

    Args:
        items: examples.
        split: (n_items,) index into ``SPLITS``.
        group: (n_texts,) connected component of each text.
    """
    n_texts, training = len(group), split == TRAIN
    inputs = _marked(n_texts, items.source[training])
    negatives = _marked(n_texts, *(negative[training & (negative != NO_TEXT)] for negative in items.negatives()))
    outputs = [_marked(n_texts, *(texts[split[owner] == which] for texts, owner in items.outputs()))
               for which in range(len(SPLITS))]
    seen = inputs | outputs[TRAIN] | negatives
    leaky = seen[items.source]
    for texts, owner in items.outputs():
        leaky[owner[seen[texts]]] = True
    homes = np.zeros(len(group), dtype=np.int8)
    for which in range(len(SPLITS)):
        homes[group[items.source[split == which]]] |= 1 << which
    shared = (homes & (homes - 1)) != 0
    report: dict[str, Any] = {}
    for which in (VALIDATION, TEST):
        mine, targets = split == which, outputs[which]
        sources = _marked(n_texts, items.source[mine])
        total, with_leak = int(np.count_nonzero(mine)), int(np.count_nonzero(leaky & mine))
        report[SPLITS[which]] = {
            "items": total, "targets": _count(targets), "sources": _count(sources),
            "targets_as_training_inputs": _count(targets & inputs),
            "targets_as_training_targets": _count(targets & outputs[TRAIN]),
            "targets_as_training_negatives": _count(targets & negatives),
            "sources_in_training": _count(sources & seen),
            "items_with_a_leak": with_leak, "share_with_a_leak": round(with_leak / total, 6) if total else 0.0,
            "items_of_a_component_in_two_splits": _count(mine & shared[group[items.source]])}
    return report


def leak_lines(report: dict[str, Any]) -> list[str]:
    """Return the report in sentences, one per split."""
    return [f"{name}: {found['items_with_a_leak']} of {found['items']} items ({found['share_with_a_leak']:.1%}) have a "
            f"source or target in training; {found['targets']} targets, of which "
            f"{found['targets_as_training_inputs']} are training inputs, {found['targets_as_training_targets']} "
            f"targets, {found['targets_as_training_negatives']} negatives; {found['sources_in_training']} of "
            f"{found['sources']} sources; {found['items_of_a_component_in_two_splits']} items of a component in two "
            f"splits"
            for name, found in report.items()]


def _marked(n_texts: int, *numbers: np.ndarray) -> np.ndarray:
    """Return which texts are among ``numbers``, (n_texts,) bool."""
    found = np.zeros(n_texts, dtype=bool)
    for texts in numbers:
        found[texts] = True
    return found


def _count(found: np.ndarray) -> int:
    return int(np.count_nonzero(found))
