"""Keyword rankings over many texts at once."""

from stages.ranking.methods import METHODS, Settings
from stages.ranking.ranker import Report, rank, ranker

__all__ = ["METHODS", "Report", "Settings", "rank", "ranker"]
