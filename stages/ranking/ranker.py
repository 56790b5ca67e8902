"""Ranking by name: ``rank(tokens, method="pytextrank")``."""

from collections.abc import Callable

import pyarrow as pa

from stages.artifacts.schemas import SCHEMAS
from stages.runtime.errors import InputError, nearest


def _pytextrank(tokens: pa.Table, phrases: int) -> pa.Table:
    # Imported when it ranks: the package brings spaCy and torch, seconds that who only chooses need not wait.
    from stages.ranking.with_pytextrank import rank_with_pytextrank

    return rank_with_pytextrank(tokens, phrases)


# A method takes a token table and the number of phrases to keep, and returns rows of `textrank`.
METHODS: dict[str, Callable[[pa.Table, int], pa.Table]] = {"pytextrank": _pytextrank}


def rank(tokens: pa.Table, method: str = "pytextrank", phrases: int = 5) -> pa.Table:
    """Rank the phrases of every text.

    Args:
        tokens: table ``tokens``, one row per text.
        method: a name in ``METHODS``.
        phrases: phrases kept per text, at least 1.

    Returns:
        Table ``textrank``, by text id and rank. A text's rows depend on nothing but that text. A text
        without phrases has one row of rank 0, whose status says why.

    Raises:
        InputError: no method of that name.
        ValueError: ``phrases`` is less than 1.
    """
    return ranker(method, phrases)(tokens)


def ranker(method: str, phrases: int) -> Callable[[pa.Table], pa.Table]:
    """Return the function from token tables to rankings; see ``rank``."""
    if method not in METHODS:
        raise InputError(f"textrank.method: no ranking is called {method!r}; {nearest(method, METHODS)}")
    if phrases < 1:
        raise ValueError(f"phrases must be at least 1, found {phrases}")
    order = [("text_id", "ascending"), ("rank", "ascending")]

    def ranked(tokens: pa.Table) -> pa.Table:
        return METHODS[method](tokens, phrases).cast(SCHEMAS["textrank"].arrow()).sort_by(order)

    return ranked
