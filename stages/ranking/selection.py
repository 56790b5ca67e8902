"""One keyword per text: the best candidate, how ties fall, and what happens without one (METHODS A.2)."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stages.artifacts.schemas import NO_KEYWORD
from stages.ranking.normal_form import normal_form

# Scores that are equal by symmetry may differ in their last bits, by the order of a sum.
_DIGITS = 9


class Candidate(NamedTuple):
    """A word or phrase that may become a text's keyword: tokens ``start`` to ``end``, the latter not included."""

    keyword: str
    score: float
    start: int
    end: int


class Choice(NamedTuple):
    """The keyword of a text, the method that found it, and its score under that method."""

    keyword: str
    method: str
    score: float | None


@dataclass(frozen=True)
class InverseFrequency:
    """Inverse document frequency over the training texts: ``ln((1 + n) / (1 + df)) + 1``.

    The smoothed form gives words that training has not seen the highest value, and never divides by zero.

    Attributes:
        n_texts: number of training texts.
        frequency: training texts that hold each lower-cased token.
    """

    n_texts: int
    frequency: Counter[str]

    @classmethod
    def over(cls, texts: Iterable[Sequence[str]]) -> "InverseFrequency":
        """Count the tokens of ``texts``, one sequence of tokens each."""
        frequency: Counter[str] = Counter()
        n_texts = 0
        for tokens in texts:
            frequency.update({token.lower() for token in tokens})
            n_texts += 1
        return cls(n_texts, frequency)

    def of(self, token: str) -> float:
        """Return the value of one token."""
        return math.log((1 + self.n_texts) / (1 + self.frequency[token.lower()])) + 1

    def mean(self, tokens: Sequence[str]) -> float:
        """Return the mean value of a phrase's tokens, so that a phrase does not win by its length."""
        return sum(map(self.of, tokens)) / len(tokens)


def choose(candidates: Iterable[Candidate], method: str, tokens: Sequence[str], is_stop: Sequence[bool],
           idf: InverseFrequency) -> Choice:
    """Return the keyword of one text.

    The highest score wins; ties go to the higher IDF over training texts, then to the earliest position.
    Candidates without a positive score are none: no node of the ranking stands behind them. If no candidate
    is left, the word with the highest IDF is taken, and without words ``<nokw>``.

    Args:
        candidates: the ranked phrases or words of the text.
        method: name of the ranking.
        tokens: the text's tokens.
        is_stop: whether each is a stop word.
        idf: IDF over training texts.
    """
    best = _best((item for item in candidates if item.score > 0), tokens, idf)
    if best is not None:
        return Choice(best.keyword, method, best.score)
    best = _best((Candidate(normal_form(tokens[place]), idf.of(tokens[place]), place, place + 1)
                  for place in content_words(tokens, is_stop)), tokens, idf)
    return Choice(NO_KEYWORD, "none", None) if best is None else Choice(best.keyword, "idf", best.score)


def content_words(tokens: Sequence[str], is_stop: Sequence[bool]) -> list[int]:
    """Return the places of the alphabetic tokens that are no stop words."""
    return [place for place, (token, stop) in enumerate(zip(tokens, is_stop, strict=True))
            if token.isalpha() and not stop]


def _best(candidates: Iterable[Candidate], tokens: Sequence[str], idf: InverseFrequency) -> Candidate | None:
    return min(candidates, default=None, key=lambda item: (
        -round(item.score, _DIGITS), -round(idf.mean(tokens[item.start:item.end]), _DIGITS), item.start, item.end))
