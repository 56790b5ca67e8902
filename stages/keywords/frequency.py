"""Inverse document frequencies over the texts of training examples.

    idf = training_frequency(paths.table("tokens"), paths.table("examples"))
"""

from pathlib import Path

from keycontrast.ranking.blocks import pieces
from keycontrast.ranking.selection import InverseFrequency
from stages.common.examples import training_texts
from stages.common.tables import read_batches
from stages.common.text_tables import TOKENS

# Rows read at a time: few, since a text may be a whole document.
_BATCH = 256


def training_frequency(tokens: Path, examples: Path) -> InverseFrequency:
    """Return the IDF of words in table ``tokens`` over the texts of the training examples of table ``examples``.

    Raises:
        InputError: a table is missing or damaged.
    """
    return InverseFrequency.over_tables(pieces(read_batches(tokens, TOKENS, ["text_id", "token"], _BATCH)),
                                        training_texts(examples))
