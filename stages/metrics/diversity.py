"""How varied outputs are, and how far they move away from their source (METHODS E.4)."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from stages.metrics.bleu import ORDERS, bleu, brevity_penalty
from stages.metrics.tokens import Text, token_lists

IBLEU_ALPHA = 0.8
SELF_BLEU_SAMPLE = 500
# NLTK's smoothing method 1, which Texygen takes: an order without a match counts a tenth of one.
_EPSILON = 0.1


def distinct(texts: Iterable[Text], n: int) -> float:
    """Return Distinct-n: different n-grams over all n-grams of all ``texts`` (Li et al. 2016).

    Returns:
        A share in [0, 1]; 0 if no text has ``n`` tokens.

    Raises:
        ValueError: ``n`` below 1.
    """
    if n < 1:
        raise ValueError(f"Distinct-n needs n of at least 1, not {n}")
    grams = [gram for tokens in token_lists(texts)
             for gram in zip(*(tokens[offset:] for offset in range(n)), strict=False)]
    return len(set(grams)) / len(grams) if grams else 0.0


def intra_distinct(samples: Iterable[Sequence[Text]], n: int) -> float:
    """Return the mean over items of Distinct-n within the several outputs of one item (Gu et al. 2019).

    Raises:
        ValueError: no items.
    """
    values = [distinct(texts, n) for texts in samples]
    if not values:
        raise ValueError("Distinct-n within items needs at least one item")
    return float(np.mean(values))


def source_bleu(hypotheses: Sequence[Text], sources: Sequence[Text]) -> float:
    """Return corpus BLEU-4 of outputs against their own sources; lower means more rewriting.

    Not to be confused with :func:`self_bleu`, which compares outputs with each other.
    """
    return bleu(hypotheses, [[source] for source in sources], "corpus")[ORDERS - 1]


def ibleu(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]], sources: Sequence[Text],
          alpha: float = IBLEU_ALPHA) -> float:
    """Return iBLEU = alpha * BLEU(output, reference) - (1 - alpha) * BLEU(output, source).

    Both are unsmoothed cumulative corpus BLEU-4 (Sun and Zhou 2012). A system that copies its source gets
    alpha * BLEU(source, reference) - (1 - alpha).

    Raises:
        ValueError: ``alpha`` outside [0, 1], or what :func:`stages.metrics.bleu` raises.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha of iBLEU must lie in [0, 1], not {alpha}")
    quality = bleu(hypotheses, references, "corpus")[ORDERS - 1]
    return alpha * quality - (1 - alpha) * source_bleu(hypotheses, sources)


def self_bleu(texts: Sequence[Text], order: int = ORDERS, sample: int = SELF_BLEU_SAMPLE, seed: int = 0) -> float:
    """Return Texygen's self-BLEU (Zhu et al. 2018): the mean BLEU of each output against all the others.

    Lower means that outputs differ more. Sentence BLEU of orders 1 to ``order`` with equal weights and NLTK's
    smoothing method 1; an empty output, or one that shares no word with another, scores 0. Of more than ``sample``
    outputs that many are drawn, as Texygen does, whatever their order; values of different numbers of outputs are
    not comparable. A single output scores 0.
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
    grams = [Counter(zip(*(words[offset:] for offset in range(n)), strict=False)) for words in tokens]
    # The greatest count of a gram among the others is the greatest of all, or the second where that is one's own.
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
