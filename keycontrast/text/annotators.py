"""What reads texts: a spaCy pipeline, or jieba, with the same methods.

    reader = load_annotator("embedded", "zh")
    reader.columns([0], ["我喜欢苹果。"])["token"]
    reader.describe()["version"]
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from keycontrast.errors import InputError
from keycontrast.text.normal_form import HAN
from keycontrast.text.tokens import NAME, TokenColumns, annotate_texts

if TYPE_CHECKING:
    from spacy.language import Language

    from keycontrast.text.chinese import JiebaAnnotator

EMBEDDED = "embedded"
JIEBA = "jieba"
# What `embedded` stands for, by the language of the texts.
_EMBEDDED = {"en": "English", "zh": "Chinese"}
# spaCy's code for a pipeline of no particular language.
_ANY_LANGUAGE = "xx"
# Programming languages whose names end with a sharp.
_SHARP = "CFJQcfjq"
_HAN = re.compile(f"[{HAN}]")
# A text with fewer letters tells no language; Latin letters with their accents end here.
_FEWEST_LETTERS, _LAST_LATIN = 4, "\u024f"


class SpacyAnnotator:
    """Reads texts by a spaCy pipeline; :class:`keycontrast.text.chinese.JiebaAnnotator` does so by jieba."""

    engine = "spacy"  # under which an artifact's metadata has what `describe` returns

    def __init__(self, nlp: "Language") -> None:
        self.nlp, self._tokenizer = nlp, nlp.tokenizer
        self._naming: Any = None

    def columns(self, text_ids: Sequence[int], texts: Sequence[str], cleaning: bool = False) -> TokenColumns:
        """Return the columns of the token table; see :func:`keycontrast.text.tokens.annotate_texts`."""
        if cleaning and self._naming is None:
            self._naming = _with_names(self._tokenizer)
        self.nlp.tokenizer = self._naming if cleaning else self._tokenizer
        return annotate_texts(self.nlp, text_ids, texts, cleaning)

    def describe(self) -> dict[str, Any]:
        """Return name, version and hash of the pipeline, and the version of spaCy."""
        from spacy.about import __version__

        from keycontrast.text.pipelines import describe_pipeline

        return {**describe_pipeline(self.nlp), "library": f"spacy {__version__}"}


def _with_names(tokenizer: Any) -> Any:
    """Return a copy of spaCy's tokenizer that keeps names such as C# and SARS-CoV-2 whole; a tokenizer of another kind
    as it is."""
    from spacy.tokenizer import Tokenizer

    if type(tokenizer) is not Tokenizer:
        return tokenizer
    found = Tokenizer(tokenizer.vocab).from_bytes(tokenizer.to_bytes())
    found.token_match = NAME.fullmatch
    for letter in _SHARP:
        found.add_special_case(f"{letter}#", [{"ORTH": f"{letter}#"}])
    return found


@cache
def load_annotator(name: str, language: str) -> "SpacyAnnotator | JiebaAnnotator":
    """Return what ``annotate.pipeline`` names, for texts in ``language``; it is loaded once per process.

    That is ``embedded`` (this project's own pipeline for English, jieba for Chinese), ``jieba``, an installed spaCy
    package, or the folder of a pipeline.
    """
    if name == EMBEDDED and language not in _EMBEDDED:
        known = " and ".join(_EMBEDDED.values())
        raise InputError(f"annotate.pipeline: {EMBEDDED!r} reads {known}, but the texts are {language!r}. Name an "
                         f"installed spaCy pipeline for that language, or correct the data set's `language`.")
    if name == JIEBA or (name == EMBEDDED and language == "zh"):
        from keycontrast.text.chinese import JiebaAnnotator

        _check_language(name, "zh", language)
        return JiebaAnnotator()
    from keycontrast.text.pipelines import load_pipeline

    nlp = load_pipeline(name)
    _check_language(name, nlp.lang, language)
    return SpacyAnnotator(nlp)


def is_foreign(text: str, language: str) -> bool:
    """Say whether a text is written as another language than English is (most letters are not Latin), or than Chinese
    (none is Han); never for other languages."""
    if language not in _EMBEDDED or (language == "en" and text.isascii()):
        return False
    letters = [letter for letter in text if letter.isalpha()]
    if len(letters) < _FEWEST_LETTERS:
        return False
    if language == "zh":
        return not any(map(_HAN.match, letters))
    return 2 * sum(letter <= _LAST_LATIN for letter in letters) < len(letters)


def _check_language(name: str, made_for: str | None, language: str) -> None:
    if made_for not in (language, _ANY_LANGUAGE):
        raise InputError(f"annotate.pipeline: {name!r} is made for language {made_for!r}, but the texts are "
                         f"{language!r}. Name a pipeline for that language, or correct the language (--language, or "
                         f"`language` of the data set).")
