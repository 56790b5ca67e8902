"""Rank the phrases of every text by YAKE (:mod:`keycontrast.ranking.yake`)."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keycontrast.ranking import ranker
from keycontrast.ranking.ranker import Ranked
from keycontrast.ranking.selection import InverseFrequency
from keycontrast.ranking.yake import YakeRanking
from stages.keywords.ranking_stage import rank_if_named, ranked_tokens
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import Yake


def run(tokens: pa.Table, params: "Yake", idf: InverseFrequency | None = None, language: str = "en") -> pa.Table:
    """Return table ``yake`` of ``tokens``."""
    return ranked_tokens(ranker_of, tokens, params, idf, language)


def ranker_of(params: "Yake", language: str, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return the ranking function of token tables."""
    return ranker(ranking(params, language), params.phrases, idf)


def ranking(params: "Yake", language: str) -> YakeRanking:
    """Return the ranking of block ``yake``."""
    return YakeRanking(language, params.ngrams, params.phrases)


def _work(process: StageProcess) -> None:
    rank_if_named(process, _models)


def _models(process: StageProcess) -> dict[str, Any]:
    ranking(process.params.yake, process.params.datasets[process.instance].language)
    return {"yake": {"version": version("yake")}}


main = partial(run_stage, "yake", _work)


if __name__ == "__main__":
    sys.exit(main())
