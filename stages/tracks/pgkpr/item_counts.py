"""What is counted of the items: the vocabulary of their words, and by split how long, known and marked they are."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.common.lookup import Lookup
from stages.common.schemas import SPLITS
from stages.tracks.pgkpr.pairs import Pairs
from stages.tracks.pgkpr.vocabulary import PENN_WORD_TAGS, Vocabulary
from stages.tracks.pgkpr.words import TextWords, list_lengths, within

_MODES = ("xx", "xy")
# Texts whose words are counted together.
_ROWS = 8192


def count_vocabulary(words: Lookup, weights: np.ndarray, size: int, penn: bool) -> Vocabulary:
    """Return the vocabulary: every tag of ``words``, and the ``size`` most frequent words of training pairs.

    Args:
        words: all texts of the data set, as ``TextWords.as_rows`` makes them.
        weights: how often each of them counts (T,).
        size: words at most.
        penn: texts are English: all word tags of the Penn Treebank are in the vocabulary, seen or not.
    """
    counted: Counter[str] = Counter()
    tags: Counter[str] = Counter(dict.fromkeys(PENN_WORD_TAGS, 0) if penn else {})
    for row in range(0, len(words.ids), _ROWS):
        texts = TextWords.of_rows(words.table.slice(row, _ROWS))
        weight = np.repeat(weights[row:row + _ROWS], texts.lengths)
        counted.update({word: count for word, count in _counts(texts.words.flatten(), weight).items() if count})
        tags.update(_counts(texts.tags.flatten(), weight))
    return Vocabulary.counted(counted, tags, size)


def _counts(values: pa.Array, weight: np.ndarray) -> dict[str, int]:
    """Return the sum of weights of each distinct value."""
    coded = values.dictionary_encode()
    totals = np.bincount(coded.indices.to_numpy(), weights=weight, minlength=len(coded.dictionary)).astype(np.int64)
    return dict(zip(coded.dictionary.to_pylist(), totals.tolist(), strict=True))


class ItemCounts:
    """Means and shares by split, of items that come piece by piece; all but ``cut`` of the words that models read.

    Args:
        pairs: how many will come.
        vocabulary: of the data set.
        max_length: words of a text that models read.
    """

    def __init__(self, pairs: int, vocabulary: Vocabulary, max_length: int) -> None:
        self._vocabulary, self._max_length = vocabulary, max_length
        self._known = pa.array(list(vocabulary.word_numbers), pa.string())
        # Of every pair, since the last digit of a mean hangs on how a sum is grouped.
        self._split = np.full(pairs, -1, dtype=np.int8)
        self._expected = {mode: np.zeros(pairs) for mode in _MODES}
        self._held = 0
        # By split and name.
        self._totals: Counter[tuple[str, str]] = Counter()
        self._kinds: list[str] = []

    def add(self, pairs: Pairs, words: TextWords, columns: Mapping[str, Any]) -> None:
        """Count the items of some pairs.

        Args:
            pairs: a piece of them (R,).
            words: their texts.
            columns: scores and marks of the words of their sources, R lists each; null where nobody reads them.
        """
        sums = {name: sums_of(lists, self._max_length) for name, lists in columns.items() if not lists.null_count}
        here = slice(self._held, self._held + len(pairs))
        self._held += len(pairs)
        for mode in _MODES:
            self._expected[mode][here] = sums.pop(f"score_{mode}")
        self._kinds = [name.removeprefix("primary_") for name in sums]
        read = np.minimum(words.lengths, self._max_length)
        known = pc.is_in(words.words.values, self._known).cast(pa.int8())
        unknown = read - sums_of(pa.ListArray.from_arrays(words.words.offsets, known), self._max_length)
        at = {"source": words.positions(pairs.source), "target": words.positions(pairs.target)}
        for number, split in enumerate(SPLITS):
            rows = pairs.split == split
            self._split[here][rows] = number
            totals = {"pairs": rows, "examples": pairs.reference[rows] == 0,
                      **{name: values[rows] for name, values in sums.items()}}
            for side, place in at.items():
                used = place[rows]
                totals |= {f"{side} words": words.lengths[used], f"{side} read": read[used],
                           f"{side} unknown": unknown[used]}
            self._totals.update({(split, name): int(values.sum()) for name, values in totals.items()})

    def metrics(self, left_out: Mapping[str, int]) -> dict[str, Any]:
        """Return all counts.

        Args:
            left_out: what has no pair.
        """
        kinds = self._vocabulary.kinds
        return {"max_length": self._max_length, "left_out": dict(left_out), "vocabulary": {
            "words": kinds.count("word"), "tags": kinds.count("tag"), "size": self._vocabulary.size},
            **{split: self._of_split(number, split) for number, split in enumerate(SPLITS)}}

    def _of_split(self, number: int, split: str) -> dict[str, Any]:
        def total(name: str) -> int:
            return self._totals[split, name]

        pairs, rows = total("pairs"), self._split == number
        found: dict[str, Any] = {
            "pairs": pairs, "examples": total("examples"), "expected_keywords": {
                mode: round(float(sums[rows].mean()), 6) if pairs else None for mode, sums in self._expected.items()}}
        if self._kinds:
            found["primary_words"] = {kind: _ratio(total(f"primary_{kind}"), pairs) for kind in self._kinds}
        for side in ("source", "target"):
            whole, read = total(f"{side} words"), total(f"{side} read")
            found[side] = {"words": _ratio(read, pairs), "outside_vocabulary": _ratio(total(f"{side} unknown"), read),
                           "cut": _ratio(whole - read, whole)}
        return found


def _ratio(part: int, whole: int) -> float | None:
    """Return a mean or a share, None where there is nothing."""
    return round(part / whole, 6) if whole else None


def sums_of(lists: pa.ListArray, max_length: float = np.inf) -> np.ndarray:
    """Return the sum of the first ``max_length`` values of each list."""
    lengths = list_lengths(lists)
    values = pc.list_flatten(lists).cast(pa.float64()).to_numpy()
    row = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(row, weights=np.where(within(lengths) < max_length, values, 0.0), minlength=len(lengths))
