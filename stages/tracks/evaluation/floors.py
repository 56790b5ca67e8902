"""Outputs that need no model, for the examples of a run."""

from collections.abc import Callable, Sequence

import pandas as pd

from stages.metrics import derangement, nearest_neighbours
from stages.metrics.systems import ScoredItems
from stages.metrics.tokens import Text
from stages.runtime.errors import InputError
from stages.runtime.seeds import derived_seed

FLOORS = ("copy", "nearest", "shuffled", "keyword")
# Names the draw of references for all tracks, which so agree on the same examples.
SEEDED_AS = "evaluate_hcl"


def floor_outputs(name: str, targets: ScoredItems, items: pd.DataFrame, counts: dict[str, int], seed: int,
                  cut: Callable[[str], Text] = str) -> list[Text]:
    """Return the outputs of a floor, one per item.

    Args:
        name: ``copy`` (the source), ``nearest`` (the target of the most similar training source), ``shuffled`` (the
            first reference of another example) or ``keyword`` (the keyword of the source; nothing where it has none).
        targets: the items.
        items: table ``items`` of the model, with the training split for ``nearest``.
        counts: takes up what ``nearest`` counts.
        seed: of the project.
        cut: makes a training text what ``targets`` holds, text or list of words.

    Raises:
        InputError: there are no training items, or there is no other example.
    """
    if name == "copy":
        return list(targets.sources)
    if name == "nearest":
        return _nearest_targets(targets.sources, items, counts, cut)
    if name == "keyword":
        return [cut(keyword or "") for keyword in targets.keywords]
    if len(targets.sources) < 2:
        raise InputError("the floor `shuffled` needs at least two examples. Evaluate more, or take `shuffled` out of "
                         "evaluate_hcl.floors.")
    order = derangement(len(targets.sources), derived_seed(seed, SEEDED_AS, "shuffled"))
    return [targets.references[other][0] for other in order]


def _nearest_targets(sources: Sequence[Text], items: pd.DataFrame, counts: dict[str, int],
                     cut: Callable[[str], Text]) -> list[Text]:
    training = items[items["split"] == "train"].sort_values("example_id", ignore_index=True)
    if training.empty:
        raise InputError("the floor `nearest` needs training items, and the model has none. Train it again, or take "
                         "`nearest` out of evaluate_hcl.floors.")
    neighbours = nearest_neighbours(sources, [cut(text) for text in training["source"]])
    counts["training_items"] = len(training)
    counts["nearest_without_shared_word"] = int((neighbours.similarities == 0).sum())
    return [cut(training["references"].iloc[index][0]) for index in neighbours.indices]
