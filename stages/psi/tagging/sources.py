"""Sources as numbers of lower-cased words, with a label for each word: primary or not."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.errors import InputError
from stages.common.examples import reference_pairs
from stages.common.schemas import EXAMPLES
from stages.psi.importance.texts import STALE, WordTexts

_PAIRS = pa.schema([EXAMPLES.arrow().field(name) for name in ("source_id", "reference_ids")])
SPECIAL = ("[PAD]", "[UNK]")  # by id; words follow, the most frequent first


def labelled_sources(examples: pd.DataFrame, lower: WordTexts, psi: pa.Table,
                     split: str) -> list[tuple[int, np.ndarray]]:
    """Return (text id, 1 for each primary word and 0 for the others) of the sources of ``split`` that have words.

    A source with several references stands once for each, as in the training of the models that are given its tags:
    what is primary in view of one reference may be secondary in view of another, and the tagger learns how often.

    Raises:
        InputError: there is none; table psi lacks mode xy or a pair, or was made from other texts.
    """
    rows = psi.filter(pc.equal(psi["mode"], "xy"))
    place = {pair: row for row, pair in enumerate(zip(rows["text_id"].to_pylist(), rows["pair"].to_pylist(),
                                                      strict=True))}
    if not place:
        raise InputError("table psi: no row is of mode xy, from which the S-Tagger learns. Add xy to psi.modes.")
    found = []
    chosen = examples[examples["split"] == split]
    for pair in map(tuple, reference_pairs(pa.Table.from_pandas(chosen, _PAIRS)).tolist()):
        if pair not in place:
            raise InputError(f"table psi: no row for text {pair[0]} with {pair[1]}. {STALE}")
        labels = rows["primary"][place[pair]].values.to_numpy(zero_copy_only=False).astype(np.int64)
        if len(labels) != len(lower.of(pair[0])):
            raise InputError(f"table psi: text {pair[0]} has {len(labels)} words, and {len(lower.of(pair[0]))} in "
                             f"table tokens. {STALE}")
        if len(labels):
            found.append((pair[0], labels))
    if not found:
        raise InputError(f"table examples: the {split} split has no source with words. Give ingest.{split} a larger "
                         f"share, or more data.")
    return found


def vocabulary(lower: WordTexts, sources: list[int], min_count: int) -> list[str]:
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
