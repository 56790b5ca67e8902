"""Diversity of outputs: Distinct-n and self-BLEU."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from stages.metrics.bleu import ORDERS, brevity_penalty, ngrams
from stages.metrics.tokens import Text, token_lists

SELF_BLEU_SAMPLE = 500
_EPSILON = 0.1      # matches of an order without any: NLTK's smoothing method 1, as in Texygen


def distinct(texts: Iterable[Text], n: int) -> float:
    """Return Distinct-n: different n-grams over all n-grams of all ``texts`` (Li et al. 2016); 0 if there are none."""
    counts = Counter(gram for tokens in token_lists(texts) for gram in ngrams(tokens, n).elements())
    return len(counts) / counts.total() if counts else 0.0


def intra_distinct(samples: Iterable[Sequence[Text]], n: int) -> float:
    """Return the mean over items of Distinct-n within the several outputs of one item (Gu et al. 2019)."""
    return float(np.mean([distinct(texts, n) for texts in samples]))


def self_bleu(texts: Sequence[Text], order: int = ORDERS, sample: int = SELF_BLEU_SAMPLE, seed: int = 0) -> float:
    """Return Texygen's self-BLEU (Zhu et al. 2018): the mean BLEU of each output against all the others.

    Sentence BLEU has equal weights and NLTK's smoothing method 1; an output without a common word scores 0. At most
    ``sample`` outputs are drawn, independently of their order; values of other numbers of outputs are not comparable.
    """
    tokens = sorted(token_lists(texts))
    if len(tokens) > sample:
        drawn = np.random.default_rng(seed).choice(len(tokens), sample, replace=False)
        tokens = [tokens[place] for place in sorted(drawn)]
    if len(tokens) < 2:
        return 0.0
    counts = np.array([_matches_among_others(tokens, n) for n in range(1, order + 1)])     # (order, 2, n_texts)
    matches, totals = counts[:, 0], np.maximum(counts[:, 1], 1)
    precisions = np.exp(np.log(np.maximum(matches, _EPSILON) / totals).mean(axis=0))
    lengths = np.array([len(words) for words in tokens])
    return float((precisions * brevity_penalty(lengths, _closest_among_others(lengths)) * (matches[0] > 0)).mean())


def _matches_among_others(tokens: Sequence[Sequence[str]], n: int) -> tuple[list[int], list[int]]:
    """Return the clipped matches of order ``n`` of each text against all the others, and its n-grams."""
    grams = [ngrams(words, n) for words in tokens]
    # The greatest count of a gram among the others is the greatest of all, or the second if that is the text's own.
    highest: Counter[tuple[str, ...]] = Counter()
    second: Counter[tuple[str, ...]] = Counter()
    for counts in grams:
        for gram, count in counts.items():
            low, high = sorted((count, highest[gram]))
            highest[gram], second[gram] = high, max(second[gram], low)
    return [sum(min(count, second[gram] if count == highest[gram] else highest[gram])
                for gram, count in counts.items()) for counts in grams], [counts.total() for counts in grams]


def _closest_among_others(lengths: np.ndarray) -> np.ndarray:
    """Return for each length the closest of the others, the shorter of two equally close."""
    distance = np.abs(lengths[:, None] - lengths) + (lengths > lengths[:, None]) * 0.5
    np.fill_diagonal(distance, np.inf)
    return lengths[distance.argmin(axis=1)]
