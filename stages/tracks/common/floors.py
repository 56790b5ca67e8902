"""Baselines that need no model; a further one is a branch here and an entry of ``FLOORS``."""

from collections.abc import Callable, Mapping

import pandas as pd

from keycontrast.errors import InputError
from stages.common.seeds import derived_seed
from stages.metrics import derangement, nearest_neighbours
from stages.metrics.systems import ScoredItems
from stages.metrics.tokens import Text

# Names the draw of references for all tracks, which so agree on the same examples.
SEEDED_AS = "evaluate_hcl"
# The trivial baselines, and what each tells, for people.
FLOORS: Mapping[str, str] = {
    "copy": "returns the source unchanged: it shows how much of a score plain overlap with the source is worth, and is "
            "often hard to beat on BLEU although it rewrites nothing",
    "nearest": "returns the target of the most similar training source: what retrieval gives without any model, and "
               "what a useful model should pass",
    "shuffled": "gives every source another item's reference",
    "keyword": "gives the keyword alone"}


def floor_outputs(name: str, targets: ScoredItems, items: pd.DataFrame, counts: dict[str, int], seed: int,
                  cut: Callable[[str], Text] = str) -> list[Text]:
    """Return the outputs of a floor of :data:`FLOORS`, one per item.

    ``items`` include the training split; ``counts`` is updated; ``cut`` splits training texts as ``targets`` are.
    """
    if name == "copy":
        return list(targets.sources)
    if name == "keyword":  # nothing where the source has none
        return [cut(keyword or "") for keyword in targets.keywords]
    if name == "nearest":
        return _nearest_targets(targets, items, counts, cut)
    references = targets.references
    if len(references) < 2:
        raise InputError("the floor `shuffled` needs at least two examples. Evaluate more, or take `shuffled` out of "
                         "evaluation.floors.")
    order = derangement(len(references), derived_seed(seed, SEEDED_AS, "shuffled"))
    return [references[other][0] for other in order]


def _nearest_targets(targets: ScoredItems, items: pd.DataFrame, counts: dict[str, int],
                     cut: Callable[[str], Text]) -> list[Text]:
    training = items[items["split"] == "train"].sort_values("example_id", ignore_index=True)
    if training.empty:
        raise InputError("the floor `nearest` needs training items, and the model has none. Train it again, or take "
                         "`nearest` out of evaluation.floors.")
    neighbours, similarities = nearest_neighbours(targets.sources, [cut(text) for text in training["source"]])
    counts["training_items"] = len(training)
    counts["nearest_without_shared_word"] = int((similarities == 0).sum())
    return [cut(training["references"].iloc[index][0]) for index in neighbours]
