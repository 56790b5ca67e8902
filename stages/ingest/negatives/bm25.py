"""BM25 over many texts at once (Robertson and Zaragoza 2009, section 3), by sparse matrices."""

import re
import unicodedata
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from stages.common.layouts import TURN
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.deduplication.text_keys import HAN
from stages.ingest.negatives.word_counts import word_counts

# The usual saturation of repeated terms and share of length normalisation.
_K1, _B = 1.2, 0.75
_RUNS = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+")
_HAN_RUN = re.compile(rf"[{HAN}]")
_BLOCK = 2**16


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

    Memory: some tens of bytes per text, and 17 bytes per text and distinct term of it.

    Args:
        texts: all texts; they are read once, and turns of a dialogue count as one text.
        pool: (n,) numbers of those that are compared, some perhaps several times.
    """

    def __init__(self, texts: TextFile, pool: np.ndarray) -> None:
        self._counts = _by_first_appearance(word_counts(texts, pool, lambda text: terms(text.replace(TURN, " "))))
        n, lengths = len(pool), self._counts.sum(axis=1).astype(np.float64)
        holders = self._counts.T.tocsr()
        held = np.diff(holders.indptr)
        idf = np.log1p((n - held + 0.5) / (held + 0.5))
        mean = lengths.sum() / max(1, n) or 1.0
        damping = _K1 * (1 - _B + _B * lengths / mean)
        weights = np.empty(holders.nnz)
        for start in range(0, holders.nnz, _BLOCK):
            block = np.arange(start, min(start + _BLOCK, holders.nnz))
            tf, term = holders.data[block].astype(np.float64), np.searchsorted(holders.indptr, block, "right") - 1
            weights[block] = idf[term] * tf * (_K1 + 1) / (tf + damping[holders.indices[block]])
        holders.data = weights
        self._weights = holders

    def scores(self, places: np.ndarray) -> np.ndarray:
        """Return the scores of all texts for the texts at ``places``, (n_places, n_texts)."""
        return (self._counts[places] @ self._weights).toarray()


def _by_first_appearance(counts: csr_array) -> csr_array:
    """Return ``counts`` with terms in the order in which the rows have them first: sums of scores follow it."""
    first = np.full(counts.shape[1], counts.nnz)
    np.minimum.at(first, counts.indices, np.arange(counts.nnz))
    column = np.empty(len(first), dtype=np.int32)
    column[np.argsort(first)] = np.arange(len(first))
    ordered = csr_array((counts.data, column[counts.indices], counts.indptr), shape=counts.shape)
    ordered.sort_indices()
    return ordered
