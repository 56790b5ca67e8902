"""Retention of keywords in outputs, by word stems."""

from collections.abc import Collection, Sequence

import numpy as np

from stages.common.schemas import NO_KEYWORD
from stages.metrics.tokens import basic_tokens, stem


def shows_keyword(text: str, keyword: str | None) -> bool | None:
    """Return whether ``keyword`` occurs in ``text``: ``shows_keyword("Losing weight", "lose weight") is True``.

    The Porter stems of its words must follow each other in the text; irregular forms (*mice*) are not found. Chinese is
    compared by character. None if there is no keyword.
    """
    wanted = _stems(keyword) if keyword is not None and keyword != NO_KEYWORD else []
    return _contains(_stems(text), wanted) if wanted else None


def keyword_retention(texts: Sequence[str], keywords: Sequence[str | None]) -> list[bool | None]:
    """Return :func:`shows_keyword` of each text and its keyword."""
    return [shows_keyword(text, keyword) for text, keyword in zip(texts, keywords, strict=True)]


def kept_shares(texts: Sequence[str], keywords: Sequence[Collection[str]]) -> np.ndarray:
    """Return the share of its keywords that each text shows: ``kept_shares(["a dog"], [["dogs", "cat"]]) == [0.5]``.

    Shape (n,), NaN for a text without keywords. Keywords with the same stems count once.
    """
    shares = np.full(len(texts), np.nan)
    for place, (text, words) in enumerate(zip(texts, keywords, strict=True)):
        wanted = {tuple(_stems(word)) for word in words} - {()}
        if wanted:
            stems = _stems(text)
            shares[place] = sum(_contains(stems, list(word)) for word in wanted) / len(wanted)
    return shares


def _contains(stems: list[str], wanted: list[str]) -> bool:
    return any(stems[start:start + len(wanted)] == wanted for start in range(len(stems) - len(wanted) + 1))


def _stems(text: str) -> list[str]:
    return [stem(token) for token in basic_tokens(text)]
