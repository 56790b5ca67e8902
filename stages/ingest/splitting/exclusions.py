"""Rows left out because of other rows: connected with evaluated texts, alone in a group, in one of a wrong size."""

from dataclasses import dataclass, replace

import numpy as np

from stages.ingest.deduplication.taken_rows import CONTINUATIONS, Taken
from stages.ingest.items.captions import caption_components, caption_groups
from stages.ingest.items.continuations import continuation_inputs
from stages.ingest.items.items import TextLists
from stages.ingest.items.partners import Relations, relations

_CONNECTED = "other split: its texts are connected with rows of a split that is evaluated"
_ALONE = "alone: its group has no other text"
_GROUP_SIZE = "group size: its group has more or fewer distinct texts than ingest.captions asks for"


@dataclass(frozen=True)
class Connected:
    """The rows that are left, and how their texts belong together.

    Attributes:
        taken: the rows.
        group: (n_texts,) component of each text over all rows that were kept among their equals.
        paired: (n_texts,) whether a text occurs in a row that is left; as input, for stories and dialogues.
        partners: pairs, those of given triples included; None for captions.
        captions: groups of captions; None in other structures.
        highest: (n_components,) published split of each component; None if there is none or components are not kept
            together.
    """

    taken: Taken
    group: np.ndarray
    paired: np.ndarray
    partners: Relations | None
    captions: TextLists | None
    highest: np.ndarray | None

    @property
    def sizes(self) -> np.ndarray:
        """The number of texts of each component that occur in a row that is left."""
        return np.bincount(self.group[self.paired], minlength=int(self.group.max(initial=-1)) + 1)


def connected(taken: Taken, split_by: str, captions: int | None = None) -> Connected:
    """Reject rows that are connected with rows of a stricter split, and captions of groups of another size.

    Under published splits and ``split_by: component`` or ``hashed`` a component belongs to the highest split of
    its rows (test, then validation), and its rows of lower splits are dropped. Under ``pair`` published splits
    stay as they are, except that a group of captions is in one split.

    Args:
        taken: the rows that were kept among their equals.
        split_by: as above.
        captions: distinct texts that a group of captions must have; None takes any number from two.
    """
    if taken.structure == "captions":
        return _captions(taken, split_by, captions)
    partners, highest = relations(taken), None
    group = partners.group
    if taken.published and split_by != "pair":
        taken, highest = _without_lower_splits(taken, group[taken.first], int(group.max(initial=-1)) + 1)
        partners = replace(relations(taken), group=group)
    paired = partners.paired()
    if taken.structure in CONTINUATIONS:
        paired[:] = False
        for inputs in continuation_inputs(taken):
            paired[inputs] = True
    return Connected(taken, group, paired, partners, None, highest)


def _captions(taken: Taken, split_by: str, wanted: int | None) -> Connected:
    n_groups, highest = int(taken.second.max(initial=-1)) + 1, None
    group = caption_components(caption_groups(taken, n_groups), taken.n_texts)
    if taken.published and split_by == "pair":
        taken, _ = _without_lower_splits(taken, taken.second, n_groups)
    elif taken.published:
        taken, highest = _without_lower_splits(taken, group[taken.first], int(group.max(initial=-1)) + 1)
    sizes = np.bincount(taken.second, minlength=n_groups)
    taken = taken.without(sizes[taken.second] == 1, _ALONE)
    if wanted:
        taken = taken.without(sizes[taken.second] != wanted, _GROUP_SIZE)
    captions = caption_groups(taken, n_groups)
    paired = np.zeros(taken.n_texts, dtype=bool)
    paired[captions.texts] = True
    return Connected(taken, group, paired, None, captions, highest)


def _without_lower_splits(taken: Taken, numbers: np.ndarray, count: int) -> tuple[Taken, np.ndarray]:
    """Return the rows of the highest published split of each component or group, and these splits, (count,).

    What is evaluated stays whole, and training loses.
    """
    highest = np.zeros(count, dtype=np.int8)
    np.maximum.at(highest, numbers, taken.rank)
    return taken.without(taken.rank < highest[numbers], _CONNECTED), highest
