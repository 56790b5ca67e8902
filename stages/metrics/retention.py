"""Whether an output keeps a keyword, by word stems."""

from collections.abc import Sequence
from functools import cache

from stages.artifacts.schemas import NO_KEYWORD
from stages.metrics.tokens import basic_tokens


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
    found = _stems(text)
    return any(found[start:start + len(wanted)] == wanted for start in range(len(found) - len(wanted) + 1))


def keyword_retention(texts: Sequence[str], keywords: Sequence[str | None]) -> list[bool | None]:
    """Return :func:`shows_keyword` of each text and its keyword.

    Raises:
        ValueError: different numbers of texts and keywords.
    """
    return [shows_keyword(text, keyword) for text, keyword in zip(texts, keywords, strict=True)]


def _stems(text: str) -> list[str]:
    return [_stem(token) for token in basic_tokens(text)]


@cache
def _stem(word: str) -> str:
    from nltk.stem.porter import PorterStemmer

    return str(PorterStemmer().stem(word))
