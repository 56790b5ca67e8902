"""Coins that make keywords of probabilities, the same wherever the name is the same (PGKPR section 4.1)."""

import numpy as np

from stages.common.seeds import generator


def flipped(p: np.ndarray, seed: int, *name: object) -> np.ndarray:
    """Return 1 for each word whose coin makes it a keyword, else 0, float32 (n_words,): it is one iff U(0, 1) < p.

    Args:
        p: probability of each word of a text (n_words,). Coins fall for words in turn, so the first of them are the
            same if a text is cut.
        seed: the project's.
        name: whose coins they are: of an evaluated source, the mode of its scores (``xx`` or ``xy``) and its example.
    """
    return (generator(seed, "pgkpr", "flips", *name).random(len(p)) < p).astype(np.float32)
