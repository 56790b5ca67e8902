"""Similarity of texts by the words that they share."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

# Returns the scores of all texts of a pool for those at given places, (n_places, n_pool); -inf is never chosen.
Scores = Callable[[np.ndarray], np.ndarray]
# BM25: the usual saturation of repeated terms and share of length normalisation.
_K1, _B = 1.2, 0.75


def word_counts(texts: Iterable[Any], words_of: Callable[[Any], Iterable[Any]]) -> csr_matrix:
    """Return how often the texts have each word, (n_texts, n_words)."""
    from sklearn.feature_extraction.text import CountVectorizer  # 50 MiB that most stages do not need

    return CountVectorizer(analyzer=words_of, dtype=np.int32).fit_transform(texts)


def bm25(counts: csr_matrix) -> Scores:
    """Return the BM25 scores of texts for each other, from their ``counts`` (Robertson and Zaragoza 2009, section 3).

    score(q, d) = sum over the terms t of q, repetitions counted, of
    idf(t) tf(t, d) (k1 + 1) / (tf(t, d) + k1 (1 - b + b |d| / mean length)), with
    idf(t) = ln(1 + (n - n_t + 0.5) / (n_t + 0.5)), which is positive also for terms of most texts.
    """
    counts = counts.astype(np.float64)
    n, lengths, holders = counts.shape[0], np.asarray(counts.sum(axis=1)).ravel(), counts.count_nonzero(axis=0)
    idf = np.log1p((n - holders + 0.5) / (holders + 0.5))
    damping = np.repeat(_K1 * (1 - _B + _B * lengths / lengths.mean()), np.diff(counts.indptr))
    weights = counts.copy()
    weights.data = idf[counts.indices] * counts.data * (_K1 + 1) / (counts.data + damping)
    columns = weights.T.tocsr()
    return lambda places: (counts[places] @ columns).toarray()
