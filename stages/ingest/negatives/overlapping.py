"""Retrieved negatives: the most overlapping, or nearest, texts outside one's own component (METHODS A.1, step 7)."""

from typing import Protocol

import numpy as np

from keycontrast.progress import progress
from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.deduplication.text_keys import overlap_tokens
from stages.ingest.items.items import NO_TEXT, grouped
from stages.ingest.negatives.word_counts import word_counts

# A word held by half of all texts would have half of them counted one by one for each query that has it; the 64 most
# frequent words become bits of one integer per text instead, and their overlap is a population count.
_COMMON = 64
_CELLS = 4_000_000


class Scores(Protocol):
    """Scores of the texts of a pool for each other."""

    def scores(self, places: np.ndarray) -> np.ndarray:
        """Return the scores of all texts for those at ``places`` (n_places, n_texts); -inf is never chosen."""
        ...


def retrieve(queries: np.ndarray, pool: np.ndarray, group: np.ndarray, engine: Scores, count: int = 1) -> np.ndarray:
    """Return for each query the texts of ``pool`` with the largest score outside its component.

    Exact, largest first. Of equal scores that which comes first in ``pool`` is taken. Memory: some tens of bytes per
    text of the pool, besides what the engine holds; the scores of a chunk of queries take constant memory.

    Args:
        queries: (n_queries,) text numbers, all of them in ``pool``.
        pool: (n_pool,) text numbers of one split, by rising text key.
        group: (n_texts,) component of each text.
        engine: scores of the texts of ``pool``, in its order.
        count: texts per query, all different.

    Returns:
        (n_queries, count) text numbers; -1 where the pool has no further text outside the component.
    """
    places = np.arange(len(pool), dtype=np.int32)
    place = np.empty(len(group), dtype=np.int32)
    place[pool] = places
    members = grouped(group[pool], places, int(group.max(initial=-1)) + 1)
    step = max(1, _CELLS // max(1, len(pool)))
    found = np.full((len(queries), count), NO_TEXT, dtype=np.int32)
    for start in progress(range(0, len(queries), step), "ingest: negatives", unit="chunk"):
        rows = place[queries[start:start + step]]
        score = engine.scores(rows)
        for line, row in enumerate(rows):
            score[line, members.of(int(group[pool[row]]))] = -np.inf
        for nth in range(count):
            best = score.argmax(axis=1)
            high = score[np.arange(len(rows)), best]
            found[start:start + step, nth] = np.where(np.isneginf(high), NO_TEXT, pool[best])
            score[np.arange(len(rows)), best] = -np.inf
    return found


class Overlap:
    """Jaccard overlap of words. Memory: some tens of bytes per text, and ten bytes per text and distinct word of it.

    Counts are float32: whole numbers up to 2**24 are exact, and quotients of numbers below 2**11 differ
    whenever the fractions do.

    Args:
        texts: all texts; they are read once.
        pool: (n,) numbers of those that are compared.
    """

    def __init__(self, texts: TextFile, pool: np.ndarray) -> None:
        self._words = word_counts(texts, pool, overlap_tokens)
        self._holders = self._words.T.tocsr()
        self._sizes = np.diff(self._words.indptr).astype(np.float32)
        frequency = np.diff(self._holders.indptr)
        common = np.argsort(-frequency, kind="stable")[:_COMMON]
        self._is_rare = np.ones(len(frequency), dtype=bool)
        self._is_rare[common] = False
        self._common = np.zeros(len(pool), dtype=np.uint64)
        for bit, word in enumerate(common.tolist()):
            self._common[self._having(word)] |= np.uint64(1 << bit)

    def scores(self, places: np.ndarray) -> np.ndarray:
        """Return the overlaps with the texts at ``places``."""
        found = np.empty((len(places), len(self._sizes)), dtype=np.float32)
        for row, place in zip(found, places.tolist(), strict=True):
            row[:] = np.bitwise_count(self._common[place] & self._common)
            words = self._words.indices[self._words.indptr[place]:self._words.indptr[place + 1]]
            for word in words[self._is_rare[words]].tolist():
                row[self._having(word)] += 1
            row /= self._sizes[place] + self._sizes - row
        return found

    def _having(self, word: int) -> np.ndarray:
        """Return the places of the texts that have ``word``, each once."""
        found: np.ndarray = self._holders.indices[self._holders.indptr[word]:self._holders.indptr[word + 1]]
        return found
