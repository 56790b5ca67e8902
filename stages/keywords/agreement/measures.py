"""How far two methods agree on the keywords of the same texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

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


class Agreements:
    """How far every two methods agree, counted text by text.

    Args:
        methods: their names.
    """

    def __init__(self, methods: Iterable[str]) -> None:
        self._pairs = {pair: _Counts() for pair in combinations(methods, 2)}

    def add(self, keywords: Lists) -> None:
        """Count some texts.

        Args:
            keywords: for each method the keywords of each text, best first; None where the method says nothing.
        """
        named = {method: [_Named(row[0], words(row[:1]), words(row)) if row else None for row in rows]
                 for method, rows in keywords.items()}
        for (one, other), counts in self._pairs.items():
            for first, second in zip(named[one], named[other], strict=True):
                if first is not None and second is not None:
                    counts.texts += 1
                    counts.same += first.best == second.best
                    counts.shared += not first.of_best.isdisjoint(second.of_best)
                    # Text after text, however they are cut into pieces: the last digit of a sum hangs on it.
                    counts.overlap += jaccard(first.of_all, second.of_all)

    def found(self) -> dict[str, Agreement]:
        """Return the agreement of every two methods, by ``a~b``; all shares are 0 if they have no text in common."""
        return {f"{one}~{other}": counts.agreement() for (one, other), counts in self._pairs.items()}


class _Named(NamedTuple):
    """The best keyword of a text, its words, and those of all keywords."""

    best: str
    of_best: frozenset[str]
    of_all: frozenset[str]


@dataclass
class _Counts:
    texts: int = 0
    same: int = 0
    shared: int = 0
    overlap: float = 0.0

    def agreement(self) -> Agreement:
        shares = (round(count / max(self.texts, 1), 6) for count in (self.same, self.shared, self.overlap))
        return Agreement(self.texts, *shares)


def words(phrases: Sequence[str]) -> frozenset[str]:
    """Return the words of all ``phrases``."""
    return frozenset(word for phrase in phrases for word in phrase.split())


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the size of the intersection over that of the union."""
    return len(one & other) / len(one | other)
