"""Keyword probabilities of words: how much each source word decides a network's answer (PGKPR section 3).

Usage::

    batch = tokenizer(sources, targets, padding=True, truncation=True, return_tensors="pt")
    scores = word_saliency(classifier, batch, "pos_logit")      # one tensor per source, one score per word

With f the chosen output and e_j the embedding of word piece j, a piece scores ||df/de_j||_2 (method ``gradient``),
a word the mean of its pieces, and the words of a sentence are normalised to [0, 1]. Two further methods score
pieces by |attribution|: integrated gradients of f, and the integrated Jacobians of a sentence encoder.
"""

from models.keywords.attribution.gradients import ARGMAX_OF, POINTS, TARGETS
from models.keywords.attribution.saliency import METHODS, piece_attributions, piece_norms, word_saliency
from models.keywords.attribution.siamese import SIMILARITIES, siamese_attributions, siamese_saliency
from models.keywords.attribution.words import (
           NORMALISATIONS,
           SaliencyBatch,
           WordPieces,
           from_characters,
           from_encoding,
           overlaps,
           word_scores,
)

__all__ = ["ARGMAX_OF", "METHODS", "NORMALISATIONS", "POINTS", "SIMILARITIES", "TARGETS", "SaliencyBatch",
           "WordPieces", "from_characters", "from_encoding", "overlaps", "piece_attributions", "piece_norms",
           "siamese_attributions", "siamese_saliency", "word_saliency", "word_scores"]
