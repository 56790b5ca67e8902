"""BM25 over many texts at once (Robertson and Zaragoza 2009, section 3), by sparse matrices."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from stages.data.deduplication.text_keys import HAN

# The usual saturation of repeated terms and share of length normalisation.
_K1, _B = 1.2, 0.75
_RUNS = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+")
_HAN_RUN = re.compile(rf"[{HAN}]")


def terms(text: str) -> list[str]:
    """Return the terms of ``text``: lower-cased words, and pairs of neighbouring Chinese characters.

    A Chinese character between others of another kind is a term by itself. Pairs stand for words, whose
    boundaries are not known before annotation.
    """
    found: list[str] = []
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text).lower()):
        if _HAN_RUN.match(run) and len(run) > 1:
            found += [one + other for one, other in pairwise(run)]
        else:
            found.append(run)
    return found


class Bm25:
    """Scores of texts for each other.

    score(q, d) = sum over the terms t of q, repetitions counted, of
    idf(t) tf(t, d) (k1 + 1) / (tf(t, d) + k1 (1 - b + b |d| / mean length)), with
    idf(t) = ln(1 + (n - n_t + 0.5) / (n_t + 0.5)), which is positive also for terms of most texts.

    Args:
        texts: the texts; their terms lie in memory.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = _term_counts(texts)
        n, lengths = len(texts), self._counts.sum(axis=1)
        weights = self._counts.copy()
        held = np.bincount(weights.indices, minlength=weights.shape[1])
        idf = np.log1p((n - held + 0.5) / (held + 0.5))
        mean = lengths.sum() / max(1, n) or 1.0
        rows = np.repeat(np.arange(n), np.diff(weights.indptr))
        tf = weights.data
        weights.data = idf[weights.indices] * tf * (_K1 + 1) / (tf + _K1 * (1 - _B + _B * lengths[rows] / mean))
        self._weights = weights.T.tocsr()

    def scores(self, places: np.ndarray) -> np.ndarray:
        """Return the scores of all texts for the texts at ``places``, (n_places, n_texts)."""
        return (self._counts[places] @ self._weights).toarray()


def _term_counts(texts: Sequence[str]) -> csr_array:
    """Return how often each text has each term, (n_texts, n_terms); terms by first appearance."""
    number: dict[str, int] = {}
    columns: list[int] = []
    counts: list[int] = []
    bounds = [0]
    for text in texts:
        found = sorted((number.setdefault(term, len(number)), count) for term, count in Counter(terms(text)).items())
        columns += [column for column, _ in found]
        counts += [count for _, count in found]
        bounds.append(len(columns))
    return csr_array((np.array(counts, dtype=np.float64), np.array(columns, dtype=np.int32), np.array(bounds)),
                     shape=(len(texts), max(1, len(number))))
