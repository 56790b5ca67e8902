"""Items of the HCL track as words, for models that read and write words instead of an encoder's word pieces."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd

from stages.metrics.tokens import basic_tokens
from stages.tracks.pgkpr.vocabulary import Vocabulary


def sources_as_words(items: pd.DataFrame) -> pd.DataFrame:
    """Return ``items`` with columns ``source_words`` and ``source_tags``, which are empty: nothing here is tagged."""
    words = [basic_tokens(text) for text in items["source"]]
    return items.assign(source_words=words, source_tags=[[""] * len(row) for row in words])


def word_pairs(items: pd.DataFrame) -> pd.DataFrame:
    """Return the sources and targets of ``items`` as rows of table ``paraphrase_items``, without keywords or tags.

    Args:
        items: rows of ``joined_items``.
    """
    pairs = sources_as_words(items[["example_id", "split", "source", "target"]])
    targets = [basic_tokens(text) for text in pairs["target"]]
    nothing = [np.zeros(len(row), dtype=np.float32) for row in pairs["source_words"]]
    return pairs.assign(reference=0, group=pairs["example_id"], target_words=targets,
                        target_tags=[[""] * len(row) for row in targets], score_xx=nothing, score_xy=nothing,
                        primary_xx=None, primary_xy=None, primary_s=None)


def vocabulary_of(pairs: pd.DataFrame, size: int) -> Vocabulary:
    """Return the ``size`` most frequent words of the training split; words that are not among them are [unk]."""
    train = pairs[pairs["split"] == "train"]
    return Vocabulary.counted(_counts([*train["source_words"], *train["target_words"]]), {}, size)


def _counts(rows: Iterable[list[str]]) -> dict[str, int]:
    return Counter(word for row in rows for word in row)
