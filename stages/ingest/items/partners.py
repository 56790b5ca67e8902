"""Partner sets, connected components and the items of each rule (METHODS A.1, steps 2 to 7)."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np

from keycontrast.progress import progress
from stages.common.schemas import SPLITS
from stages.common.seeds import derived_seed
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.deduplication.taken_rows import CONTINUATIONS, Taken
from stages.ingest.deduplication.text_keys import jaccard, overlap_tokens, text_key
from stages.ingest.items.continuations import continuation_components
from stages.ingest.items.items import NO_TEXT, Items, TextLists, components, grouped, joined, plain_items

RULES = ("undirected_one", "undirected_all", "undirected_zip", "question1_one", "question1_all", "question1_zip")
# HCL, section 4.1: the samples made from Quora; its rule is not stated.
PAPER_TRIPLES = 44_949
_REMEMBERED = 4096
# Of a pair's two texts, how many have the other as a partner.
_COLUMNS = {"undirected": 2, "question1": 1}


@dataclass(frozen=True)
class Relations:
    """Who is a paraphrase of whom, and who is labelled not to be.

    Attributes:
        duplicates: (n, 2) paraphrase pairs, each once, as first written.
        others: (m, 2) non-paraphrase pairs that are not paraphrases elsewhere.
        group: (n_texts,) connected component of each text over both kinds of pairs, numbered by first text.
        duplicate_rank: (n,) published split of each paraphrase pair.
        other_rank: (m,) likewise of the non-paraphrase pairs.
    """

    duplicates: np.ndarray
    others: np.ndarray
    group: np.ndarray
    duplicate_rank: np.ndarray
    other_rank: np.ndarray

    @property
    def n_texts(self) -> int:
        """Number of texts."""
        return len(self.group)

    def paired(self) -> np.ndarray:
        """Return which texts occur in a pair, (n_texts,) bool."""
        found = np.zeros(self.n_texts, dtype=bool)
        for pairs in (self.duplicates, self.others):
            found[pairs[:, 0]] = found[pairs[:, 1]] = True
        return found

    def by_split(self) -> Iterator[tuple[int, "Relations"]]:
        """Yield each published split and its pairs alone; all pairs at once if none is published."""
        if not (self.duplicate_rank.any() or self.other_rank.any()):
            yield 0, self
            return
        for rank in range(len(SPLITS)):
            good, bad = self.duplicate_rank == rank, self.other_rank == rank
            yield rank, Relations(self.duplicates[good], self.others[bad], self.group, self.duplicate_rank[good],
                                  self.other_rank[bad])

    def rule_counts(self) -> dict[str, int]:
        """Return how many triples each ``qqp_rule`` gives from the labels (METHODS A.1, step 4)."""
        counts = dict.fromkeys(RULES, 0)
        for _, mine in self.by_split():
            for way in ("undirected", "question1"):
                good, bad = (np.bincount(pairs[:, :_COLUMNS[way]].ravel(), minlength=self.n_texts)
                             for pairs in (mine.duplicates, mine.others))
                counts[f"{way}_one"] += int(np.count_nonzero((good > 0) & (bad > 0)))
                counts[f"{way}_all"] += int(np.sum(good * bad))
                counts[f"{way}_zip"] += int(np.sum(np.minimum(good, bad)))
        return counts


def nearest_rule(counts: dict[str, int]) -> str:
    """Return the rule whose count is nearest to the paper's 44,949; the earlier one in ``RULES`` if two are."""
    return min(RULES, key=lambda rule: abs(counts[rule] - PAPER_TRIPLES))


def relations(taken: Taken) -> Relations:
    """Return the partner graph of ``taken``; the negatives of given triples count as non-paraphrases.

    Of stories and dialogues the pairs are input and output, right and wrong ones.
    """
    good = int(np.count_nonzero(taken.label == 1))
    duplicates, others, rank, other_rank = taken.pairs[:good], taken.pairs[good:], taken.rank[:good], taken.rank[good:]
    if taken.structure in CONTINUATIONS:
        return Relations(duplicates, others, continuation_components(taken), rank, other_rank)
    if taken.structure == "triples":
        others, other_rank = np.stack([taken.first, taken.negative], axis=1), rank
    group = components(taken.n_texts, (duplicates, others))
    if taken.structure == "triples":
        once, consistent = _once(duplicates, others, taken.n_texts)
        duplicates, others, rank, other_rank = duplicates[once], others[consistent], rank[once], rank[consistent]
    return Relations(duplicates, others, group, rank, other_rank)


def _once(duplicates: np.ndarray, others: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which unordered pairs of given triples are written for the first time; of ``others`` only if no triple
    contradicts."""
    codes = [pairs.min(axis=1).astype(np.int64) * size + pairs.max(axis=1) for pairs in (duplicates, others)]
    good, bad = (np.isin(np.arange(len(code)), np.unique(code, return_index=True)[1]) for code in codes)
    return good, bad & ~np.isin(codes[1], codes[0])


def given_items(taken: Taken) -> Items:
    """Return the triples as they were given."""
    return plain_items(taken.first, taken.second, taken.negative, taken.rank)


def paraphrase_items(partners: Relations) -> Items:
    """Return one item per paraphrase pair, still without a negative (``neg_source: retrieved`` or ``none``)."""
    return plain_items(partners.duplicates[:, 0], partners.duplicates[:, 1], rank=partners.duplicate_rank)


def labelled_items(partners: Relations, texts: TextFile, rule: str, neg_pick: Literal["hardest", "random"],
                   seed: int, negatives: int = 1) -> Items:
    """Return the triples (x, y+, y-) of the texts x with partners of both kinds, D(x) and N(x).

    D(x) begins at a member drawn by the seed and the texts, and goes on by text key and round. N(x) does so
    too under ``neg_pick: random``; under ``hardest`` it goes from the largest token overlap with x (Jaccard)
    to the smallest, ties by text key. ``one`` takes the first of each, ``zip`` the first ones, the second ones
    and so on while there are both, ``all`` every combination. The order of rows changes nothing, except which
    question is the first of a pair that is written in both directions.

    Args:
        partners: the labelled pairs; triples are made within a published split.
        texts: all texts, read where there is a choice.
        rule: ``qqp_rule``; ``question1`` counts partners only of a question that stands first in the pair.
        neg_pick: how the negative is chosen.
        seed: the project's seed.
        negatives: of an item, as far as there are so many: its own, and those that come next in N(x).
    """
    way, _, combination = rule.partition("_")
    choices, parts = _Choices(texts, neg_pick, seed), []
    for rank, mine in partners.by_split():
        found = _triples(mine, way, combination, choices, negatives)
        parts.append(plain_items(found[:, 0], found[:, 1], found[:, 2], np.full(len(found), rank, dtype=np.int8),
                                 found[:, 3:]))
    return joined(parts)


class _Choices:
    """Puts the partners of a text in order; remembers some keys and tokens, so memory is constant."""

    def __init__(self, texts: TextFile, neg_pick: str, seed: int) -> None:
        self._seed, self._hardest = seed, neg_pick == "hardest"
        self._key = lru_cache(_REMEMBERED)(lambda number: text_key(texts[number]))
        self._tokens = lru_cache(_REMEMBERED)(lambda number: overlap_tokens(texts[number]))

    def ordered(self, role: str, x: int, partners: list[int]) -> list[int]:
        if len(partners) == 1:
            return partners
        if role == "negative" and self._hardest:
            return sorted(partners, key=lambda n: (-jaccard(self._tokens(x), self._tokens(n)), self._key(n)))
        ordered = sorted(partners, key=self._key)
        first = derived_seed(self._seed, "ingest", role, self._key(x)) % len(ordered)
        return ordered[first:] + ordered[:first]


def _triples(partners: Relations, way: str, combination: str, choices: _Choices, negatives: int) -> np.ndarray:
    """Return (n, 2 + negatives) text numbers: x, y+, y- and those behind it in N(x), by rising x."""
    found, none = array("i"), [NO_TEXT] * negatives
    good, bad = (_neighbours(pairs, partners.n_texts, way) for pairs in (partners.duplicates, partners.others))
    both = np.flatnonzero((np.diff(good.bounds) > 0) & (np.diff(bad.bounds) > 0)).tolist()
    for x in progress(both, "ingest: labelled triples", unit="text"):
        targets, others = choices.ordered("target", x, good.of(x)), choices.ordered("negative", x, bad.of(x))
        places = [range(1 if combination == "one" else len(of_x)) for of_x in (targets, others)]
        for target, other in product(*places) if combination == "all" else zip(*places, strict=False):
            found.extend((x, targets[target], *(others[other:other + negatives] + none)[:negatives]))
    return np.frombuffer(found, dtype=np.int32).reshape(-1, 2 + negatives)


def _neighbours(pairs: np.ndarray, size: int, way: str) -> TextLists:
    """Return the partners of each of ``size`` texts."""
    columns = _COLUMNS[way]
    return grouped(pairs[:, :columns].T.ravel(), pairs[:, ::-1][:, :columns].T.ravel(), size)
