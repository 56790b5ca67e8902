"""The normal form of keywords, by which two phrases are the same node."""

import re
import unicodedata

# Soft hyphen, zero-width space, word joiner, byte order mark, and marks of direction. The joiners U+200C and U+200D and
# variation selectors stay: emoji and Indic scripts need them.
INVISIBLE = "\u00ad\u200b\u2060\ufeff\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Han characters, for a character class; they have no spaces between words.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# White space between them and the punctuation that belongs to Chinese text.
BETWEEN_HAN = re.compile(rf"(?<=[{HAN}\u3000-\u303f\uff00-\uffef])\s+(?=[{HAN}\u3000-\u303f\uff00-\uffef])")
_ALIKE = str.maketrans({**dict.fromkeys(INVISIBLE), "\u2010": "-", "\u2011": "-"})


def normal_form(phrase: str) -> str:
    """Return ``phrase`` case-folded in Unicode's NFKC form, with single spaces, and none between Chinese characters.

    Invisible characters are left out. Words are not lemmatised.
    """
    if phrase.isascii():
        return " ".join(phrase.lower().split())
    # Once more after folding, which may part letters and marks (NFKC_Casefold of the Unicode standard, D145).
    folded = unicodedata.normalize("NFKC", phrase.translate(_ALIKE)).casefold()
    return BETWEEN_HAN.sub("", " ".join(unicodedata.normalize("NFKC", folded).split()))
