"""Ranking by the package ``yake`` (Campos et al. 2020); its phrases are looked up among the annotated tokens."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from typing import Any

import numpy as np

from keycontrast.errors import InputError
from keycontrast.ranking.blocks import Spans, TokenBlock, written_texts
from keycontrast.ranking.methods import Solved, without_graph
from keycontrast.ranking.selection import InverseFrequency

# Between two words of a phrase: white space, and tokens of the package with an apostrophe in front, which it drops
# ("world's leaders"). No two ways to match the same characters, so that time is linear.
_BETWEEN = r"(?:'[^\s']*|\s)*?"
_PARAGRAPHS = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True)
class YakeRanking:
    """A :class:`keycontrast.ranking.methods.Ranking` by YAKE: ``top`` phrases of at most ``ngrams`` words per text."""

    language: str = "en"
    ngrams: int = 3
    top: int = 5
    method: str = "yake"

    def __post_init__(self) -> None:
        if self.language == "zh":
            raise InputError("method yake reads no Chinese: for the package, words of one or two characters are stop "
                             "words. Choose another method.")
        _extractor(self.language, self.ngrams, 2 * self.top)

    @property
    def described(self) -> str:
        """Name and settings, for a person."""
        return f"YAKE (the package {version('yake')}), its first {self.top} phrases, of at most {self.ngrams} words; " \
               f"scores are the reciprocals of YAKE's, which are lower for better phrases"

    def solve(self, block: TokenBlock, idf: InverseFrequency | None) -> Solved:
        """Score the phrases that the package finds in every text of ``block``."""
        # Twice as many, of which some cross paragraphs; a longer list of the package begins with the shorter one.
        extract = _extractor(self.language, self.ngrams, 2 * self.top).extract_keywords
        candidates: list[tuple[int, int, int, float]] = []
        with _raising():
            for row, (text, starts, ends) in enumerate(written_texts(block)):
                placed = ((_place(phrase, text, starts, ends), score) for phrase, score in extract(text))
                for place, score in islice(((place, score) for place, score in placed if place is not None), self.top):
                    start, end = place + block.offsets[row]
                    candidates.append((row, start, end, 1 / float(score)))
        places = np.array([candidate[:3] for candidate in candidates], dtype=np.int64).reshape(-1, 3)
        score = np.array([candidate[3] for candidate in candidates], dtype=np.float64)
        return without_graph(block, Spans(*places.T), score, scrub=False)


def _place(phrase: str, text: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """Return first token and token after the last of the first occurrence of ``phrase``, best of whole tokens.

    The package joins words of two paragraphs; a phrase that occurs only so has no place.
    """
    occurrences = list(re.finditer(_BETWEEN.join(map(re.escape, phrase.split(" "))), text))
    if not occurrences:
        raise InputError(f"yake: the package found a phrase that is not in the text: {phrase[:100]!r}")
    matches = [match.span() for match in occurrences if not _PARAGRAPHS.search(match[0])]
    if not matches:
        return None
    whole_tokens = [(start, end) for start, end in matches if start in starts and end in ends]
    start, end = (whole_tokens or matches)[0]
    return np.array([np.searchsorted(starts, start, side="right") - 1, np.searchsorted(ends, end) + 1])


class _Raised(logging.Handler):
    """Raises what the package logs: after an error it warns and returns no phrases."""

    def emit(self, record: logging.LogRecord) -> None:
        raise InputError(f"yake: {record.getMessage()}")


@contextmanager
def _raising() -> Iterator[None]:
    """Raise during the block what the package logs."""
    log, handler = logging.getLogger("yake"), _Raised(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@cache
def _extractor(language: str, ngrams: int, top: int) -> Any:
    try:
        from yake import KeywordExtractor
    except ModuleNotFoundError as error:
        raise InputError(f"method yake needs the package yake ({error}). Install it: pip install 'keycontrast[yake]', "
                         f"or `make env` in a clone.") from error
    language = {"cs": "cz", "nb": "no"}.get(language, language)  # as the package calls them
    if not (files("yake") / "core" / "StopwordsList" / f"stopwords_{language}.txt").is_file():
        raise InputError(f"method yake has no stop words of language {language!r}. Choose another method.")
    return KeywordExtractor(lan=language, n=ngrams, top=top)
