"""Rank the phrases of every text by TextRank or a related method."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

import pyarrow as pa

from keycontrast.ranking import Settings, ranker
from keycontrast.ranking.ranker import Ranked
from keycontrast.ranking.selection import InverseFrequency
from stages.keywords.ranking_stage import rank_data_set, ranked_tokens
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import TextRank


def run(tokens: pa.Table, params: "TextRank", idf: InverseFrequency | None = None, language: str = "en") -> pa.Table:
    """Return table ``textrank`` of ``tokens``."""
    return ranked_tokens(ranker_of, tokens, params, idf, language)


def ranker_of(params: "TextRank", language: str,
              idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return the ranking function: our engine, or the pytextrank package, whose ties no IDF breaks."""
    chosen = ranking(params, language)
    if chosen.engine == "ours":
        return ranker(chosen, params.phrases, idf)
    from keycontrast.ranking.package import package_ranker  # and with it spaCy, which takes seconds to import

    return package_ranker(chosen, params.phrases)


def ranking(params: "TextRank", language: str) -> Settings:
    """Return the ranking of block ``textrank``."""
    return Settings(language=language, **{name: value for name, value in dict(params).items() if name != "phrases"})


def _work(process: StageProcess) -> None:
    packaged = process.params.textrank.engine == "package"
    rank_data_set(process, {"pytextrank": {"version": version("pytextrank")}} if packaged else {})


main = partial(run_stage, "textrank", _work)


if __name__ == "__main__":
    sys.exit(main())
