"""Rank the phrases of every text by a frozen encoder, IDF and position (:mod:`keycontrast.ranking.embedrank`)."""

from functools import partial

from keycontrast.ranking.embedrank import EmbedRanking
from stages.common.encoders import resolve_encoder
from stages.keywords.params import EmbedRank
from stages.keywords.ranking_stage import rank_if_named, ranked_tokens
from stages.run.process import run_stage

run = partial(ranked_tokens, "embedrank")


def ranking(params: EmbedRank, language: str) -> EmbedRanking:
    """Return the ranking of block ``embedrank``."""
    return EmbedRanking(params.encoder, params.max_length, params.chunks, language)


main = partial(run_stage, "embedrank", lambda process: rank_if_named(process, lambda: {
    "encoder": resolve_encoder(process.params.embedrank.encoder, "embedrank.encoder").description}))
