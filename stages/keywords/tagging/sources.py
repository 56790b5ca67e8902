"""Sources as numbers of lower-cased words, with a label for each word: primary or not."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.data.example_texts import reference_pairs
from stages.keywords.importance.texts import STALE, Texts, read_texts
from stages.runtime.errors import InputError

SPECIAL = ("[PAD]", "[UNK]")  # by id; words follow, the most frequent first


@dataclass(frozen=True)
class LowerTexts:
    """Texts as numbers of lower-cased words: ``words[n]`` is word number ``n``."""

    words: list[str]
    texts: Texts

    def of(self, text_id: int) -> np.ndarray:
        """Return the numbers of the words of one text."""
        place = int(self.texts.positions(np.array([text_id]))[0])
        return self.texts.words[self.texts.offsets[place]:self.texts.offsets[place + 1]]


def read_lower(batches: Iterable[pa.Table]) -> LowerTexts:
    """Return the texts of ``tokens`` batches as lower-cased words."""
    numbers: dict[str, int] = {}
    texts = read_texts(batches, lambda tokens: np.array([numbers.setdefault(token.lower(), len(numbers))
                                                         for token in tokens]))
    return LowerTexts(list(numbers), texts)


def labelled_sources(examples: pd.DataFrame, lower: LowerTexts, psi: pa.Table,
                     split: str) -> list[tuple[int, np.ndarray]]:
    """Return (text id, 1 for each primary word and 0 for the others) of the sources of ``split`` that have words.

    A source with several references stands once for each, as in the training of the models that are given its tags:
    what is primary in view of one reference may be secondary in view of another, and the tagger learns how often.

    Raises:
        InputError: there is none; psi.parquet lacks mode xy or a pair, or was made from other texts.
    """
    rows = psi.filter(pc.equal(psi["mode"], "xy"))
    place = {pair: row for row, pair in enumerate(zip(rows["text_id"].to_pylist(), rows["pair"].to_pylist(),
                                                      strict=True))}
    if not place:
        raise InputError("psi.parquet: no row is of mode xy, from which the S-Tagger learns. Add xy to psi.modes.")
    found = []
    for pair in map(tuple, reference_pairs(examples[examples["split"] == split]).tolist()):
        if pair not in place:
            raise InputError(f"psi.parquet: no row for text {pair[0]} with {pair[1]}. {STALE}")
        labels = rows["primary"][place[pair]].values.to_numpy(zero_copy_only=False).astype(np.int64)
        if len(labels) != len(lower.of(pair[0])):
            raise InputError(f"psi.parquet: text {pair[0]} has {len(labels)} words, and {len(lower.of(pair[0]))} in "
                             f"tokens.parquet. {STALE}")
        if len(labels):
            found.append((pair[0], labels))
    if not found:
        raise InputError(f"examples.parquet: the {split} split has no source with words. Give ingest.{split} a larger "
                         f"share, or more data.")
    return found


def vocabulary(lower: LowerTexts, sources: list[int], min_count: int) -> list[str]:
    """Return the words by id: the special ones, then those of ``sources`` by falling count, equals by spelling."""
    counts = np.zeros(len(lower.words), dtype=np.int64)
    for source in sources:
        np.add.at(counts, lower.of(source), 1)
    kept = [(-int(count), word) for word, count in zip(lower.words, counts, strict=True) if count >= min_count]
    return [*SPECIAL, *(word for _, word in sorted(kept))]


def word_ids(lower_words: list[str], words: list[str]) -> np.ndarray:
    """Return the id of each lower-cased word."""
    number = {word: place for place, word in enumerate(words)}
    return np.array([number.get(word, 1) for word in lower_words], dtype=np.int64)
