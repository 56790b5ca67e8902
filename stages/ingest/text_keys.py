"""When two texts count as the same, and how much two texts overlap."""

import re
import unicodedata

# Han characters, for a character class; they have no spaces between words, so each is a token of its own.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")
# With the punctuation that belongs to Chinese text.
_BETWEEN_HAN = re.compile(rf"(?<=[{HAN}\u3000-\u303f\uff00-\uffef])\s+(?=[{HAN}\u3000-\u303f\uff00-\uffef])")
_NOT_IN_ASCII_KEY = re.compile(r"[^0-9a-z]+")


def text_key(text: str) -> str:
    """Return the identity of ``text``: its letters and digits, lower-cased (METHODS A.1, step 1).

    Spaces, punctuation and symbols do not count, so that copies of a corpus that were tokenised in
    different ways meet. Letters are compared in Unicode's NFKC form; marks that belong to a letter (vowel
    signs of Indic scripts, accents that do not compose) stay with it.

    Returns:
        The key; empty for a text without letters and digits.
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


def join_han(text: str) -> str:
    """Return ``text`` without the spaces that word segmentation has put between Chinese characters."""
    return text if text.isascii() else _BETWEEN_HAN.sub("", text)


def overlap_tokens(text: str) -> frozenset[str]:
    """Return the distinct lower-cased alphanumeric tokens of ``text``; Han characters one by one."""
    return frozenset(_TOKEN.findall(unicodedata.normalize("NFKC", text).lower()))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of tokens that two texts have in common, in [0, 1]; 0 for two empty sets."""
    shared = len(one & other)
    union = len(one) + len(other) - shared
    return shared / union if union else 0.0
