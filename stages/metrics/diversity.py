"""How varied outputs are, and how far they move away from their source (METHODS E.4)."""

from collections.abc import Iterable, Sequence

import numpy as np

from stages.metrics.bleu import ORDERS, bleu
from stages.metrics.tokens import Text, token_lists

IBLEU_ALPHA = 0.8


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

    Not to be confused with Texygen's self-BLEU, which compares outputs with each other.
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
