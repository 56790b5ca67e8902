"""Inverse document frequency over the training texts of a data set, counted part by part.

    idf = training_frequency(paths.table("tokens"), paths.table("examples"), Workforce(workers=2))
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stages.common.example_texts import training_texts
from stages.common.part_work import Workforce, each_part
from stages.common.parts import Part
from stages.common.token_pieces import pieces
from stages.ranking.selection import InverseFrequency

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256


def training_frequency(tokens: Path, examples: Path, force: Workforce | None = None) -> InverseFrequency:
    """Return the IDF of words over the texts of training examples; the same whoever counts.

    Args:
        tokens: table ``tokens``.
        examples: table of examples, of any structure.
        force: who counts; None is this process.

    Raises:
        InputError: a table is missing or damaged.
    """
    wanted = training_texts(examples)
    frequency: Counter[str] = Counter()
    n_texts = 0
    for one in each_part(tokens, _counter, (np.packbits(wanted), len(wanted)), force or Workforce(), "words"):
        frequency.update(one.frequency)
        n_texts += one.n_texts
    return InverseFrequency(n_texts, frequency)


def _counter(packed: np.ndarray, size: int) -> Callable[[Part], InverseFrequency]:
    """Return what counts the words of a part's texts that bits mark."""
    wanted = np.unpackbits(packed, count=size).astype(bool)

    def count(part: Part) -> InverseFrequency:
        return InverseFrequency.over_tables(pieces(part.batches(["text_id", "token"], _BATCH)), wanted)

    return count
