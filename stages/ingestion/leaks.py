"""What training sees of the texts that are evaluated (METHODS A.1, step 6)."""

from typing import Any

import numpy as np

from stages.artifacts.schemas import SPLITS
from stages.ingestion.items import NO_TEXT, Items
from stages.ingestion.splits import TEST, TRAIN, VALIDATION


def leak_report(items: Items, split: np.ndarray, group: np.ndarray) -> dict[str, Any]:
    """Count the texts of validation and test that training items use too.

    Targets are all references of an item. Texts are counted once, however many items share them.

    Args:
        items: examples.
        split: (n_items,) index into ``SPLITS``.
        group: (n_texts,) connected component of each text.
    """
    inputs, outputs, negatives = (np.zeros(len(group), dtype=bool) for _ in range(3))
    targets, owner = items.outputs()
    training = split == TRAIN
    inputs[items.source[training]] = True
    outputs[targets[training[owner]]] = True
    negatives[items.negative[training & (items.negative != NO_TEXT)]] = True
    seen = inputs | outputs | negatives
    homes = np.zeros(len(group), dtype=np.int8)
    for which in range(len(SPLITS)):
        homes[group[items.source[split == which]]] |= 1 << which
    shared = (homes & (homes - 1)) != 0
    report: dict[str, Any] = {}
    for which in (VALIDATION, TEST):
        mine = split == which
        wanted, sources = np.unique(targets[mine[owner]]), np.unique(items.source[mine])
        leaky = mine & seen[items.source]
        leaky[owner[mine[owner] & seen[targets]]] = True
        total = int(np.count_nonzero(mine))
        report[SPLITS[which]] = {
            "items": total, "targets": len(wanted), "sources": len(sources),
            "targets_as_training_inputs": _count(inputs, wanted),
            "targets_as_training_targets": _count(outputs, wanted),
            "targets_as_training_negatives": _count(negatives, wanted),
            "sources_in_training": _count(seen, sources),
            "items_with_a_leak": int(np.count_nonzero(leaky)),
            "share_with_a_leak": round(int(np.count_nonzero(leaky)) / total, 6) if total else 0.0,
            "items_of_a_component_in_two_splits": int(np.count_nonzero(mine & shared[group[items.source]]))}
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


def _count(seen: np.ndarray, texts: np.ndarray) -> int:
    return int(np.count_nonzero(seen[texts]))
