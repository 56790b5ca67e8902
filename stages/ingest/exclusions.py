"""Rows left out because of other rows (connected with evaluated texts, alone in a group, in one of a wrong size), and
rows that are in no item."""

from dataclasses import dataclass, replace

import numpy as np

from stages.ingest.deduplicate import CONTINUATIONS, UniqueRows
from stages.ingest.items import Items, Relations, beginnings, continuation_inputs, relations
from stages.ingest.texts import NO_TEXT, TextLists, components, grouped, text_mask

_CONNECTED = "other split: its texts are connected with rows of a split that is evaluated"
_ALONE = "alone: its group has no other text"
_GROUP_SIZE = "group size: its group has more or fewer distinct texts than ingest.captions asks for"


@dataclass(frozen=True)
class Connected:
    """The rows that are left, and how their texts belong together.

    Attributes:
        group: (n_texts,) component of each text over all rows that were kept among their equals.
        paired: (n_texts,) whether a text occurs in a row that is left; as input, for stories and dialogues.
        partners: pairs, those of given triples included; None for captions.
        captions: groups of captions; None in other structures.
        strictest_split: (n_components,) published split; None if there is none or components are split.
    """

    rows: UniqueRows
    group: np.ndarray
    paired: np.ndarray
    partners: Relations | None
    captions: TextLists | None
    strictest_split: np.ndarray | None

    @property
    def sizes(self) -> np.ndarray:
        """The number of texts of each component that occur in a row that is left."""
        return np.bincount(self.group[self.paired], minlength=int(self.group.max(initial=-1)) + 1)


def connected(rows: UniqueRows, split_by: str, captions: int | None = None) -> Connected:
    """Drop rows connected to a row of a stricter split, and captions of groups that have not ``captions`` texts.

    Under published splits and ``split_by: component`` or ``hashed`` a component belongs to the strictest split of
    its rows (test, then validation), and its rows of other splits are dropped. Under ``pair`` published splits
    stay as they are, except that a group of captions is in one split.
    """
    if rows.structure == "captions":
        return _captions(rows, split_by, captions)
    partners, strictest = relations(rows), None
    group = partners.group
    if rows.published and split_by != "pair":
        rows, strictest = _without_looser_splits(rows, group[rows.first], int(group.max(initial=-1)) + 1)
        partners = replace(relations(rows), group=group)
    pairs = (partners.duplicates, partners.others)
    paired = text_mask(len(group), *(continuation_inputs(rows) if rows.structure in CONTINUATIONS else pairs))
    return Connected(rows, group, paired, partners, None, strictest)


def _captions(rows: UniqueRows, split_by: str, wanted: int | None) -> Connected:
    n_groups, strictest = int(rows.second.max(initial=-1)) + 1, None
    # A group connects its texts, a text its groups.
    _, first, number = np.unique(rows.second, return_index=True, return_inverse=True)
    group = components(rows.n_texts, np.stack([rows.first[first][number], rows.first], axis=1))
    if rows.published and split_by == "pair":
        rows, _ = _without_looser_splits(rows, rows.second, n_groups)
    elif rows.published:
        rows, strictest = _without_looser_splits(rows, group[rows.first], int(group.max(initial=-1)) + 1)
    sizes = np.bincount(rows.second, minlength=n_groups)
    rows = rows.without(sizes[rows.second] == 1, _ALONE)
    if wanted:
        rows = rows.without(sizes[rows.second] != wanted, _GROUP_SIZE)
    captions = grouped(rows.second, rows.first, n_groups)
    return Connected(rows, group, text_mask(rows.n_texts, captions.texts), None, captions, strictest)


def _without_looser_splits(rows: UniqueRows, numbers: np.ndarray, count: int) -> tuple[UniqueRows, np.ndarray]:
    """Return the rows of the strictest published split of each component or group, and these splits, (count,).

    What is evaluated stays whole, and training loses.
    """
    strictest = np.zeros(count, dtype=np.int8)
    np.maximum.at(strictest, numbers, rows.rank)
    return rows.without(rows.rank < strictest[numbers], _CONNECTED), strictest


def in_items(rows: UniqueRows, items: Items) -> np.ndarray:
    """Return which rows are in an item, (n_rows,) bool: a caption by its group, others as input and output, or as
    input and negative, in either order for pairs."""
    if rows.structure == "captions":
        return np.isin(rows.second, items.group)
    outputs, owner = items.outputs
    with_negative = items.negative != NO_TEXT
    first = np.concatenate([items.source[owner], items.source[with_negative]])
    second = np.concatenate([outputs, items.negative[with_negative]])
    held = rows.pairs
    if rows.structure == "stories":
        held = np.concatenate([held, beginnings(rows)], axis=1)

    def codes(pairs: np.ndarray) -> np.ndarray:
        ordered = pairs if rows.structure in CONTINUATIONS else np.sort(pairs, axis=1)
        return ordered[:, 0].astype(np.int64) * rows.n_texts + ordered[:, 1]

    wanted, found = codes(np.stack([first, second], axis=1)), np.zeros(len(rows), dtype=bool)
    for column in range(0, held.shape[1], 2):
        found |= np.isin(codes(held[:, column:column + 2]), wanted)
    return found
