"""Rank the phrases of every text by TextRank or a related method."""

from functools import partial
from importlib.metadata import version

from keycontrast.ranking import Settings
from stages.keywords.params import TextRank
from stages.keywords.ranking_stage import rank_data_set, ranked_tokens
from stages.run.process import StageProcess, run_stage

run = partial(ranked_tokens, "textrank")


def ranking(params: TextRank, language: str) -> Settings:
    """Return the ranking of block ``textrank``."""
    return Settings(language=language, **{name: value for name, value in dict(params).items() if name != "phrases"})


def _work(process: StageProcess) -> None:
    packaged = process.params.textrank.engine == "package"
    rank_data_set(process, {"pytextrank": {"version": version("pytextrank")}} if packaged else {})


main = partial(run_stage, "textrank", _work)
