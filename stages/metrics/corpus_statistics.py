"""Corpus metrics as sums over items, for intervals and paired tests without counting n-grams again."""

from collections.abc import Sequence

import numpy as np

from stages.metrics.bleu import (
    ORDERS,
    MatchCounts,
    brevity_penalty,
    corpus_bleu_of_sums,
    corpus_columns,
    count_matches,
    sacrebleu_tokenizer,
)
from stages.metrics.diversity import IBLEU_ALPHA
from stages.metrics.resampling import Statistic
from stages.metrics.tokens import Text, joined


def corpus_bleu_statistic(counts: MatchCounts, order: int = ORDERS,
                          weights: Sequence[Sequence[float]] | None = None) -> Statistic:
    """Return unsmoothed cumulative corpus BLEU of ``order`` (1 to 4) of :func:`stages.metrics.bleu`.

    ``weights`` of orders 1 to n, for each n, may take the place of equal ones, such as
    ``stages.metrics.bleu.RELEASED_WEIGHTS``.
    """
    return Statistic(corpus_columns(counts), lambda sums: corpus_bleu_of_sums(sums, weights)[..., order - 1])


def ibleu_statistic(references: MatchCounts, sources: MatchCounts, alpha: float = IBLEU_ALPHA) -> Statistic:
    """Return :func:`stages.metrics.ibleu` from the counts against the references and against the sources."""
    columns = np.concatenate([corpus_columns(references), corpus_columns(sources)], axis=1)
    return Statistic(columns, lambda sums: ibleu_of_sums(sums, alpha))


def ibleu_of_sums(sums: np.ndarray, alpha: float = IBLEU_ALPHA) -> np.ndarray:
    """Return iBLEU (...) of sums (..., 20): :func:`corpus_columns` against the references, then against the sources."""
    width = sums.shape[-1] // 2
    quality, copied = (corpus_bleu_of_sums(part)[..., ORDERS - 1] for part in (sums[..., :width], sums[..., width:]))
    return alpha * quality - (1 - alpha) * copied


def sacrebleu_statistic(hypotheses: Sequence[Text], references: Sequence[Sequence[Text]]) -> Statistic:
    """Return sacreBLEU, lower-cased, of orders 1 to 4 on its scale of 0 to 100 (Post 2018).

    Texts are cut by sacreBLEU's own tokenizer. Args and errors as in :func:`stages.metrics.bleu`.
    """
    from sacrebleu.metrics import BLEU

    texts = [joined(text) for item in references for text in item]
    metric = BLEU(lowercase=True, tokenize=sacrebleu_tokenizer(texts))

    def words(text: Text) -> list[str]:
        return metric.tokenizer(joined(text).lower()).split()

    counts = count_matches([words(text) for text in hypotheses], [[words(text) for text in item]
                                                                  for item in references])
    # A sentence too short for an order has none of its n-grams here, where NLTK would count one.
    totals = np.maximum(counts.lengths[:, None] - np.arange(ORDERS), 0)
    return Statistic(np.concatenate([counts.matches[:, :ORDERS], totals, counts.lengths[:, None],
                                     counts.reference_lengths[:, None]], axis=1), _sacrebleu_of_sums)


def _sacrebleu_of_sums(sums: np.ndarray) -> np.ndarray:
    """The k-th order without a match counts 1 / 2^k matches (sacreBLEU's smoothing ``exp``).

    Without any match, or without n-grams of some order, the score is 0.
    """
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS:2 * ORDERS]
    missing = matches == 0
    smoothed = np.where(missing, 0.5 ** np.cumsum(missing, axis=-1), matches)
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(totals > 0, smoothed / np.maximum(totals, 1), 0.0))
    score = np.exp(logs.mean(axis=-1)) * brevity_penalty(sums[..., -2], sums[..., -1])
    return 100 * np.where(missing.all(axis=-1), 0.0, score)
