"""A table of word vectors in memory, and how tokens find their rows in it."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

UNKNOWN = -1.0  # every coordinate of a word without a vector, as in PGKPR's code


def forms(token: str) -> Iterator[str]:
    """Yield the forms under which ``token`` is looked up, the first that has a vector being taken.

    Lower case comes first, since IANet and PGKPR lower-case their texts; a name that a cased table knows
    only as written ("NASA") is found under that form.
    """
    yield token.lower()
    yield token


class VectorTable:
    """Word vectors by row: those of ``words``, and in the last row that of every word that has none.

    >>> table = VectorTable(["cat", "dog"], np.array([[1, 2], [3, 4]], dtype=np.float32))
    >>> table.numbers(["Dog", "xyz"])
    array([1, 2], dtype=int32)

    Args:
        words: distinct words (V,).
        vectors: their vectors (V, D).
    """

    def __init__(self, words: Sequence[str], vectors: np.ndarray) -> None:
        self.words = list(words)
        self.matrix = np.full((len(words) + 1, vectors.shape[1]), UNKNOWN, dtype=np.float32)
        # Adding 0 makes -0 equal to 0 in its bits too, by which the engine compares.
        np.add(vectors, 0.0, out=self.matrix[:-1])  # (V + 1, D)
        self._row = {word: row for row, word in enumerate(words)}

    @classmethod
    def from_arrow(cls, table: pa.Table) -> "VectorTable":
        """Return the vectors of table ``word_vectors``."""
        vectors = table["vector"].combine_chunks()
        flat = vectors.flatten().to_numpy(zero_copy_only=False)
        return cls(table["word"].to_pylist(), flat.reshape(len(vectors), -1))

    @property
    def unknown(self) -> int:
        """Row of a word that has no vector."""
        return len(self.matrix) - 1

    def numbers(self, tokens: Iterable[str]) -> np.ndarray:
        """Return the row of each token (n,), looked up as :func:`forms` says."""
        return np.array([next((self._row[form] for form in forms(token) if form in self._row), self.unknown)
                         for token in tokens], dtype=np.int32)
