"""How far two methods agree on the keywords of the same texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

Lists = Mapping[str, Sequence[list[str] | None]]


@dataclass(frozen=True)
class Agreement:
    """Two methods over the texts for which both name a keyword.

    Attributes:
        texts: how many these are.
        same_best: share of texts whose best keyword is the same.
        shared_word: share of texts whose best keywords share a word.
        jaccard: mean over texts of the shared words of all keywords over the words of either.
    """

    texts: int
    same_best: float
    shared_word: float
    jaccard: float


def agreements(keywords: Lists) -> dict[str, Agreement]:
    """Return the agreement of every two methods, by ``a~b``.

    Args:
        keywords: for each method the keywords of each text, best first; None where the method says nothing.
    """
    return {f"{one}~{other}": agreement(keywords[one], keywords[other])
            for one, other in combinations(keywords, 2)}


def agreement(one: Sequence[list[str] | None], other: Sequence[list[str] | None]) -> Agreement:
    """Return how far two methods agree; all shares are 0 if they have no text in common."""
    both = [(first, second) for first, second in zip(one, other, strict=True) if first and second]
    if not both:
        return Agreement(0, 0.0, 0.0, 0.0)
    n = len(both)
    same = sum(first[0] == second[0] for first, second in both)
    shared = sum(bool(words(first[:1]) & words(second[:1])) for first, second in both)
    overlap = sum(jaccard(words(first), words(second)) for first, second in both)
    return Agreement(n, round(same / n, 6), round(shared / n, 6), round(overlap / n, 6))


def words(phrases: Sequence[str]) -> frozenset[str]:
    """Return the words of all ``phrases``."""
    return frozenset(word for phrase in phrases for word in phrase.split())


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the size of the intersection over that of the union."""
    return len(one & other) / len(one | other)
