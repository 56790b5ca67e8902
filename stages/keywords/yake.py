"""Rank the phrases of every text by YAKE (Campos et al. 2020): the package ``yake``, which reads nothing but the text.

The package has words and stop words of its own; its phrases are looked up among the tokens of the annotation.
"""

import logging
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.keywords.ranking_stage import rank_if_named, ranked_tokens
from stages.ranking import ranker
from stages.ranking.blocks import Spans, TokenBlock
from stages.ranking.methods import Solved, without_graph
from stages.ranking.phrases import Phrases, rank_spans, span_text
from stages.ranking.ranker import Ranked
from stages.ranking.selection import InverseFrequency
from stages.run.errors import InputError
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import Yake

# Between two words of a phrase: white space, and tokens of the package with an apostrophe in front, which it drops
# ("world's leaders"). No two ways to match the same characters, so that time is linear.
_BETWEEN = r"(?:'[^\s']*|\s)*?"


@dataclass(frozen=True)
class YakeRanking:
    """How to rank: a :class:`stages.ranking.methods.Ranking`.

    Attributes:
        language: ISO 639-1 code.
        ngrams: words of a phrase at most.
        top: phrases of a text that the package returns.
    """

    language: str = "en"
    ngrams: int = 3
    top: int = 5
    method: str = "yake"

    @property
    def described(self) -> str:
        """Name and settings, for a person."""
        return f"YAKE (the package {version('yake')}), its first {self.top} phrases, of at most {self.ngrams} words; " \
               f"scores are reciprocals of its own, of which less is better"

    def solve(self, block: TokenBlock, idf: InverseFrequency | None) -> Solved:
        """Score the phrases that the package finds in every text of ``block``."""
        extract = _extractor(self.language, self.ngrams, self.top).extract_keywords
        rows = np.arange(block.table.num_rows)
        texts = span_text(block, Spans(rows, block.offsets[:-1], block.offsets[1:])).to_pylist()
        lengths = pc.utf8_length(block.tokens).to_numpy().astype(np.int64)
        begins = np.append(0, np.cumsum(lengths + block.space_after))
        found: list[tuple[int, int, int, float]] = []
        for row, text in enumerate(texts):
            tokens = slice(block.offsets[row], block.offsets[row + 1])
            starts = begins[tokens] - begins[tokens.start]
            ends = starts + lengths[tokens]
            for phrase, score in extract(text):
                start, end = _place(phrase, text, starts, ends)
                found.append((row, start + tokens.start, end + tokens.start, 1 / float(score)))
        places = np.array([one[:3] for one in found], dtype=np.int64).reshape(-1, 3)
        return without_graph(block, Spans(*places.T), np.array([one[3] for one in found], dtype=np.float64))

    def phrases(self, block: TokenBlock, solved: Solved, idf: InverseFrequency | None, limit: int | None) -> Phrases:
        """Rank the phrases that the package returned; ``limit`` per text, or all."""
        return rank_spans(block, solved.spans, solved.score, idf, limit, scrub=False)


def _place(phrase: str, text: str, starts: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """Return the first token of the first occurrence of ``phrase``, and the token after its last.

    Occurrences that begin and end with tokens go before those inside of words.

    Args:
        phrase: as the package writes it, its words between spaces.
        text: that it is of.
        starts: first character of each token.
        ends: character after the last of each.

    Raises:
        InputError: it does not occur.
    """
    matches = [match.span() for match in re.finditer(_BETWEEN.join(map(re.escape, phrase.split(" "))), text)]
    if not matches:
        raise InputError(f"yake: the package found a phrase that is not in the text: {phrase[:100]!r}")
    whole = [(start, end) for start, end in matches if start in starts and end in ends]
    start, end = (whole or matches)[0]
    return int(np.searchsorted(starts, start, side="right")) - 1, int(np.searchsorted(ends, end)) + 1


class _Raised(logging.Handler):
    """Raises what the package logs: after an error it warns and returns no phrases."""

    def emit(self, record: logging.LogRecord) -> None:
        raise InputError(f"yake: {record.getMessage()}")


@cache
def _extractor(language: str, ngrams: int, top: int) -> Any:
    """Return the package's extractor.

    Raises:
        InputError: the package is not installed.
    """
    try:
        from yake import KeywordExtractor
    except ModuleNotFoundError as error:
        raise InputError(f"method yake needs the package yake ({error}). Install it: pip install 'keycontrast[yake]', "
                         f"or `make env` in a clone.") from error
    log = logging.getLogger(KeywordExtractor.__module__)
    if not any(isinstance(handler, _Raised) for handler in log.handlers):
        log.addHandler(_Raised(logging.WARNING))
    return KeywordExtractor(lan=language, n=ngrams, top=top)


def run(tokens: pa.Table, params: "Yake", idf: InverseFrequency | None = None, language: str = "en") -> pa.Table:
    """Return table ``yake`` of ``tokens``; see :func:`stages.keywords.ranking_stage.ranked_tokens`."""
    return ranked_tokens(ranker_of, tokens, params, idf, language)


def ranker_of(params: "Yake", language: str, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return what ranks token tables."""
    return ranker(ranking(params, language), params.phrases, idf)


def ranking(params: "Yake", language: str) -> YakeRanking:
    """Return the ranking that block ``yake`` asks for.

    Raises:
        InputError: the package is not installed, or does not read the language.
    """
    if language == "zh":
        raise InputError("method yake reads no Chinese: for the package, words of one or two characters are stop "
                         "words. Choose another method.")
    _extractor(language, params.ngrams, params.phrases)
    return YakeRanking(language, params.ngrams, params.phrases)


def _work(process: StageProcess) -> None:
    rank_if_named(process, _models)


def _models(process: StageProcess) -> dict[str, Any]:
    ranking(process.params.yake, process.params.datasets[process.instance].language)
    return {"yake": {"version": version("yake")}}


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage("yake", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
