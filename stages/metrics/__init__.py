"""Metrics of generated text: overlap, similarity, variety, keywords; baselines; intervals and tests.

``stages.metrics.bertscore`` is imported by itself: it needs encoders, and whoever counts n-grams does not.
"""

from stages.metrics.bleu import IBLEU_ALPHA, count_matches
from stages.metrics.diversity import distinct, intra_distinct, self_bleu
from stages.metrics.embeddings import EncoderVectors, WordVectors, embedding_similarity
from stages.metrics.floors import derangement, nearest_neighbours
from stages.metrics.resampling import Statistic, interval, mean_statistic, resampled
from stages.metrics.retention import kept_shares, keyword_retention, shows_keyword
from stages.metrics.rouge import rouge
from stages.metrics.tokens import basic_tokens

__all__ = ["IBLEU_ALPHA", "EncoderVectors", "Statistic", "WordVectors", "basic_tokens", "count_matches", "derangement",
           "distinct", "embedding_similarity", "interval", "intra_distinct", "kept_shares", "keyword_retention",
           "mean_statistic", "nearest_neighbours", "resampled", "rouge", "self_bleu", "shows_keyword"]
