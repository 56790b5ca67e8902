"""The normal form of keywords, by which two phrases are the same node."""

import re
import unicodedata

# What Unicode says may be ignored: soft hyphen, zero-width space, word joiner, byte order mark, invisible signs of
# formulas, marks of direction and the like.
INVISIBLE = ("\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064"
             "\u2066\u2067\u2068\u2069\u206a\u206b\u206c\u206d\u206e\u206f\ufeff")
# Joiners and variation selectors, which emoji and other scripts need, between Latin letters.
BETWEEN_LATIN = re.compile("(?<=[A-Za-z\u00c0-\u024f])[\u200c\u200d\ufe00-\ufe0f]+(?=[A-Za-z\u00c0-\u024f])")
# Han characters, for a character class; they have no spaces between words.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# White space between them and the punctuation that belongs to Chinese text.
BETWEEN_HAN = re.compile(rf"(?<=[{HAN}\u3000-\u303f\uff00-\uffef])\s+(?=[{HAN}\u3000-\u303f\uff00-\uffef])")
# The tokenizer keeps the point of "vitamin C." at the end of a sentence.
POINT = re.compile(r"(^|\s)([A-Za-z])\.$")
_ALIKE = str.maketrans({**dict.fromkeys(INVISIBLE), "\u2010": "-", "\u2011": "-", "\u2019": "'"})


def normal_form(phrase: str) -> str:
    """Return ``phrase`` case-folded in Unicode's NFKC form, with single spaces, and none between Chinese characters.

    Invisible characters are left out. Words are not lemmatised.
    """
    if phrase.isascii():
        return " ".join(phrase.lower().split())
    # Once more after folding, which may part letters and marks (NFKC_Casefold of the Unicode standard, D145).
    folded = unicodedata.normalize("NFKC", BETWEEN_LATIN.sub("", phrase.translate(_ALIKE))).casefold()
    return BETWEEN_HAN.sub("", " ".join(unicodedata.normalize("NFKC", folded).split()))
