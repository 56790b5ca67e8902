"""Metrics of generated text (METHODS E): overlap, similarity, variety, keywords; floors; intervals and tests.

``stages.metrics.bertscore`` and ``stages.metrics.word_tables`` are imported by themselves: they need encoders, or
gensim, and whoever counts n-grams does not.
"""

from stages.metrics.bleu import STYLES, BleuScores, MatchCounts, bleu, bleu_from_counts, count_matches
from stages.metrics.diversity import IBLEU_ALPHA, distinct, ibleu, intra_distinct, self_bleu, source_bleu
from stages.metrics.embeddings import (
    EncoderVectors,
    Similarities,
    WordVectors,
    embedding_similarity,
)
from stages.metrics.floors import Neighbours, derangement, nearest_neighbours
from stages.metrics.resampling import (
    Difference,
    Statistic,
    interval,
    mean_statistic,
    paired_bootstrap,
    resampled,
)
from stages.metrics.retention import kept_shares, keyword_retention, shows_keyword
from stages.metrics.rouge import CONVENTIONS, RougeScores, rouge
from stages.metrics.tokens import basic_tokens

__all__ = ["CONVENTIONS", "IBLEU_ALPHA", "STYLES", "BleuScores", "Difference", "EncoderVectors", "MatchCounts",
           "Neighbours", "RougeScores", "Similarities", "Statistic", "WordVectors", "basic_tokens", "bleu",
           "bleu_from_counts", "count_matches", "derangement", "distinct", "embedding_similarity", "ibleu", "interval",
           "intra_distinct", "kept_shares", "keyword_retention", "mean_statistic", "nearest_neighbours",
           "paired_bootstrap", "resampled", "rouge", "self_bleu", "shows_keyword", "source_bleu"]
