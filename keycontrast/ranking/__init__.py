"""Keyword rankings over many texts at once."""

from keycontrast.ranking.methods import METHODS, Settings
from keycontrast.ranking.ranker import Report, rank, ranker

__all__ = ["METHODS", "Report", "Settings", "rank", "ranker"]
