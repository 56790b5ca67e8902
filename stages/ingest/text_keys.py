"""Identity of texts, and their overlap."""

import re
import unicodedata
from collections.abc import Callable, Mapping

from keycontrast.text.normal_form import BETWEEN_HAN, HAN, normal_form

# Han characters have no spaces between words, so each is a token of its own.
_TOKEN = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")
_NOT_IN_ASCII_KEY = re.compile(r"[^0-9a-z]+")
_QUOTATION = re.compile("[\"'`\u00b4\u2018-\u201f\u00ab\u00bb\u2039\u203a\u2032\u2033\u300c-\u300f\u00a1\u00bf]")
_ENDS = re.compile(r"[.,;:!?\u2026\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u3001\u060c\u061b\u061f\u06d4\u0964]+(?=\s|$)")


def symbol_key(text: str) -> str:
    """Return the identity of ``text`` under ``text_identity: symbols``: its normal form without quotation marks and
    without punctuation that ends a word; empty for a text without letter, digit and symbol. Symbols and signs count:
    C, C++ and C# are three texts, as are 4 and -4."""
    key = " ".join(_ENDS.sub(" ", _QUOTATION.sub("", normal_form(text))).split())
    return key if any(character.isalnum() or unicodedata.category(character)[0] == "S" for character in key) else ""


def text_key(text: str) -> str:
    """Return the identity of ``text`` under ``text_identity: letters_digits``: these alone, lower-cased; perhaps empty.

    Copies of a text that were tokenised differently are the same. Letters are compared in Unicode's NFKC form, with
    the marks that belong to them (vowel signs of Indic scripts, accents that do not compose).
    """
    if text.isascii():
        return _NOT_IN_ASCII_KEY.sub("", text.lower())
    kept: list[str] = []
    after_kept = False
    for character in unicodedata.normalize("NFKC", text).lower():
        kind = unicodedata.category(character)[0]
        after_kept = kind in "LN" or (kind == "M" and after_kept)
        if after_kept:
            kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


# The key by which texts are equal, for each value of `text_identity`.
IDENTITIES: Mapping[str, Callable[[str], str]] = {"symbols": symbol_key, "letters_digits": text_key}


def order_key(text: str) -> str:
    """Return the sort key of ``text``: its letters and digits, then the rest."""
    # No key holds a character that comes before the line end.
    return f"{text_key(text)}\n{symbol_key(text)}"


def join_han(text: str) -> str:
    """Return ``text`` without the spaces that word segmentation has put between Chinese characters."""
    return text if text.isascii() else BETWEEN_HAN.sub("", text)


def overlap_tokens(text: str) -> frozenset[str]:
    """Return the distinct lower-cased alphanumeric tokens of ``text``; Han characters one by one."""
    return frozenset(_TOKEN.findall(unicodedata.normalize("NFKC", text).lower()))


def jaccard(first: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of tokens that two texts have in common, in [0, 1]; 0 for two empty sets."""
    shared = len(first & other)
    union = len(first) + len(other) - shared
    return shared / union if union else 0.0
