"""Metrics of generated text: BLEU in four styles, embedding similarity, diversity, rewriting, and floors."""

from stages.metrics.bleu import STYLES, BleuScores, MatchCounts, bleu, bleu_from_counts, count_matches
from stages.metrics.diversity import IBLEU_ALPHA, distinct, ibleu, intra_distinct, source_bleu
from stages.metrics.embeddings import (
    EncoderVectors,
    Similarities,
    WordVectors,
    embedding_similarity,
)
from stages.metrics.floors import Neighbours, nearest_neighbours
from stages.metrics.tokens import basic_tokens

__all__ = ["IBLEU_ALPHA", "STYLES", "BleuScores", "EncoderVectors", "MatchCounts", "Neighbours",
           "Similarities", "WordVectors", "basic_tokens", "bleu", "bleu_from_counts", "count_matches", "distinct",
           "embedding_similarity", "ibleu", "intra_distinct", "nearest_neighbours", "source_bleu"]
