"""Rank the phrases of every text by YAKE (:mod:`keycontrast.ranking.yake`)."""

from functools import partial
from importlib.metadata import version

from keycontrast.ranking.yake import YakeRanking
from stages.keywords.params import Yake
from stages.keywords.ranking_stage import rank_if_named, ranked_tokens
from stages.run.process import run_stage

run = partial(ranked_tokens, "yake")


def ranking(params: Yake, language: str) -> YakeRanking:
    """Return the ranking of block ``yake``."""
    return YakeRanking(language, params.ngrams, params.phrases)


main = partial(run_stage, "yake", lambda process: rank_if_named(process, lambda: {
    "yake": {"version": version("yake")}}))
