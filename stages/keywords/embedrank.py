"""Rank the phrases of every text by a frozen encoder, IDF and position (:mod:`keycontrast.ranking.embedrank`)."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keycontrast.ranking import ranker
from keycontrast.ranking.embedrank import EmbedRanking
from keycontrast.ranking.ranker import Ranked
from keycontrast.ranking.selection import InverseFrequency
from stages.common.encoders import resolve_encoder
from stages.keywords.ranking_stage import rank_if_named, ranked_tokens
from stages.run.process import StageProcess, run_stage

if TYPE_CHECKING:
    from stages.keywords.params import EmbedRank


def run(tokens: pa.Table, params: "EmbedRank", idf: InverseFrequency | None = None, language: str = "en") -> pa.Table:
    """Return table ``embedrank`` of ``tokens``."""
    return ranked_tokens(ranker_of, tokens, params, idf, language)


def ranker_of(params: "EmbedRank", language: str, idf: InverseFrequency | None = None) -> Callable[[pa.Table], Ranked]:
    """Return the ranking function of token tables."""
    return ranker(ranking(params, language), params.phrases, idf)


def ranking(params: "EmbedRank", language: str) -> EmbedRanking:
    """Return the ranking of block ``embedrank``."""
    return EmbedRanking(params.encoder, params.max_length, params.chunks, language)


def _work(process: StageProcess) -> None:
    rank_if_named(process, _models)


def _models(process: StageProcess) -> dict[str, Any]:
    return {"encoder": resolve_encoder(process.params.embedrank.encoder, "embedrank.encoder").description}


main = partial(run_stage, "embedrank", _work)


if __name__ == "__main__":
    sys.exit(main())
