"""Rows that go because of their company: connected with evaluated texts, alone in their group, in one of other size."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from stages.data.ingestion.captions import caption_components, caption_groups
from stages.data.ingestion.items import TextLists
from stages.data.ingestion.pairs import UNITS, Taken
from stages.data.ingestion.rowlog import ALONE, CONNECTED, GROUP_SIZE, KEPT
from stages.data.ingestion.triples import Relations, relations
from stages.data.ingestion.units import unit_inputs


@dataclass(frozen=True)
class Company:
    """What decides over a row that was kept among its equals.

    Attributes:
        unit: (n_texts,) component of each text; None if the unit is the group of captions.
        highest: (n_units,) the highest published split of each unit's rows; None if rows are left alone. A
            row of a lower split is dropped, so that what is evaluated stays whole and training loses.
        alone: (n_groups,) whether a group of captions has but one text; None if none has.
        unwanted: (n_groups,) whether it has another number of texts than is asked for; None if none has.
    """

    unit: np.ndarray | None = None
    highest: np.ndarray | None = None
    alone: np.ndarray | None = None
    unwanted: np.ndarray | None = None

    def verdicts(self, first: np.ndarray, second: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Return the verdict on each row, given its numbers as in ``Taken``."""
        found = np.full(len(first), KEPT, dtype=np.int8)
        if self.highest is not None:
            units = second if self.unit is None else self.unit[first]
            found[rank < self.highest[units]] = CONNECTED
        if self.alone is not None:
            found[(found == KEPT) & self.alone[second]] = ALONE
        if self.unwanted is not None:
            found[(found == KEPT) & self.unwanted[second]] = GROUP_SIZE
        return found

    def of_takeable(self, records: np.ndarray) -> np.ndarray:
        """Return the verdict on each of ``TAKEABLE`` records."""
        return self.verdicts(records["first"], records["second"], records["rank"])


@dataclass(frozen=True)
class Settled:
    """The rows that are left, and how their texts belong together.

    Attributes:
        taken: the rows.
        group: (n_texts,) component of each text over all rows that were kept among their equals.
        paired: (n_texts,) whether a text occurs in a row that is left; as input, for stories and dialogues.
        partners: pairs, those of given triples included; None for captions.
        captions: groups of captions; None in other structures.
        company: what decided over the rows.
    """

    taken: Taken
    group: np.ndarray
    paired: np.ndarray
    partners: Relations | None
    captions: TextLists | None
    company: Company

    @property
    def sizes(self) -> np.ndarray:
        """The number of texts of each component that occur in a row that is left."""
        return np.bincount(self.group[self.paired], minlength=int(self.group.max(initial=-1)) + 1)

    @property
    def highest(self) -> np.ndarray | None:
        """The published split of each component; None if there is none or components are not kept together."""
        return None if self.company.unit is None else self.company.highest


def settled(taken: Taken, split_by: str, captions: int | None = None) -> Settled:
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
    partners, company = relations(taken), Company()
    group = partners.group
    if taken.published and split_by != "pair":
        company = Company(group, _highest(group[taken.first], taken.rank, int(group.max(initial=-1)) + 1))
        taken = _left(taken, company)
        partners = replace(relations(taken), group=group)
    paired = partners.paired()
    if taken.structure in UNITS:
        paired[:] = False
        for inputs in unit_inputs(taken):
            paired[inputs] = True
    return Settled(taken, group, paired, partners, None, company)


def _captions(taken: Taken, split_by: str, wanted: int | None) -> Settled:
    n_groups, company = int(taken.second.max(initial=-1)) + 1, Company()
    captions = caption_groups(taken, n_groups)
    group = caption_components(captions, taken.n_texts)
    if taken.published:
        unit = None if split_by == "pair" else group
        units, count = (taken.second, n_groups) if unit is None else (unit[taken.first], int(group.max(initial=-1)) + 1)
        company = Company(unit, _highest(units, taken.rank, count))
        taken = _left(taken, company)
        captions = caption_groups(taken, n_groups)
    sizes = np.diff(captions.bounds)
    alone, unwanted = sizes == 1, (sizes > 1) & (sizes != wanted) if wanted else np.zeros(len(sizes), dtype=bool)
    if alone.any() or unwanted.any():
        company = replace(company, alone=alone, unwanted=unwanted)
        taken = _left(taken, company)
        captions = caption_groups(taken, n_groups)
    paired = np.zeros(taken.n_texts, dtype=bool)
    paired[captions.texts] = True
    return Settled(taken, group, paired, None, captions, company)


def _highest(units: np.ndarray, rank: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros(count, dtype=np.int8)
    np.maximum.at(found, units, rank)
    return found


def _left(taken: Taken, company: Company) -> Taken:
    verdicts = company.verdicts(taken.first, taken.second, taken.rank)
    kept = verdicts == KEPT
    if kept.all():
        return taken
    outcomes = Counter(taken.outcomes)
    outcomes.subtract({KEPT: int(np.count_nonzero(~kept))})
    outcomes.update({code: int(np.count_nonzero(verdicts == code)) for code in (CONNECTED, ALONE, GROUP_SIZE)})
    negative = taken.negative[kept] if len(taken.negative) else taken.negative
    units = {"unit": taken.unit[kept], "further": taken.further.at(np.flatnonzero(kept))} if len(taken.unit) else {}
    return replace(taken, pairs=taken.pairs[kept], label=taken.label[kept], rank=taken.rank[kept], negative=negative,
                   outcomes=outcomes, **units)
