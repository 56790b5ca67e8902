"""Distinct texts by number, in an Arrow file, and lists of such numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stages.ingest.text_keys import text_key

NO_TEXT = -1
_BATCH = 2**13


class TextFile:
    """Texts by number in a memory-mapped file at ``path``, written from batches of one column."""

    def __init__(self, path: Path, texts: pa.RecordBatchReader) -> None:
        self._path = path
        with pa.ipc.new_file(path, texts.schema) as writer:
            for batch in texts:
                writer.write_batch(batch)

    @cached_property
    def _texts(self) -> pa.ChunkedArray:
        return pa.ipc.open_file(pa.memory_map(str(self._path))).read_all().column(0)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> str:
        text: str = self._texts[number].as_py()
        return text

    def batches(self, wanted: np.ndarray, size: int) -> Iterator[list[str]]:
        """Yield the texts at the rising numbers where ``wanted`` (n_texts,) is true, at most ``size`` at a time."""
        for start in range(0, len(self), size):
            piece = slice(start, start + size)
            if wanted[piece].any():
                yield self._texts[piece].filter(pa.array(wanted[piece])).to_pylist()


def letter_hashes(texts: TextFile) -> np.ndarray:
    """Return a hash of the letters and digits of each text, (n_texts,) uint64."""
    batches = texts.batches(np.ones(len(texts), dtype=bool), _BATCH)
    hashes = [blake2b(text_key(text).encode(), digest_size=8).digest() for batch in batches for text in batch]
    return np.frombuffer(b"".join(hashes), "<u8")


@dataclass(frozen=True)
class TextLists:
    """Lists of text numbers one after another: list ``i`` is ``texts[bounds[i]:bounds[i + 1]]``."""

    bounds: np.ndarray
    texts: np.ndarray

    def of(self, number: int) -> list[int]:
        """Return the texts of one list."""
        return self.texts[self.bounds[number]:self.bounds[number + 1]].tolist()

    def at(self, places: np.ndarray) -> "TextLists":
        """Return the lists at ``places``."""
        first, lengths = self.bounds[places], self.bounds[places + 1] - self.bounds[places]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return text_lists(lengths, self.texts[np.repeat(first, lengths) + within])


def text_lists(lengths: np.ndarray, texts: np.ndarray) -> TextLists:
    """Return the lists of the given ``lengths`` that follow one another in ``texts``."""
    return TextLists(np.append(0, np.cumsum(lengths, dtype=np.int64)), texts)


def grouped(group: np.ndarray, texts: np.ndarray, count: int) -> TextLists:
    """Return the ``texts`` (n,) of each of ``count`` groups, in their order, given the (n,) ``group`` of each."""
    return text_lists(np.bincount(group, minlength=count), texts[np.argsort(group, kind="stable")])


def components(n_texts: int, pairs: np.ndarray) -> np.ndarray:
    """Return the (n_texts,) connected component of each text, numbered by first text, given (n, 2) pairs."""
    edges = coo_array((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(n_texts, n_texts))
    return connected_components(edges, directed=False)[1] if n_texts else np.empty(0, dtype=np.int32)


def text_mask(n_texts: int, *numbers: np.ndarray) -> np.ndarray:
    """Return which texts are among ``numbers``, (n_texts,) bool."""
    mask = np.zeros(n_texts, dtype=bool)
    for texts in numbers:
        mask[texts] = True
    return mask
