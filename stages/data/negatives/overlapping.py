"""Retrieved negatives: the most overlapping texts outside one's own component (METHODS A.1, step 7)."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from stages.data.deduplication.text_keys import overlap_tokens, text_key
from stages.data.items.items import NO_TEXT, grouped
from stages.runtime.progress import progress

# A word held by half of all texts would make the sparse product dense; the 64 most frequent words become
# bits of one integer per text instead, and their overlap is a population count.
_COMMON = 64
_CELLS = 4_000_000


def retrieve(queries: np.ndarray, pool: np.ndarray, group: np.ndarray, surfaces: Sequence[str],
             count: int = 1) -> np.ndarray:
    """Return for each query the texts of ``pool`` with the largest Jaccard overlap outside its component.

    Exact, largest first. Ties go to the smaller text key. The texts of the pool and their words lie in memory,
    about two kilobytes per text; the scores of a chunk of queries take constant memory.

    Args:
        queries: (n_queries,) text numbers, all of them in ``pool``.
        pool: (n_pool,) text numbers of one split.
        group: (n_texts,) component of each text.
        surfaces: texts of ``pool``, aligned with it.
        count: texts per query, all different.

    Returns:
        (n_queries, count) text numbers; -1 where the pool has no further text outside the component.
    """
    keys = [text_key(text) for text in surfaces]
    order = sorted(range(len(pool)), key=keys.__getitem__)
    pool = np.asarray(pool, dtype=np.int64)[order]
    place = np.empty(len(group), dtype=np.int64)
    place[pool] = np.arange(len(pool))
    rare, common, sizes = _vectors([overlap_tokens(surfaces[number]) for number in order])
    transposed = rare.T.tocsr()
    members = grouped(group[pool], np.arange(len(pool)), int(group.max(initial=-1)) + 1)
    step = max(1, _CELLS // max(1, len(pool)))
    found = np.full((len(queries), count), NO_TEXT, dtype=np.int32)
    for start in progress(range(0, len(queries), step), "ingest: negatives", unit="chunk"):
        rows = place[queries[start:start + step]]
        score = (rare[rows] @ transposed).toarray()
        score += np.bitwise_count(common[rows][:, None] & common[None, :])
        score /= sizes[rows][:, None] + sizes[None, :] - score
        for line, row in enumerate(rows):
            score[line, members.of(int(group[pool[row]]))] = -1.0
        for nth in range(count):
            best = score.argmax(axis=1)
            high = score[np.arange(len(rows)), best]
            found[start:start + step, nth] = np.where(high < 0, NO_TEXT, pool[best])
            score[np.arange(len(rows)), best] = -1.0
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
