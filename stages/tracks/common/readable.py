"""Generated words as readable text: spaces as people write them, and capitals."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Written without spaces between words, and without capitals.
_UNSPACED = ("zh", "ja")
_GLUE = re.compile(r"\s+(?![A-Za-z0-9])|(?<![A-Za-z0-9])\s+")     # but between words and numbers in Latin script
_ENDS = (".", "?", "!")
_OPEN = re.compile(r"[^\W_]")
# The tokenizer takes these apart within words; a dash between words is rarer in what models write.
_JOINED = re.compile(r"(?<=\w) ([-/]) (?=\w)")
_WORDS = re.compile(r"\w+(?:[.,'’:/-]\w+)*|\S")     # of a text that nobody cut into words
_FEW = 2    # words that may all begin with a capital by chance


def written_forms(tokens: Iterable[pa.Table], text_ids: np.ndarray) -> dict[str, str]:
    """Return the usual spelling, within sentences, of each word that the texts mostly write with capitals."""
    counts: Counter[str] = Counter()
    for piece in tokens:
        rows = piece.filter(pc.is_in(piece["text_id"], pa.array(text_ids, pa.int64())))
        inside = pc.list_flatten(rows["token"]).filter(pc.invert(pc.list_flatten(rows["sentence_start"])))
        forms = pc.value_counts(inside)
        counts.update(dict(zip(forms.field("values").to_pylist(), forms.field("counts").to_pylist(), strict=True)))
    best: dict[str, str] = {}
    # the most frequent form first; if counts are equal, lower case first, then in alphabetical order
    for form in sorted(counts, key=lambda form: (-counts[form], not form.islower(), form)):
        best.setdefault(form.lower(), form)
    return {word: form for word, form in best.items() if word != form}


def forms_of(tokens: Sequence[str], starts: Sequence[bool]) -> dict[str, str]:
    """Return the spelling of a text's words with capitals.

    A text whose words all begin with a capital, such as a headline, gives none. A word that begins a sentence
    (``starts``) counts only if it has further capitals.
    """
    inside = [token for token, first in zip(tokens, starts, strict=True) if not first and token.isalpha()]
    if len(inside) > _FEW and not any(token[0].islower() for token in inside):
        return {}
    return {token.lower(): token for token, first in zip(tokens, starts, strict=True)
            if token != token.lower() and (not first or token[1:] != token[1:].lower())}


def readable_text(text: str, source: str, written: Mapping[str, str], language: str = "en") -> str:
    """Return an output of word pieces as a person writes it, with the capitals of ``source`` and ``written``."""
    if language in _UNSPACED:
        return readable(text.split(), {}, language)
    own = _WORDS.findall(source)
    starts = [not place or own[place - 1] in _ENDS for place in range(len(own))]
    return readable(_WORDS.findall(text), {**written, **forms_of(own, starts)}, language)


def readable(words: Sequence[str], forms: Mapping[str, str], language: str = "en") -> str:
    """Return words in small letters as a person writes them, with the capitals of ``forms``."""
    if language in _UNSPACED:
        return _GLUE.sub("", " ".join(words))
    from nltk.tokenize.treebank import TreebankWordDetokenizer

    known = {**({"i": "I"} if language == "en" else {}), **forms}
    cased, opens, quoted = [], True, False
    for word in words:
        form = known.get(word, word)
        if word == '"':     # the Treebank tells an opening quotation mark from a closing one
            form, quoted = "''" if quoted else "``", not quoted
        if opens and _OPEN.search(form):
            form, opens = (form[0].upper() + form[1:] if form.islower() else form), False
        cased.append(form)
        opens = opens or word in _ENDS
    return _JOINED.sub(r"\1", TreebankWordDetokenizer().detokenize(cased))
