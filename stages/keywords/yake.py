"""Rank the phrases of every text by YAKE (Campos et al. 2020), from nothing but the text itself."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from stages.keywords.ranking_stage import rank_data_set, ranked_tokens
from stages.keywords.yake_scores import YakeRanking
from stages.ranking import ranker
from stages.ranking.ranker import Ranked
from stages.ranking.selection import InverseFrequency
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.params.data import Yake


def run(tokens: pa.Table, params: "Yake", idf: InverseFrequency | None = None, language: str = "en",
        workers: int = 1) -> pa.Table:
    """Return table ``yake`` of ``tokens``; see :func:`stages.keywords.ranking_stage.ranked_tokens`."""
    return ranked_tokens(ranker_of, tokens, params, idf, language, workers)


def ranker_of(params: "Yake", language: str, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return what ranks token tables."""
    return ranker(ranking(params, language), params.phrases, idf)


def ranking(params: "Yake", language: str) -> YakeRanking:
    """Return the ranking that block ``yake`` asks for."""
    return YakeRanking(language, params.window, params.longest)


def _work(process: StageProcess) -> None:
    rank_data_set(process, ranker_of, {})


def main(argv: list[str] | None = None) -> int:
    """Run the stage for the data set named in ``argv``."""
    return run_stage("yake", _work, argv)


if __name__ == "__main__":
    sys.exit(main())
