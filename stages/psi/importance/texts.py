"""Texts as words, read in bulk: which texts belong to which split, and their tokens as numbers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from stages.common.schemas import SPLITS

STALE = "The tables were made from different texts: run the stages ingest and annotate again."


@dataclass(frozen=True)
class Texts:
    """Many texts as numbers of words: text ``i`` is ``words[offsets[i]:offsets[i + 1]]``.

    Attributes:
        ids: text ids, ascending (T,).
        offsets: (T + 1,).
        words: number of each word (N,); what it counts is the maker's choice.
    """

    ids: np.ndarray
    offsets: np.ndarray
    words: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Words of each text (T,)."""
        return np.diff(self.offsets)

    def positions(self, text_ids: np.ndarray) -> np.ndarray:
        """Return where each of ``text_ids``, an array of any shape, stands among ``ids``.

        Raises:
            InputError: one of them is not there.
        """
        found = np.searchsorted(self.ids, text_ids)
        known = self.ids[np.minimum(found, len(self.ids) - 1)] == text_ids if len(self.ids) else text_ids != text_ids
        if not known.all():
            missing = np.unique(np.asarray(text_ids)[~known])
            raise InputError(f"table tokens: text {missing[0]} has no row (and {len(missing) - 1} more). {STALE}")
        return found

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the words of texts of equal length as a matrix (len(positions), length)."""
        length = int(self.lengths[positions[0]]) if len(positions) else 0
        return self.words[self.offsets[positions][:, None] + np.arange(length)]


@dataclass(frozen=True)
class WordTexts:
    """Texts as numbers of words: ``words[n]`` is word number ``n``."""

    words: list[str]
    texts: Texts

    def of(self, text_id: int) -> np.ndarray:
        """Return the numbers of the words of one text."""
        place = int(self.texts.positions(np.array([text_id]))[0])
        return self.texts.words[self.texts.offsets[place]:self.texts.offsets[place + 1]]


def read_words(batches: Iterable[pa.Table], spelt: Callable[[str], str] = str) -> WordTexts:
    """Return the texts of ``tokens`` batches, and their distinct words, as ``spelt``, by first appearance."""
    numbers: dict[str, int] = {}
    texts = read_texts(batches, lambda tokens: np.array([numbers.setdefault(spelt(token), len(numbers))
                                                         for token in tokens]))
    return WordTexts(list(numbers), texts)


def read_texts(batches: Iterable[pa.Table], number: Callable[[list[str]], np.ndarray]) -> Texts:
    """Return the texts of ``tokens`` batches, their words numbered by ``number``.

    Args:
        batches: pieces of table ``tokens`` in its order, with the columns ``text_id`` and ``token``.
        number: given distinct tokens as written, returns a number for each.
    """
    ids, lengths, words = [np.zeros(0, np.int64)], [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
    for batch in batches:
        column = batch["token"].combine_chunks()
        distinct = pc.list_flatten(column).dictionary_encode()
        numbers = np.asarray(number(distinct.dictionary.to_pylist()), dtype=np.int32)
        ids.append(batch["text_id"].to_numpy())
        lengths.append(pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64))
        words.append(numbers[distinct.indices.to_numpy()] if len(distinct) else np.zeros(0, np.int32))
    return Texts(np.concatenate(ids), np.cumsum(np.concatenate(lengths)), np.concatenate(words))


def split_texts(examples: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return, for each split, the sorted ids of the texts that its examples name: source, targets, negative."""
    found = {}
    for split in SPLITS:
        rows = examples[examples["split"] == split]
        named = [rows["source_id"], rows["target_id"], rows["negative_id"].dropna(),
                 rows["reference_ids"].explode().dropna()]
        found[split] = np.unique(np.concatenate([column.to_numpy(dtype=np.int64) for column in named]))
    return found
