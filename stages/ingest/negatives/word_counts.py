"""What a search among texts needs of them, as arrays: their order by text key, and how often each has each word.

Texts are read batch by batch; of each remain its number and the numbers of its words, some bytes apiece.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array

from stages.ingest.deduplication.on_disk import TextFile
from stages.ingest.deduplication.text_keys import text_key

_BATCH = 2**12


def in_key_order(texts: TextFile, wanted: np.ndarray) -> np.ndarray:
    """Return the numbers of the texts where ``wanted`` (n_texts,) is true, by rising text key; equal keys by number.

    Memory: the keys, until they are sorted.
    """
    keys = pa.chunked_array([pa.array(map(text_key, batch), pa.string()) for batch in texts.batches(wanted, _BATCH)],
                            pa.string())
    # Arrow compares bytes of UTF-8, which is the order of Python's strings, and keeps the order of equal ones.
    order: np.ndarray = pc.sort_indices(keys).to_numpy()
    found: np.ndarray = np.flatnonzero(wanted).astype(np.int32)[order]
    del keys, order
    pa.default_memory_pool().release_unused()  # else Arrow keeps what they took, and words would come on top of it
    return found


def word_counts(texts: TextFile, numbers: np.ndarray, words_of: Callable[[str], Iterable[str]]) -> csr_array:
    """Return how often the texts ``numbers`` have each word, (n, n_words) whole numbers.

    A text that is named several times is read once. Words are numbered as they are met, in the order of the texts'
    numbers, and stand in each row as they do in the text.

    Args:
        texts: all texts.
        numbers: (n,) numbers of texts, in the order of the rows that are wanted.
        words_of: the words of a text.
    """
    distinct, rows = np.unique(numbers, return_inverse=True)
    wanted = np.zeros(len(texts), dtype=bool)
    wanted[distinct] = True
    number: defaultdict[str, int] = defaultdict(count().__next__)
    columns, repeats, bounds = array("i"), array("i"), array("q", [0])
    for batch in texts.batches(wanted, _BATCH):
        for text in batch:
            found = Counter(words_of(text))
            columns.extend(map(number.__getitem__, found))
            repeats.extend(found.values())
            bounds.append(len(columns))
    counts = np.frombuffer(repeats, np.int32)
    counts = counts.astype(np.min_scalar_type(counts.max(initial=1)))
    del repeats  # four bytes for what mostly needs one
    # SciPy widens columns to the width of bounds.
    ends = np.frombuffer(bounds, np.int64).astype(np.int32 if len(columns) <= np.iinfo(np.int32).max else np.int64)
    shape = (len(distinct), max(1, len(number)))
    return csr_array((counts, np.frombuffer(columns, np.int32), ends), shape=shape)[rows]
