"""Rows left out because of other rows: connected with evaluated texts, alone in a group, in one of a wrong size."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from stages.ingest.deduplication.row_log import ALONE, CONNECTED, GROUP_SIZE, KEPT
from stages.ingest.deduplication.taken_rows import CONTINUATIONS, Taken
from stages.ingest.items.captions import caption_components, caption_groups
from stages.ingest.items.continuations import continuation_inputs
from stages.ingest.items.items import TextLists
from stages.ingest.items.partners import Relations, relations


@dataclass(frozen=True)
class Exclusions:
    """What decides over a row that was kept among its equals.

    Attributes:
        component: (n_texts,) component of each text; None if rows belong together by group of captions.
        highest: (n_components,) or (n_groups,) the highest published split of the rows; None if rows are left
            alone. A row of a lower split is dropped, so that what is evaluated stays whole and training loses.
        alone: (n_groups,) whether a group of captions has but one text; None if none has.
        unwanted: (n_groups,) whether it has another number of texts than is asked for; None if none has.
    """

    component: np.ndarray | None = None
    highest: np.ndarray | None = None
    alone: np.ndarray | None = None
    unwanted: np.ndarray | None = None

    def verdicts(self, first: np.ndarray, second: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Return the verdict on each row, given its numbers as in ``Taken``."""
        found = np.full(len(first), KEPT, dtype=np.int8)
        if self.highest is not None:
            numbers = second if self.component is None else self.component[first]
            found[rank < self.highest[numbers]] = CONNECTED
        if self.alone is not None:
            found[(found == KEPT) & self.alone[second]] = ALONE
        if self.unwanted is not None:
            found[(found == KEPT) & self.unwanted[second]] = GROUP_SIZE
        return found

    def of_takeable(self, records: np.ndarray) -> np.ndarray:
        """Return the verdict on each of ``TAKEABLE`` records."""
        return self.verdicts(records["first"], records["second"], records["rank"])


@dataclass(frozen=True)
class Connected:
    """The rows that are left, and how their texts belong together.

    Attributes:
        taken: the rows.
        group: (n_texts,) component of each text over all rows that were kept among their equals.
        paired: (n_texts,) whether a text occurs in a row that is left; as input, for stories and dialogues.
        partners: pairs, those of given triples included; None for captions.
        captions: groups of captions; None in other structures.
        exclusions: what decided over the rows.
    """

    taken: Taken
    group: np.ndarray
    paired: np.ndarray
    partners: Relations | None
    captions: TextLists | None
    exclusions: Exclusions

    @property
    def sizes(self) -> np.ndarray:
        """The number of texts of each component that occur in a row that is left."""
        return np.bincount(self.group[self.paired], minlength=int(self.group.max(initial=-1)) + 1)

    @property
    def highest(self) -> np.ndarray | None:
        """The published split of each component; None if there is none or components are not kept together."""
        return None if self.exclusions.component is None else self.exclusions.highest


def connected(taken: Taken, split_by: str, captions: int | None = None) -> Connected:
    """Drop the rows whose company forbids them.

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
    partners, exclusions = relations(taken), Exclusions()
    group = partners.group
    if taken.published and split_by != "pair":
        exclusions = Exclusions(group, _highest(group[taken.first], taken.rank, int(group.max(initial=-1)) + 1))
        taken = _left(taken, exclusions)
        partners = replace(relations(taken), group=group)
    paired = partners.paired()
    if taken.structure in CONTINUATIONS:
        paired[:] = False
        for inputs in continuation_inputs(taken):
            paired[inputs] = True
    return Connected(taken, group, paired, partners, None, exclusions)


def _captions(taken: Taken, split_by: str, wanted: int | None) -> Connected:
    n_groups, exclusions = int(taken.second.max(initial=-1)) + 1, Exclusions()
    captions = caption_groups(taken, n_groups)
    group = caption_components(captions, taken.n_texts)
    if taken.published:
        component = None if split_by == "pair" else group
        numbers, count = taken.second, n_groups
        if component is not None:
            numbers, count = component[taken.first], int(group.max(initial=-1)) + 1
        exclusions = Exclusions(component, _highest(numbers, taken.rank, count))
        taken = _left(taken, exclusions)
        captions = caption_groups(taken, n_groups)
    sizes = np.diff(captions.bounds)
    alone, unwanted = sizes == 1, (sizes > 1) & (sizes != wanted) if wanted else np.zeros(len(sizes), dtype=bool)
    if alone.any() or unwanted.any():
        exclusions = replace(exclusions, alone=alone, unwanted=unwanted)
        taken = _left(taken, exclusions)
        captions = caption_groups(taken, n_groups)
    paired = np.zeros(taken.n_texts, dtype=bool)
    paired[captions.texts] = True
    return Connected(taken, group, paired, None, captions, exclusions)


def _highest(numbers: np.ndarray, rank: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros(count, dtype=np.int8)
    np.maximum.at(found, numbers, rank)
    return found


def _left(taken: Taken, exclusions: Exclusions) -> Taken:
    verdicts = exclusions.verdicts(taken.first, taken.second, taken.rank)
    kept = verdicts == KEPT
    if kept.all():
        return taken
    outcomes = Counter(taken.outcomes)
    outcomes.subtract({KEPT: int(np.count_nonzero(~kept))})
    outcomes.update({code: int(np.count_nonzero(verdicts == code)) for code in (CONNECTED, ALONE, GROUP_SIZE)})
    negative = taken.negative[kept] if len(taken.negative) else taken.negative
    openings = ({"opening": taken.opening[kept], "further": taken.further.at(np.flatnonzero(kept))}
                if len(taken.opening) else {})
    return replace(taken, pairs=taken.pairs[kept], label=taken.label[kept], rank=taken.rank[kept], negative=negative,
                   outcomes=outcomes, **openings)
