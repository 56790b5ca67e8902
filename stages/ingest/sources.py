"""Components of rows, the items made of them, and the sources of their negatives."""

from dataclasses import dataclass, replace

import numpy as np

from keycontrast.errors import InputError
from stages.common.examples import structure_of
from stages.common.schemas import SPLITS
from stages.common.seeds import generator
from stages.ingest.deduplicate import CONTINUATIONS, UniqueRows
from stages.ingest.items import (
    Items,
    Relations,
    beginnings,
    caption_items,
    continuation_inputs,
    labelled_items,
    plain_items,
    relations,
    story_items,
    with_references,
)
from stages.ingest.layouts import roles_of
from stages.ingest.negatives import Embed, from_candidates, search
from stages.ingest.params import Dataset, Ingest
from stages.ingest.splits import LARGEST_HASH, TRAIN, in_range, split_by_hash, split_groups, split_items
from stages.ingest.texts import NO_TEXT, TextLists, components, grouped, letter_hashes, text_mask

_CONNECTED = "other split: its texts are connected with rows of a stricter split (graph, test, validation)"
_ALONE = "alone: its group has no other text"
_GROUP_SIZE = "group size: its group has more or fewer distinct texts than ingest.captions asks for"


@dataclass(frozen=True)
class Connected:
    """The rows that are left, and the components of their texts."""

    rows: UniqueRows
    group: np.ndarray                   # (n_texts,) component of each text over all unique rows
    paired: np.ndarray                  # (n_texts,) is it in a row that is left; as input, for stories and dialogues
    partners: Relations | None          # pairs, those of given triples included; None for captions
    captions: TextLists | None          # groups of captions; None in other structures
    strictest_split: np.ndarray | None  # (n_components,) published; None if there is none or components are split

    @property
    def sizes(self) -> np.ndarray:
        """The number of texts of each component that occur in a row that is left."""
        return self._counted(self.paired)

    @property
    def drawn_sizes(self) -> np.ndarray:
        """The sizes by which components are drawn, which depend on no setting: rows of stories and dialogues, all texts
        of captions."""
        if self.captions is not None:
            return np.bincount(self.group)
        return self._counted(self.rows.first) if self.rows.structure in CONTINUATIONS else self.sizes

    def _counted(self, texts: np.ndarray) -> np.ndarray:
        return np.bincount(self.group[texts], minlength=int(self.group.max(initial=-1)) + 1)


def connected(rows: UniqueRows, split_by: str, captions: int | None = None) -> Connected:
    """Drop rows connected to a row of a stricter split, and captions of groups without exactly ``captions`` texts.

    Under published splits a component belongs to the strictest split of its rows (test, then validation), and its
    rows of other splits are dropped; under ``split_by: pair`` this holds only for groups of captions.
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
    """Return the rows of the strictest published split of each component or group, and these splits, (count,)."""
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

    wanted, mask = codes(np.stack([first, second], axis=1)), np.zeros(len(rows), dtype=bool)
    for column in range(0, held.shape[1], 2):
        mask |= np.isin(codes(held[:, column:column + 2]), wanted)
    return mask


_NO_NEGATIVE = dict.fromkeys(("bm25", "random"), "no story or context has an output that another one could borrow") | {
    "retrieved": "all its texts are connected by pairs",
    "mined": "all its texts are connected by pairs, or are nearer to each input than ingest.neg_ceiling",
    "scored": "every candidate is an evaluated text or occurs in the item's context"}


def check_source(dataset: Dataset, params: Ingest) -> None:
    """Raise an ``InputError`` if the data set lacks the labels, candidates or triples that ``neg_source`` needs."""
    structure, columns, source = structure_of(dataset.layout), roles_of(dataset), params.neg_source
    if structure == "texts":
        return
    missing = ""
    if source == "given" and structure not in ("triples", "labelled"):
        missing = "no given negatives (layout: triples, columns.negative)"
    elif source == "labelled" and (structure in ("captions", "stories") or (
            structure == "dialogue" and "label" not in columns)):
        missing = "no labelled negatives" + " (columns.label)" * (structure == "dialogue")
    if missing:
        raise InputError(f"ingest.neg_source is {source}, but the data set has layout {dataset.layout} and {missing}. "
                         f"Give these, or set neg_source to retrieved or none.")
    if source == "mined" and dataset.language == "zh" and params.neg_encoder == "bundled":
        raise InputError("ingest.neg_encoder is bundled, which reads no Chinese. Name another encoder (hub:<id>, "
                         "or path and neg_path of the data set), or set ingest.neg_source to retrieved.")
    if negative_origin(dataset, params) == "scored" and "scores" not in columns:
        raise InputError("ingest.douban_neg is scored, but the data set has no scored candidates. Name the columns "
                         "that hold them (columns.candidates and columns.scores), or set douban_neg to bm25 or random.")


def negative_origin(dataset: Dataset, params: Ingest) -> str:
    """Return how negatives are found, as the column ``negative_origin`` says it."""
    structure = structure_of(dataset.layout)
    if params.neg_source == "retrieved" and structure in CONTINUATIONS:
        return params.roc_neg if structure == "stories" else params.douban_neg
    return params.neg_source


def make_items(related: Connected, dataset: Dataset, params: Ingest, seed: int) -> Items:
    """Return the items, with their negatives if these are given or labelled; raise an ``InputError`` without any."""
    rows, partners = related.rows, related.partners
    if partners is None:
        assert related.captions is not None  # only captions have no partners
        rank = np.zeros(len(related.captions.bounds) - 1, dtype=np.int8)
        rank[rows.second] = rows.rank
        items = caption_items(related.captions, rank, rows.texts, params.caption_source, seed)
    elif rows.structure == "stories":
        items = story_items(rows, params.roc_mode)
    elif params.neg_source == "given":
        items = plain_items(rows.first, rows.second, rows.rank, rows.negative)
    elif params.neg_source == "labelled":
        items = labelled_items(partners, rows.texts, rule_of(rows.structure, params), params.neg_pick, seed)
    else:
        items = plain_items(partners.duplicates[:, 0], partners.duplicates[:, 1], partners.duplicate_rank)
        scored = params.neg_source == "retrieved" and params.douban_neg == "scored"  # whose candidates go by rows
        if rows.structure == "dialogue" and not scored:
            items = with_references(items)
    if not len(items):
        raise _no_items(dataset, params, rows)
    return items


def rule_of(structure: str, params: Ingest) -> str:
    """Return the rule of labelled triples; a response is never an input, so dialogues have only one direction."""
    return f"question1_{params.qqp_rule.partition('_')[2]}" if structure == "dialogue" else params.qqp_rule


def _no_items(dataset: Dataset, params: Ingest, rows: UniqueRows) -> InputError:
    """Return the error of a data set in which no usable row gives an item."""
    structure, instead = structure_of(dataset.layout), ""
    if structure == "captions":
        size = "two texts" if params.captions is None else f"exactly {params.captions} distinct texts (ingest.captions)"
        reason = f"No group (columns.group) has {size}"
    elif params.neg_source == "labelled":
        reason = ("No context has both a right and a wrong response" if structure == "dialogue" else
                  "No text has both a paraphrase and a non-paraphrase") + " (columns.label)"
        instead = ", or set ingest.neg_source to retrieved"
    else:
        reason = "No row is a paraphrase, a story or a right response"
    return InputError(f"no example could be made from {len(rows)} usable rows (ingest.neg_source: "
                      f"{params.neg_source}). {reason}. Give more data{instead}.")


def split_of_items(items: Items, related: Connected, params: Ingest, seed: int) -> tuple[
        np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return the split of each item, of each component if they are kept together, and the items to leave out if any."""
    rows, of_item, outside = related.rows, related.group[items.source], None
    if params.split_by == "pair":
        if params.train_part is not None:
            outside = ~in_range(_hashes(related), params.train_part, seed)[of_item]
        return split_items(items.rank, rows.published, params.validation, params.test, seed, outside), None, outside
    if params.split_by == "component":
        of_group = split_groups(of_item, int(related.group.max()) + 1, params.validation, params.test, seed,
                                related.strictest_split)
        return of_group[of_item], of_group, outside
    hashes = _hashes(related)
    of_group = split_by_hash(hashes, related.drawn_sizes, params.validation, params.test, seed, related.strictest_split)
    if params.train_part is not None:
        outside = ((of_group == TRAIN) & ~in_range(hashes, params.train_part, seed))[of_item]
    return of_group[of_item], of_group, outside


def _hashes(related: Connected) -> np.ndarray:
    """Return the hash of each component, which depends on its texts alone."""
    hashes = np.full(int(related.group.max()) + 1, LARGEST_HASH, dtype=np.uint64)
    if related.rows.structure in CONTINUATIONS:
        np.minimum.at(hashes, related.group[related.rows.first], related.rows.opening)
    else:
        np.minimum.at(hashes, related.group, letter_hashes(related.rows.texts))
    return hashes


def with_negatives(items: Items, split: np.ndarray, kept: np.ndarray, of_group: np.ndarray | None, related: Connected,
                   dataset: Dataset, params: Ingest, seed: int,
                   embed: Embed | None = None) -> tuple[Items, np.ndarray]:
    """Return the items at the places ``kept`` and their splits, with negatives of the same split among all ``items``.

    Items without a negative are left out, except stories and dialogues that are evaluated, which need none.
    ``of_group`` is the split of each component, None if components are not kept together.
    """
    way, rows = negative_origin(dataset, params), related.rows
    if way in ("given", "labelled", "none"):
        return items.at(kept), split[kept]
    if way == "scored":
        negative = from_candidates(items, split, kept, related.group, rows.further.at(np.arange(len(items))))
    else:
        allowed = None
        if rows.structure not in CONTINUATIONS:
            allowed = _allowed_splits(items, split, of_group, related, params, seed)
        negative = search(items, split, kept, related.group, rows.texts, way, seed, allowed, embed, params.neg_ceiling)
    may = negative != NO_TEXT
    if rows.structure in CONTINUATIONS:
        may |= split[kept] != TRAIN
    kept, negative = kept[may], negative[may]
    for which, name in enumerate(SPLITS):
        if not (split[kept] == which).any():
            how = "retrieved" if way == "retrieved" else "found"
            raise InputError(f"no negative can be {how} for {name}: {_NO_NEGATIVE[way]}. Give more data, or other "
                             f"shares in ingest.")
    return replace(items.at(kept), negative=negative), split[kept]


def _allowed_splits(items: Items, split: np.ndarray, of_group: np.ndarray | None, related: Connected, params: Ingest,
                    seed: int) -> np.ndarray:
    """Return the splits in which each paired text may be a negative, (n_texts,) one bit per split: that of its
    component, or those of the items that use it; texts of no item have their published split or a drawn one."""
    if of_group is not None:
        return np.where(related.paired, _bit(of_group[related.group]), np.int8(0))
    allowed = np.zeros(len(related.group), dtype=np.int8)
    texts, owner = items.outputs
    np.bitwise_or.at(allowed, items.source, _bit(split))
    np.bitwise_or.at(allowed, texts, _bit(split[owner]))
    if related.rows.published and related.partners is not None:
        for column in related.partners.others.T:
            np.bitwise_or.at(allowed, column, _bit(related.partners.other_rank))
    without = np.flatnonzero(related.paired & (allowed == 0))
    shares = [1 - params.validation - params.test, params.validation, params.test]
    allowed[without] = _bit(generator(seed, "ingest", "homes").choice(len(SPLITS), size=len(without), p=shares))
    return allowed


def _bit(split: np.ndarray) -> np.ndarray:
    return np.left_shift(np.int8(1), split.astype(np.int8))
