"""BERT's lower-cased basic tokens, on which metrics are computed: words, punctuation marks, Chinese characters."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

Text = str | Sequence[str]

# BERT's Chinese characters as ranges of a regular expression, without kana and hangul.
CHINESE = ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
           "\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f")
_NORMALIZER = BertNormalizer(lowercase=True)
_SPLITTER = BertPreTokenizer()


def basic_tokens(text: Text) -> list[str]:
    """Return the basic tokens of ``text``, lower-cased and without accents: ``["don", "'", "t", "!"]`` of "Don't!".

    A sequence of tokens is returned as it is.
    """
    if not isinstance(text, str):
        return list(text)
    return [token for token, _ in _SPLITTER.pre_tokenize_str(_NORMALIZER.normalize_str(text))]


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
