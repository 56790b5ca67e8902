"""Which texts are scored beside which: every source alone (mode ``xx``) and beside each of its references (``xy``).

Where the scores name keywords, every other text is scored alone too: a target or a negative has a keyword as a source
has, and finds it without any other text.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stages.common.examples import TextIds, reference_pairs

MODES = ("xx", "xy")


def source_pairs(examples: pa.Table, modes: Sequence[str], others: TextIds | None = None) -> np.ndarray:
    """Return the distinct (text, mode, second text) to be scored, sorted, (n, 3); a mode is its place in MODES.

    ``xx`` pairs every source of every split with itself, ``xy`` every source with each of its references.

    Args:
        examples: table ``examples``.
        modes: ``xx``, ``xy`` or both.
        others: further texts that ``xx`` pairs with themselves.
    """
    alone = examples["source_id"].to_numpy()
    alone = alone if others is None else np.concatenate([alone, others])
    pairs = {"xx": np.stack([alone, alone], axis=1), "xy": reference_pairs(examples)}
    wanted = [np.insert(pairs[mode], 1, MODES.index(mode), axis=1) for mode in modes]
    return np.unique(np.concatenate([np.zeros((0, 3), dtype=np.int64), *wanted]), axis=0)
