"""BERT's lower-cased basic tokens, on which metrics are computed, and the retention of keywords by word stems."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from stages.common.examples import TURN
from stages.common.schemas import NO_KEYWORD

Text = str | Sequence[str]

# BERT's Chinese characters as ranges of a regular expression, without kana and hangul.
CHINESE = ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
           "\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f")
_NORMALIZER = BertNormalizer(lowercase=True)
_SPLITTER = BertPreTokenizer()


def basic_tokens(text: Text) -> list[str]:
    """Return the basic tokens of ``text``, lower-cased, without accents and marks of turns; tokens as they are."""
    if not isinstance(text, str):
        return list(text)
    return [token for token, _ in _SPLITTER.pre_tokenize_str(_NORMALIZER.normalize_str(text.replace(TURN, " ")))]


def joined(text: Text) -> str:
    """Return ``text`` as a string; tokens are joined by spaces."""
    return text if isinstance(text, str) else " ".join(text)


@cache
def stem(word: str, mode: str = "NLTK_EXTENSIONS") -> str:
    """Return the Porter stem of ``word``: by NLTK's variant, or by the ``ORIGINAL_ALGORITHM``."""
    return str(_stemmer(mode).stem(word))


@cache
def _stemmer(mode: str) -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer(mode)


def token_lists(texts: Iterable[Text]) -> list[list[str]]:
    """Return :func:`basic_tokens` of each text."""
    return [basic_tokens(text) for text in texts]


def reference_lists(references: Iterable[Text | Sequence[Text]]) -> list[list[list[str]]]:
    """Return the tokens of every reference of every item; a string is the only reference of its item."""
    return [[basic_tokens(item)] if isinstance(item, str) else token_lists(item) for item in references]


def shows_keyword(text: str, keyword: str | None) -> bool | None:
    """Return whether the Porter stems of ``keyword`` follow each other in ``text``; None if there is no keyword.

    Irregular forms (*mice*) are not found, and Chinese is compared by character.
    """
    wanted = _stems(keyword) if keyword is not None and keyword != NO_KEYWORD else []
    return _contains(_stems(text), wanted) if wanted else None


def keyword_retention(texts: Sequence[str], keywords: Sequence[str | None]) -> list[bool | None]:
    """Return :func:`shows_keyword` of each text and its keyword."""
    return [shows_keyword(text, keyword) for text, keyword in zip(texts, keywords, strict=True)]


def kept_shares(texts: Sequence[str], keywords: Sequence[Collection[str]]) -> np.ndarray:
    """Return the share (n,) of its keywords that each text contains, equal stems counted once; NaN without keywords."""
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
