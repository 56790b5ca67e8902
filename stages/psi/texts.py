"""Texts as words, read in bulk: their tokens as numbers, of words or of rows of a table of word vectors."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError

STALE = "The tables were made from different texts: run the stages ingest and annotate again."


@dataclass(frozen=True)
class Texts:
    """Texts as numbers of words, by ascending text id: text ``i`` is ``words[offsets[i]:offsets[i + 1]]``, and word
    number ``n`` is ``vocabulary[n]``, where the words have no other meaning."""

    ids: np.ndarray
    offsets: np.ndarray
    words: np.ndarray
    vocabulary: list[str] = field(default_factory=list)

    @property
    def lengths(self) -> np.ndarray:
        """Number of words of each text (T,)."""
        return np.diff(self.offsets)

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return the position in ``ids`` of each of ``text_ids``, an array of any shape."""
        rows = np.searchsorted(self.ids, text_ids)
        known = self.ids[np.minimum(rows, len(self.ids) - 1)] == text_ids if len(self.ids) else text_ids != text_ids
        if not known.all():
            missing = np.unique(np.asarray(text_ids)[~known])
            raise InputError(f"table tokens: text {missing[0]} has no row (and {len(missing) - 1} more). {STALE}")
        return rows

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the words of texts of equal length as a matrix (len(positions), length)."""
        length = int(self.lengths[positions[0]]) if len(positions) else 0
        return self.words[self.offsets[positions][:, None] + np.arange(length)]

    def of(self, text_id: int) -> np.ndarray:
        """Return the words of the text of an id."""
        return self.rows(self.positions(np.array([text_id])))[0]


def read_words(batches: Iterable[pa.Table], spelt: Callable[[str], str] = str) -> Texts:
    """Return the texts of ``tokens`` batches, and their distinct words, as ``spelt``, by first appearance."""
    numbers: dict[str, int] = {}
    texts = read_texts(batches, lambda tokens: np.array([numbers.setdefault(spelt(token), len(numbers))
                                                         for token in tokens]))
    return replace(texts, vocabulary=list(numbers))


def read_texts(batches: Iterable[pa.Table], number: Callable[[list[str]], np.ndarray]) -> Texts:
    """Return the texts of ``tokens`` batches, their words numbered by ``number``."""
    ids, lengths, words = [np.zeros(0, np.int64)], [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
    for batch in batches:
        column = batch["token"].combine_chunks()
        distinct = pc.list_flatten(column).dictionary_encode()
        numbers = np.asarray(number(distinct.dictionary.to_pylist()), dtype=np.int32)
        ids.append(batch["text_id"].to_numpy())
        lengths.append(pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64))
        words.append(numbers[distinct.indices.to_numpy()] if len(distinct) else np.zeros(0, np.int32))
    return Texts(np.concatenate(ids), np.cumsum(np.concatenate(lengths)), np.concatenate(words))


def found_form(token: str, known: Collection[str]) -> str | None:
    """Return the form of ``token`` that is among the ``known`` words: lower case, as in IANet and PGKPR, else as
    written ("NASA"); None if neither is."""
    return next((form for form in (token.lower(), token) if form in known), None)


UNKNOWN = -1.0  # every coordinate of a word without a vector, as in PGKPR's code


class VectorTable:
    """Word vectors by row: those of ``words``, and a last row for all words without a vector.

    >>> table = VectorTable(["cat", "dog"], np.array([[1, 2], [3, 4]], dtype=np.float32))
    >>> table.numbers(["Dog", "xyz"])
    array([1, 2], dtype=int32)
    """

    def __init__(self, words: Sequence[str], vectors: np.ndarray) -> None:
        self.words = list(words)
        self.matrix = np.full((len(words) + 1, vectors.shape[1]), UNKNOWN, dtype=np.float32)
        self.matrix[:-1] = vectors + 0.0  # (V + 1, D), without -0.0, whose place among equal numbers is another
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
        """Return the row of each token (n,), looked up as :func:`found_form` says."""
        forms = (found_form(token, self._row) for token in tokens)
        return np.array([self.unknown if form is None else self._row[form] for form in forms], dtype=np.int32)
