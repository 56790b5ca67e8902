"""Rank the phrases of every text by YAKE (:mod:`keycontrast.ranking.yake`)."""

from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from keycontrast.ranking.yake import YakeRanking
from stages.keywords.ranking_stage import rank_if_named, ranked_tokens
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import Yake

run = partial(ranked_tokens, "yake")


def ranking(params: "Yake", language: str) -> YakeRanking:
    """Return the ranking of block ``yake``."""
    return YakeRanking(language, params.ngrams, params.phrases)


def _work(process: StageProcess) -> None:
    rank_if_named(process, lambda: {"yake": {"version": version("yake")}})


main = partial(run_stage, "yake", _work)
