"""Keyword rankings over many texts at once."""

from stages.ranking.ranker import METHODS, rank, ranker

__all__ = ["METHODS", "rank", "ranker"]
