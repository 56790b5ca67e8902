"""Whether an output keeps a keyword, or how many of several, by word stems."""

from collections.abc import Collection, Sequence

import numpy as np

from stages.common.schemas import NO_KEYWORD
from stages.metrics.tokens import basic_tokens, stem


def shows_keyword(text: str, keyword: str | None) -> bool | None:
    """Return whether ``keyword`` occurs in ``text``: ``shows_keyword("Losing weight", "lose weight") is True``.

    The Porter stems of the keyword's words must follow each other in the text. Keywords are lemmas, and so an
    irregular form (*mice* for *mouse*) is not found. Chinese is compared character by character.

    Returns:
        None where there is no keyword to look for.
    """
    if keyword is None or keyword == NO_KEYWORD:
        return None
    wanted = _stems(keyword)
    if not wanted:
        return None
    return _holds(_stems(text), wanted)


def keyword_retention(texts: Sequence[str], keywords: Sequence[str | None]) -> list[bool | None]:
    """Return :func:`shows_keyword` of each text and its keyword.

    Raises:
        ValueError: different numbers of texts and keywords.
    """
    return [shows_keyword(text, keyword) for text, keyword in zip(texts, keywords, strict=True)]


def kept_shares(texts: Sequence[str], keywords: Sequence[Collection[str]]) -> np.ndarray:
    """Return the share of its keywords that each text shows: ``kept_shares(["a dog"], [["dogs", "cat"]]) == [0.5]``.

    Keywords are compared as in :func:`shows_keyword`; equal ones count once.

    Returns:
        (n,) float64; NaN where a text has no keywords.

    Raises:
        ValueError: different numbers of texts and of sets of keywords.
    """
    shares = np.full(len(texts), np.nan)
    for place, (text, words) in enumerate(zip(texts, keywords, strict=True)):
        wanted = {tuple(_stems(word)) for word in words} - {()}
        if wanted:
            found = _stems(text)
            shares[place] = sum(_holds(found, list(word)) for word in wanted) / len(wanted)
    return shares


def _holds(found: list[str], wanted: list[str]) -> bool:
    return any(found[start:start + len(wanted)] == wanted for start in range(len(found) - len(wanted) + 1))


def _stems(text: str) -> list[str]:
    return [stem(token) for token in basic_tokens(text)]
