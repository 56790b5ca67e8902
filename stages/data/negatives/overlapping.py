"""Retrieved negatives: the most overlapping, or nearest, texts outside one's own component (METHODS A.1, step 7)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from stages.data.deduplication.text_keys import overlap_tokens, text_key
from stages.data.items.items import NO_TEXT, grouped
from stages.runtime.progress import progress

# A word held by half of all texts would make the sparse product dense; the 64 most frequent words become
# bits of one integer per text instead, and their overlap is a population count.
_COMMON = 64
_CELLS = 4_000_000


class Scores(Protocol):
    """Scores of the texts of a pool for each other."""

    def scores(self, places: np.ndarray) -> np.ndarray:
        """Return the scores of all texts for those at ``places`` (n_places, n_texts); -inf is never chosen."""
        ...


def retrieve(queries: np.ndarray, pool: np.ndarray, group: np.ndarray, surfaces: Sequence[str], count: int = 1,
             engine: Callable[[np.ndarray, list[str]], Scores] | None = None) -> np.ndarray:
    """Return for each query the texts of ``pool`` with the largest score outside its component.

    Exact, largest first. Ties go to the smaller text key. The texts of the pool and their words lie in memory,
    about two kilobytes per text; the scores of a chunk of queries take constant memory.

    Args:
        queries: (n_queries,) text numbers, all of them in ``pool``.
        pool: (n_pool,) text numbers of one split.
        group: (n_texts,) component of each text.
        surfaces: texts of ``pool``, aligned with it.
        count: texts per query, all different.
        engine: makes the scores of a pool, given its text numbers and texts; None takes the Jaccard overlap.

    Returns:
        (n_queries, count) text numbers; -1 where the pool has no further text outside the component.
    """
    keys = [text_key(text) for text in surfaces]
    order = sorted(range(len(pool)), key=keys.__getitem__)
    pool = np.asarray(pool, dtype=np.int64)[order]
    place = np.empty(len(group), dtype=np.int64)
    place[pool] = np.arange(len(pool))
    texts = [surfaces[number] for number in order]
    scores = engine(pool, texts) if engine is not None else _Overlap(texts)
    members = grouped(group[pool], np.arange(len(pool)), int(group.max(initial=-1)) + 1)
    step = max(1, _CELLS // max(1, len(pool)))
    found = np.full((len(queries), count), NO_TEXT, dtype=np.int32)
    for start in progress(range(0, len(queries), step), "ingest: negatives", unit="chunk"):
        rows = place[queries[start:start + step]]
        score = scores.scores(rows)
        for line, row in enumerate(rows):
            score[line, members.of(int(group[pool[row]]))] = -np.inf
        for nth in range(count):
            best = score.argmax(axis=1)
            high = score[np.arange(len(rows)), best]
            found[start:start + step, nth] = np.where(np.isneginf(high), NO_TEXT, pool[best])
            score[np.arange(len(rows)), best] = -np.inf
    return found


class _Overlap:
    """Jaccard overlap of words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._rare, self._common, self._sizes = _vectors([overlap_tokens(text) for text in texts])
        self._transposed = self._rare.T.tocsr()

    def scores(self, places: np.ndarray) -> np.ndarray:
        """Return the overlaps with the texts at ``places``."""
        found: np.ndarray = (self._rare[places] @ self._transposed).toarray()
        found += np.bitwise_count(self._common[places][:, None] & self._common[None, :])
        found /= self._sizes[places][:, None] + self._sizes[None, :] - found
        return found


def _vectors(tokens: list[frozenset[str]]) -> tuple[csr_array, np.ndarray, np.ndarray]:
    """Return rare tokens as a (n, n_rare) matrix, common ones as (n,) bits, and (n,) token counts.

    Counts are float32: whole numbers up to 2**24 are exact, and quotients of numbers below 2**11 differ
    whenever the fractions do.
    """
    frequency = Counter(token for text in tokens for token in text)
    ordered = sorted(frequency, key=lambda token: (-frequency[token], token))
    number = {token: place for place, token in enumerate(ordered)}
    lengths = np.array([len(text) for text in tokens], dtype=np.int64)
    row = np.repeat(np.arange(len(tokens)), lengths)
    column = np.array([number[token] for text in tokens for token in sorted(text)], dtype=np.int64)
    is_common = column < _COMMON
    bits = np.zeros(len(tokens), dtype=np.uint64)
    np.bitwise_or.at(bits, row[is_common], np.uint64(1) << column[is_common].astype(np.uint64))
    places = (row[~is_common], column[~is_common] - _COMMON)
    shape = (len(tokens), max(1, len(ordered) - _COMMON))
    rare = csr_array((np.ones(len(places[0]), dtype=np.float32), places), shape=shape)
    return rare, bits, lengths.astype(np.float32)
