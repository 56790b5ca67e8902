"""Partner sets, connected components and the items of each rule (METHODS A.1, steps 2 to 7)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from stages.ingestion.pairs import Taken, Texts
from stages.ingestion.textkeys import jaccard, overlap_tokens
from stages.runtime.seeds import derived_seed


@dataclass(frozen=True)
class Items:
    """Examples before they get splits: arrays of text numbers, ``negative`` -1 where not yet known."""

    source: np.ndarray
    target: np.ndarray
    negative: np.ndarray

    def __len__(self) -> int:
        return len(self.source)

    def at(self, places: np.ndarray) -> "Items":
        """Return the items at ``places``."""
        return Items(self.source[places], self.target[places], self.negative[places])


@dataclass(frozen=True)
class Relations:
    """Who is a paraphrase of whom, and who is labelled not to be.

    Attributes:
        duplicates: (n, 2) paraphrase pairs, each once, as first written.
        others: (m, 2) non-paraphrase pairs that are not paraphrases elsewhere.
        group: (n_texts,) connected component of each text over both kinds of pairs, numbered by first text.
    """

    duplicates: np.ndarray
    others: np.ndarray
    group: np.ndarray

    @property
    def n_texts(self) -> int:
        """Number of texts."""
        return len(self.group)

    def paired(self) -> np.ndarray:
        """Return the numbers of the texts that occur in a pair, sorted."""
        return np.unique(np.concatenate([self.duplicates.ravel(), self.others.ravel()]))

    def rule_counts(self) -> dict[str, int]:
        """Return how many triples each ``qqp_rule`` gives from the labels (METHODS A.1, step 4)."""
        size = self.n_texts
        first = [np.bincount(pairs[:, 0], minlength=size) for pairs in (self.duplicates, self.others)]
        second = [np.bincount(pairs[:, 1], minlength=size) for pairs in (self.duplicates, self.others)]
        either = [one + two for one, two in zip(first, second, strict=True)]
        return {f"{name}_{way}": int(count) for name, (good, bad) in (("undirected", either), ("question1", first))
                for way, count in (("one", np.sum((good > 0) & (bad > 0))), ("all", np.sum(good * bad)))}


def relations(taken: Taken) -> Relations:
    """Return the partner graph of ``taken``; the negatives of given triples count as non-paraphrases."""
    size = len(taken.texts.keys)
    pairs = np.stack([taken.source, taken.target], axis=1)
    given = taken.negative >= 0
    negatives = np.stack([taken.source[given], taken.negative[given]], axis=1)
    duplicates = _unique(pairs[taken.paraphrase], size)
    others = _unique(np.concatenate([pairs[~taken.paraphrase], negatives]), size)
    both = np.concatenate([duplicates, others])
    graph = coo_array((np.ones(len(both), dtype=np.int8), tuple(both.T)), shape=(size, size))
    number, component = connected_components(graph, directed=False)
    # Only given triples can contradict themselves: contradictory pairs have been set aside.
    others = others[~np.isin(_pair_codes(others, size), _pair_codes(duplicates, size))]
    _, first = np.unique(component, return_index=True)
    renumbered = np.empty(number, dtype=np.int64)
    renumbered[np.argsort(first)] = np.arange(number)
    return Relations(duplicates, others, renumbered[component])


def given_items(taken: Taken) -> Items:
    """Return the triples as they were given."""
    return Items(taken.source, taken.target, taken.negative)


def paraphrase_items(partners: Relations) -> Items:
    """Return one item per paraphrase pair, still without a negative (``neg_source: retrieved``)."""
    source, target = partners.duplicates.T
    return Items(source, target, np.full(len(source), -1, dtype=np.int64))


def labelled_items(partners: Relations, texts: Texts, seed: int) -> Items:
    """Return one triple per text with partners of both kinds (``undirected_one``, ``neg_pick: hardest``).

    The target is a member of D(x) drawn by the seed and the texts, so that other rows do not change it. The
    negative is the member of N(x) with the largest token overlap (Jaccard); ties go to the smaller text key.
    """
    good, bad = (_neighbours(pairs, partners.n_texts) for pairs in (partners.duplicates, partners.others))
    inputs = np.flatnonzero((np.diff(good.indptr) > 0) & (np.diff(bad.indptr) > 0)).tolist()
    tokens = cache(lambda number: overlap_tokens(texts.surfaces[number]))
    targets = [_drawn(_of(good, x), x, texts, seed) for x in inputs]
    negatives = [_hardest(_of(bad, x), x, texts, tokens) for x in inputs]
    return Items(*(np.array(numbers, dtype=np.int64) for numbers in (inputs, targets, negatives)))


def _drawn(candidates: list[int], x: int, texts: Texts, seed: int) -> int:
    ordered = sorted(candidates, key=lambda number: texts.keys[number])
    return ordered[derived_seed(seed, "ingest", "target", texts.keys[x]) % len(ordered)]


def _hardest(candidates: list[int], x: int, texts: Texts, tokens: Callable[[int], frozenset[str]]) -> int:
    return min(candidates, key=lambda number: (-jaccard(tokens(x), tokens(number)), texts.keys[number]))


def _of(neighbours: csr_array, x: int) -> list[int]:
    return neighbours.indices[neighbours.indptr[x]:neighbours.indptr[x + 1]].tolist()


def _neighbours(pairs: np.ndarray, size: int) -> csr_array:
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return coo_array((np.ones(len(both), dtype=np.int8), tuple(both.T)), shape=(size, size)).tocsr()


def _unique(pairs: np.ndarray, size: int) -> np.ndarray:
    """Return each unordered pair once, as first written, in order of first appearance."""
    _, first = np.unique(_pair_codes(pairs, size), return_index=True)
    return pairs[np.sort(first)]


def _pair_codes(pairs: np.ndarray, size: int) -> np.ndarray:
    """Return one number per unordered pair."""
    return pairs.min(axis=1) * size + pairs.max(axis=1) if len(pairs) else np.empty(0, dtype=np.int64)
