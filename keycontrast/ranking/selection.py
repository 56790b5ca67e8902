"""What decides between candidates: inverse document frequency, and the order of ties."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keycontrast.ranking.blocks import Spans, TokenBlock, encode, run_starts, sum_by

# Scores that are equal by symmetry may differ in their last bits, by the order of a sum.
DIGITS = 9


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
    def over_tables(cls, tables: Iterable[pa.Table], wanted: np.ndarray | None = None) -> "InverseFrequency":
        """Count the tokens of texts in pieces of table ``tokens``, of which ``text_id`` and ``token`` are read.

        ``wanted`` says by text id whether a text counts; those beyond its end do not. None counts all.
        """
        frequency: Counter[str] = Counter()
        n_texts = 0
        for table in tables:
            if wanted is not None:
                ids = table["text_id"].to_numpy()
                inside = ids < len(wanted)
                inside[inside] = wanted[ids[inside]]
                table = table.filter(pa.array(inside))
            block = TokenBlock(table)
            codes, words = encode(block.tokens, str.lower)
            held = np.sort(block.text * max(len(words), 1) + codes)
            once = held[run_starts(held)] % max(len(words), 1)
            frequency.update(dict(zip(words, np.bincount(once, minlength=len(words)).tolist(), strict=True)))
            n_texts += table.num_rows
        return cls(n_texts, frequency)

    def of(self, token: str) -> float:
        """Return the value of one token."""
        return math.log((1 + self.n_texts) / (1 + self.frequency[token.lower()])) + 1

    def values(self, words: Sequence[str]) -> np.ndarray:
        """Return the value of each of ``words``, which are in lower case, (words,)."""
        held = np.fromiter((self.frequency.get(word, 0) for word in words), dtype=np.int64, count=len(words))
        counts, place = np.unique(held, return_inverse=True)
        # math.log, as in `of`: a vectorised logarithm may differ from it in the last bit.
        return np.array([math.log((1 + self.n_texts) / (1 + count)) + 1 for count in counts.tolist()])[place]

    def means(self, block: TokenBlock, spans: Spans) -> np.ndarray:
        """Return the mean value of each span's tokens, so that none wins by its length, (spans,)."""
        span, places = spans.members()
        codes, words = encode(block.tokens.take(pa.array(places)), str.lower)
        total = sum_by(span, self.values(words)[codes], len(spans))
        return total / np.maximum(spans.end - spans.start, 1)


def best_first(row: np.ndarray, score: np.ndarray, idf: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the order of candidates: by ``row``, then by score, IDF over training texts and earliest position.

    Scores and IDF count to nine digits; of two candidates that start together, the shorter one comes first.
    """
    return np.lexsort((end, start, -np.round(idf, DIGITS), -np.round(score, DIGITS), row))
