"""Outputs that need no model, for the examples of a run; a further one is a function and its entry in ``FLOORS``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from keycontrast.errors import InputError
from stages.common.seeds import derived_seed
from stages.metrics import derangement, nearest_neighbours
from stages.metrics.systems import ScoredItems
from stages.metrics.tokens import Text

# Names the draw of references for all tracks, which so agree on the same examples.
SEEDED_AS = "evaluate_hcl"


@dataclass(frozen=True)
class Given:
    """What a floor is made from."""

    targets: ScoredItems            # the items
    items: pd.DataFrame             # table ``items`` of the model, with its training split
    counts: dict[str, int]          # takes up what a floor counts
    seed: int                       # of the project
    cut: Callable[[str], Text]      # makes a training text what ``targets`` holds, text or list of words


@dataclass(frozen=True)
class Floor:
    """A trivial baseline: a function that returns an output per item, and what it tells, for people."""

    outputs: Callable[[Given], list[Text]]
    said: str


def floor_outputs(name: str, targets: ScoredItems, items: pd.DataFrame, counts: dict[str, int], seed: int,
                  cut: Callable[[str], Text] = str) -> list[Text]:
    """Return the outputs of a floor of :data:`FLOORS`, one per item; arguments as of :class:`Given`.

    Raises:
        InputError: there are no training items, or there is no other example.
    """
    return FLOORS[name].outputs(Given(targets, items, counts, seed, cut))


def _copies(given: Given) -> list[Text]:
    return list(given.targets.sources)


def _nearest_targets(given: Given) -> list[Text]:
    """Return the target of the most similar training source."""
    training = given.items[given.items["split"] == "train"].sort_values("example_id", ignore_index=True)
    if training.empty:
        raise InputError("the floor `nearest` needs training items, and the model has none. Train it again, or take "
                         "`nearest` out of evaluation.floors.")
    neighbours, similarities = nearest_neighbours(given.targets.sources,
                                                  [given.cut(text) for text in training["source"]])
    given.counts["training_items"] = len(training)
    given.counts["nearest_without_shared_word"] = int((similarities == 0).sum())
    return [given.cut(training["references"].iloc[index][0]) for index in neighbours]


def _shuffled_references(given: Given) -> list[Text]:
    """Return the first reference of another example."""
    references = given.targets.references
    if len(references) < 2:
        raise InputError("the floor `shuffled` needs at least two examples. Evaluate more, or take `shuffled` out of "
                         "evaluation.floors.")
    return [references[other][0] for other in derangement(len(references), derived_seed(given.seed, SEEDED_AS,
                                                                                      "shuffled"))]


def _keywords(given: Given) -> list[Text]:
    """Return the keyword of the source; nothing where it has none."""
    return [given.cut(keyword or "") for keyword in given.targets.keywords]


FLOORS: Mapping[str, Floor] = {
    "copy": Floor(_copies, "returns the source unchanged: it shows how much of a score plain overlap with the source "
                           "is worth, and is often hard to beat on BLEU although it rewrites nothing"),
    "nearest": Floor(_nearest_targets, "returns the target of the most similar training source: what retrieval gives "
                                       "without any model, and what a useful model should pass"),
    "shuffled": Floor(_shuffled_references, "gives every source another item's reference"),
    "keyword": Floor(_keywords, "gives the keyword alone")}
