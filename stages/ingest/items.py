"""Items as arrays of text numbers, and the rules that make them (docs/hcl.md, docs/pgkpr.md)."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np

from keycontrast.progress import progress
from stages.common.schemas import ALL_SPLITS, SPLITS
from stages.common.seeds import derived_seed
from stages.ingest.deduplicate import CONTINUATIONS, UniqueRows
from stages.ingest.text_keys import jaccard, order_key, overlap_tokens, text_key
from stages.ingest.texts import NO_TEXT, TextFile, TextLists, components, grouped

RULES = ("undirected_one", "undirected_all", "undirected_zip", "question1_one", "question1_all", "question1_zip")
# HCL, section 4.1: the samples made from Quora; its rule is not stated.
PAPER_TRIPLES = 44_949
_REMEMBERED = 4096
# How many of a pair's two texts have the other as a partner.
_COLUMNS = {"undirected": 2, "question1": 1}


@dataclass(frozen=True)
class Items:
    """Examples as arrays (n,) of text numbers, four bytes each."""

    source: np.ndarray
    target: np.ndarray
    negative: np.ndarray  # ``NO_TEXT`` where there is none, or none yet
    rank: np.ndarray      # published split as index into ``ALL_SPLITS``; 0 also where none is published
    group: np.ndarray     # group of captions of the item; (0,) if it has no reference but its target
    captions: TextLists | None = None

    def __len__(self) -> int:
        return len(self.source)

    def at(self, places: np.ndarray) -> "Items":
        """Return the items at ``places``."""
        return Items(self.source[places], self.target[places], self.negative[places], self.rank[places],
                     self.group[places] if self.captions else self.group, self.captions)

    @property
    def outputs(self) -> tuple[np.ndarray, np.ndarray]:
        """The references item by item, the target first, then every caption but the source; and each one's item."""
        places = np.arange(len(self))
        if self.captions is None:
            return self.target, places
        lists = self.captions.at(self.group)
        owners = np.repeat(places, np.diff(lists.bounds))
        other = (lists.texts != self.source[owners]) & (lists.texts != self.target[owners])
        owners = np.concatenate([places, owners[other]])
        order = np.argsort(owners, kind="stable")
        return np.concatenate([self.target, lists.texts[other]])[order], owners[order]


def plain_items(source: np.ndarray, target: np.ndarray, rank: np.ndarray, negative: np.ndarray | None = None) -> Items:
    """Return items with one reference each."""
    negative = np.full(len(source), NO_TEXT, dtype=np.int32) if negative is None else negative
    return Items(source, target, negative, rank, np.empty(0, dtype=np.int32))


# Captions


def caption_items(captions: TextLists, rank: np.ndarray, texts: TextFile, source: str, seed: int) -> Items:
    """Return the items of the groups of two or more: the references are the captions that are not the source.

    ``random`` draws one source per group by the seed and the texts of the group in any order, ``first`` takes the
    first; the target is the first of the others. ``each`` makes every caption a source once, with the next one, in a
    circle, as target. ``rank`` (n_groups,) are the published splits.
    """
    triples = array("i")
    for group in progress(np.flatnonzero(np.diff(captions.bounds) > 1).tolist(), "ingest: captions", unit="group"):
        members = captions.of(group)
        if source == "each":
            chosen = list(zip(members, members[1:] + members[:1], strict=True))
        else:
            source_text = _drawn(members, texts, seed) if source == "random" else members[0]
            chosen = [(source_text, next(text for text in members if text != source_text))]
        for text, target in chosen:
            triples.extend((text, target, group))
    sources, targets, groups = np.frombuffer(triples, np.int32).reshape(-1, 3).T
    return replace(plain_items(sources, targets, rank[groups]), group=groups, captions=captions)


def _drawn(members: list[int], texts: TextFile, seed: int) -> int:
    ordered = sorted(members, key=lambda number: order_key(texts[number]))
    keys = [text_key(texts[number]) for number in ordered]
    return ordered[derived_seed(seed, "ingest", "caption", *keys) % len(ordered)]


def continuation_inputs(rows: UniqueRows) -> list[np.ndarray]:
    """Return the text numbers of inputs, (n_rows,) each, aligned with the rows."""
    return [rows.first, *(beginnings(rows)[:, ::2].T if rows.structure == "stories" else ())]


def story_items(rows: UniqueRows, mode: str) -> Items:
    """Return the items of each story; each input with its output once."""
    if mode != "next_sentence":
        return plain_items(rows.first, rows.second, rows.rank)
    texts = np.concatenate([beginnings(rows), rows.pairs], axis=1).reshape(-1, 2)
    rank = np.repeat(rows.rank, len(texts) // max(1, len(rows.rank)))
    # Stories that begin alike share their first items, in the strictest of their splits.
    first = np.sort(_strictest(texts[:, 0].astype(np.int64) * rows.n_texts + texts[:, 1], rank))
    return plain_items(texts[first, 0], texts[first, 1], rank[first])


def _strictest(codes: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Return the place of each distinct code: the first one of its strictest split."""
    ordered = np.argsort(-rank, kind="stable")
    return ordered[np.unique(codes[ordered], return_index=True)[1]]


def beginnings(rows: UniqueRows) -> np.ndarray:
    """Return inputs and outputs in turn of the shorter beginnings of each story, (n_rows, 6) or (n_rows, 0)."""
    return rows.further.texts.reshape(len(rows), len(rows.further.texts) // max(1, len(rows)))


def with_references(items: Items) -> Items:
    """Return dialogues with one item per context of a published evaluated split: its references are all right
    responses, its target the first one."""
    first = np.unique(np.stack([items.source, items.rank]), axis=1, return_index=True, return_inverse=True)
    single = np.arange(len(items))
    evaluated = (items.rank > 0) & (items.rank < len(SPLITS))
    single[evaluated] = first[1][first[2].reshape(-1)][evaluated]
    if (single == np.arange(len(items))).all():
        return items
    lists = grouped(single, items.target, len(items))
    return replace(items, group=np.arange(len(items), dtype=np.int32), captions=lists).at(np.unique(single))


# Pairs


@dataclass(frozen=True)
class Relations:
    """Pairs of texts that are paraphrases, and pairs that are labelled as none."""

    duplicates: np.ndarray      # (n, 2) paraphrases, each pair once, as first written
    others: np.ndarray          # (m, 2) non-paraphrases that no other row calls paraphrases
    group: np.ndarray           # (n_texts,) component of each text over both kinds of pairs, numbered by first text
    duplicate_rank: np.ndarray  # (n,) published split
    other_rank: np.ndarray      # (m,) published split

    def by_split(self) -> Iterator[tuple[int, "Relations"]]:
        """Yield each published split and its pairs alone; all pairs at once if none is published."""
        if not (self.duplicate_rank.any() or self.other_rank.any()):
            yield 0, self
            return
        for rank in range(len(ALL_SPLITS)):
            good, bad = self.duplicate_rank == rank, self.other_rank == rank
            yield rank, Relations(self.duplicates[good], self.others[bad], self.group, self.duplicate_rank[good],
                                  self.other_rank[bad])

    def rule_counts(self) -> dict[str, int]:
        """Return how many triples each ``qqp_rule`` gives from the labels."""
        counts = dict.fromkeys(RULES, 0)
        for _, part in self.by_split():
            for way in ("undirected", "question1"):
                good, bad = (np.bincount(pairs[:, :_COLUMNS[way]].ravel(), minlength=len(self.group))
                             for pairs in (part.duplicates, part.others))
                counts[f"{way}_one"] += int(np.count_nonzero((good > 0) & (bad > 0)))
                counts[f"{way}_all"] += int(np.sum(good * bad))
                counts[f"{way}_zip"] += int(np.sum(np.minimum(good, bad)))
        return counts


def nearest_rule(counts: dict[str, int]) -> str:
    """Return the rule whose count is nearest to the paper's 44,949; the earlier one in ``RULES`` if two are."""
    return min(RULES, key=lambda rule: abs(counts[rule] - PAPER_TRIPLES))


def relations(rows: UniqueRows) -> Relations:
    """Return the partner graph of ``rows``; the negatives of given triples count as non-paraphrases.

    The pairs of stories and dialogues are input and output, right and wrong ones. Unlike paraphrases they are not
    connected by their outputs, since unrelated contexts have the same short answer, but by the first sentence of a
    story or the context.
    """
    good = int(np.count_nonzero(rows.label == 1))
    duplicates, others, rank, other_rank = rows.pairs[:good], rows.pairs[good:], rows.rank[:good], rows.rank[good:]
    if rows.structure in CONTINUATIONS:
        _, first, number = np.unique(rows.opening, return_index=True, return_inverse=True)
        heads = rows.first[first][number]
        links = np.concatenate([np.stack([heads, inputs], axis=1) for inputs in continuation_inputs(rows)])
        return Relations(duplicates, others, components(rows.n_texts, links), rank, other_rank)
    if rows.structure != "triples":
        return Relations(duplicates, others, components(rows.n_texts, rows.pairs), rank, other_rank)
    others = np.stack([rows.first, rows.negative], axis=1)
    group = components(rows.n_texts, np.concatenate([duplicates, others]))
    # Each unordered pair once, and no non-paraphrases that are paraphrases in another triple.
    codes = [pairs.min(axis=1).astype(np.int64) * rows.n_texts + pairs.max(axis=1) for pairs in (duplicates, others)]
    once, consistent = (np.isin(np.arange(len(code)), _strictest(code, rank)) for code in codes)
    consistent &= ~np.isin(codes[1], codes[0])
    return Relations(duplicates[once], others[consistent], group, rank[once], rank[consistent])


def labelled_items(partners: Relations, texts: TextFile, rule: str, neg_pick: Literal["hardest", "random"],
                   seed: int) -> Items:
    """Return the triples (x, y+, y-) of the texts x with partners of both kinds, D(x) and N(x), of one published split.

    D(x) is sorted by text key and rotated to a member drawn by the seed and the texts; N(x) likewise under
    ``neg_pick: random``, and by falling token overlap with x (Jaccard), ties by text key, under ``hardest``. ``one``
    takes the first of each, ``zip`` pairs them in order, ``all`` takes every combination. Under ``question1`` only the
    first question of a pair has the other as partner. The order of rows matters only for a pair that is written in
    both directions.
    """
    key = lru_cache(_REMEMBERED)(lambda number: order_key(texts[number]))
    tokens = lru_cache(_REMEMBERED)(lambda number: overlap_tokens(texts[number]))

    def ordered(role: str, x: int, members: list[int]) -> list[int]:
        if len(members) == 1:
            return members
        if role == "negative" and neg_pick == "hardest":
            return sorted(members, key=lambda n: (-jaccard(tokens(x), tokens(n)), key(n)))
        ordered_members = sorted(members, key=key)
        first = derived_seed(seed, "ingest", role, text_key(texts[x])) % len(ordered_members)
        return ordered_members[first:] + ordered_members[:first]

    way, _, combination = rule.partition("_")
    numbers = array("i")  # rank, x, y+, y-, by rising x
    for rank, part in partners.by_split():
        good, bad = (_neighbours(pairs, len(partners.group), way) for pairs in (part.duplicates, part.others))
        both = np.flatnonzero((np.diff(good.bounds) > 0) & (np.diff(bad.bounds) > 0)).tolist()
        for x in progress(both, "ingest: labelled triples", unit="text"):
            targets, others = ordered("target", x, good.of(x)), ordered("negative", x, bad.of(x))
            if combination == "one":
                targets, others = targets[:1], others[:1]
            chosen = product(targets, others) if combination == "all" else zip(targets, others, strict=False)
            for target, other in chosen:
                numbers.extend((rank, x, target, other))
    ranks, *texts_of = np.frombuffer(numbers, dtype=np.int32).reshape(-1, 4).T
    return plain_items(texts_of[0], texts_of[1], ranks.astype(np.int8), texts_of[2])


def _neighbours(pairs: np.ndarray, size: int, way: str) -> TextLists:
    """Return the partners of each of ``size`` texts."""
    columns = _COLUMNS[way]
    return grouped(pairs[:, :columns].T.ravel(), pairs[:, ::-1][:, :columns].T.ravel(), size)
