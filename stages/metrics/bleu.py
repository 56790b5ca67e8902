"""BLEU as HCL reports it, corpus BLEU, sacreBLEU, chrF, and the diversity of outputs.

HCL's published BLEU-1..4 fit the mean sentence BLEU of each order *alone* with NLTK's smoothing method 7. It raises low
scores, and identical texts score above 1: these numbers are never comparable with ordinary BLEU.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stages.metrics.resampling import Statistic
from stages.metrics.tokens import Text, joined, reference_lists, token_lists

ORDERS = 4
IBLEU_ALPHA = 0.8
_COUNTED = ORDERS + 1   # method 5 averages order 4 with order 5
LBOW_BATCH = 100        # items of each BLEU that LBOW's code averages
# The weights that PGKPR's and LBOW's code gives NLTK for BLEU-1..4; it rounds the thirds of BLEU-3.
RELEASED_WEIGHTS = ((1.0,), (0.5, 0.5), (0.33, 0.33, 0.34), (0.25, 0.25, 0.25, 0.25))
_BETA = 2       # weight of recall in chrF
SELF_BLEU_SAMPLE = 500
_EPSILON = 0.1      # matches of an order without any: NLTK's smoothing method 1, as in Texygen


@dataclass(frozen=True)
class MatchCounts:
    """Modified n-gram counts of each sentence."""

    matches: np.ndarray             # clipped n-gram matches, (n_items, 5), orders 1 to 5
    totals: np.ndarray              # n-grams of the hypothesis, at least 1, likewise
    lengths: np.ndarray             # tokens of the hypothesis, (n_items,)
    reference_lengths: np.ndarray   # tokens of the reference closest in length, the shorter of two equally close


def count_matches(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]]) -> MatchCounts:
    """Return the modified n-gram matches of every sentence; an item has one reference or a sequence of them."""
    check_items(hypotheses, references)
    counts = np.zeros((2, len(hypotheses), _COUNTED), dtype=np.int64)
    lengths = np.zeros((2, len(hypotheses)), dtype=np.int64)
    for item, (tokens, others) in enumerate(zip(token_lists(hypotheses), reference_lists(references), strict=True)):
        for order in range(1, _COUNTED + 1):
            own, grams = ngrams(tokens, order), [ngrams(other, order) for other in others]
            matches = sum(min(count, max(other[gram] for other in grams)) for gram, count in own.items())
            counts[:, item, order - 1] = matches, own.total()
        lengths[0, item] = len(tokens)
        lengths[1, item] = min(map(len, others), key=lambda length: (abs(length - len(tokens)), length))
    return MatchCounts(counts[0], np.maximum(counts[1], 1), lengths[0], lengths[1])


def sentence_bleu(counts: MatchCounts, cumulative: bool) -> np.ndarray:
    """Return BLEU-1..4 of each item, (n_items, 4), with smoothing method 7: of order n alone, or of orders 1..n."""
    smoothed = _method7(counts)
    if cumulative:
        smoothed = _cumulative(smoothed)
    # Without a common word the score is 0, in spite of smoothing.
    penalty = brevity_penalty(counts.lengths, counts.reference_lengths) * (counts.matches[:, 0] > 0)
    return smoothed * penalty[:, None]


def check_items(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]]) -> None:
    """Raise ValueError unless there are items, with a reference each."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} items with references")
    if not len(hypotheses):
        raise ValueError("scores of no items are undefined")
    empty = [index for index, item in enumerate(references) if not isinstance(item, str) and len(item) == 0]
    if empty:
        raise ValueError(f"item {empty[0]} has no reference")


def ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """Return how often each n-gram of ``order`` occurs."""
    return Counter(zip(*(tokens[offset:] for offset in range(order)), strict=False))


def brevity_penalty(lengths: np.ndarray, reference_lengths: np.ndarray) -> np.ndarray:
    """Return exp(1 - reference / length), at most 1, of each element; 0 for an empty hypothesis."""
    penalty = np.exp(1 - reference_lengths / np.maximum(lengths, 1))
    return np.where(lengths == 0, 0.0, np.where(lengths > reference_lengths, 1.0, penalty))


def _method7(counts: MatchCounts) -> np.ndarray:
    """Return smoothed precisions of orders 1..4, (n_items, 4): Chen and Cherry (2014), methods 4 then 5.

    Method 4: the k-th order without a match counts 1 / (2^k * 5 / ln(length)) matches, if length > 1.
    Method 5: p'_n = (p'_{n-1} + p_n + p_{n+1}) / 3 with p'_0 = p_1 + 1; order 5 enters unsmoothed.
    """
    zero = counts.matches[:, :ORDERS] == 0
    logs = np.log(np.maximum(counts.lengths, 1))[:, None]   # ln(1) = 0: a single token stays unsmoothed
    smoothing = logs / (5 * 2.0 ** np.cumsum(zero, axis=1))
    precisions = counts.matches / counts.totals
    precisions[:, :ORDERS] = np.where(zero, smoothing / counts.totals[:, :ORDERS], precisions[:, :ORDERS])
    smoothed = np.empty((len(precisions), ORDERS))
    before = precisions[:, 0] + 1
    for order in range(ORDERS):
        before = (before + precisions[:, order] + precisions[:, order + 1]) / 3
        smoothed[:, order] = before
    return smoothed


def _cumulative(precisions: np.ndarray, weights: Sequence[Sequence[float]] | None = None) -> np.ndarray:
    """Return geometric means over orders 1..n along the last axis; 0 from the first zero on."""
    with np.errstate(divide="ignore"):
        logs = np.log(precisions)
    if weights is None:
        return np.exp(np.cumsum(logs, axis=-1) / np.arange(1, precisions.shape[-1] + 1))
    return np.stack([np.exp((logs[..., :len(row)] * row).sum(axis=-1)) for row in weights], axis=-1)


def corpus_columns(counts: MatchCounts) -> np.ndarray:
    """Return matches and n-grams of orders 1 to 4, tokens of hypothesis and closest reference, of each item (n, 10)."""
    return np.concatenate([counts.matches[:, :ORDERS], counts.totals[:, :ORDERS], counts.lengths[:, None],
                           counts.reference_lengths[:, None]], axis=1)


def corpus_bleu_of_sums(sums: np.ndarray, weights: Sequence[Sequence[float]] | None = None) -> np.ndarray:
    """Return unsmoothed cumulative corpus BLEU-1..4 (Papineni et al. 2002), (..., 4), of sums of corpus_columns."""
    means = _cumulative(sums[..., :ORDERS] / sums[..., ORDERS:2 * ORDERS], weights)
    return means * brevity_penalty(sums[..., -2], sums[..., -1])[..., None]


def batched_bleu(counts: MatchCounts, weights: Sequence[Sequence[float]] | None = None) -> np.ndarray:
    """Return the mean over batches of corpus BLEU-1..4 (4,), as LBOW's code: a smaller last batch has equal weight."""
    columns = corpus_columns(counts)
    sums = np.add.reduceat(columns, np.arange(0, len(columns), LBOW_BATCH), axis=0)
    return np.asarray(corpus_bleu_of_sums(sums, weights).mean(axis=0))


def corpus_bleu_statistic(counts: MatchCounts, order: int = ORDERS,
                          weights: Sequence[Sequence[float]] | None = None) -> Statistic:
    """Return corpus BLEU of ``order``, with equal weights or such as :data:`RELEASED_WEIGHTS`."""
    return Statistic(corpus_columns(counts), lambda sums: corpus_bleu_of_sums(sums, weights)[..., order - 1])


def ibleu_statistic(references: MatchCounts, sources: MatchCounts) -> Statistic:
    """Return iBLEU (Sun and Zhou 2012), from corpus BLEU-4: alpha of the references - (1 - alpha) of the sources."""
    def of_sums(sums: np.ndarray) -> np.ndarray:
        quality, copied = (corpus_bleu_of_sums(part)[..., ORDERS - 1] for part in np.split(sums, 2, axis=-1))
        return IBLEU_ALPHA * quality - (1 - IBLEU_ALPHA) * copied

    return Statistic(np.concatenate([corpus_columns(references), corpus_columns(sources)], axis=1), of_sums)


def sacrebleu_tokenizer(texts: Sequence[str]) -> str:
    """Return the sacreBLEU tokenizer for ``texts``: ``zh`` where most letters are Chinese, else ``13a``."""
    letters = [letter for text in texts for letter in text if letter.isalpha()]
    chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in letters)
    return "zh" if 2 * chinese > len(letters) else "13a"


def _streams(references: Sequence[Text | Sequence[Text]], cut: Callable[[Text], str]) -> Any:
    """Return references in the streams of sacreBLEU; None fills items with fewer references."""
    items = [[cut(item)] if isinstance(item, str) else [cut(text) for text in item] for item in references]
    return [[item[place] if place < len(item) else None for item in items] for place in range(max(map(len, items)))]


def sacrebleu(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]]) -> tuple[float, str]:
    """Return lower-cased sacreBLEU, from 0 to 100 (Post 2018), and its signature."""
    from sacrebleu.metrics import BLEU

    check_items(hypotheses, references)
    streams = _streams(references, joined)
    metric = BLEU(lowercase=True, tokenize=sacrebleu_tokenizer([text for item in streams for text in item if text]))
    score = float(metric.corpus_score(list(map(joined, hypotheses)), streams).score)
    return score, str(metric.get_signature())


def sacrebleu_statistic(hypotheses: Sequence[Text], references: Sequence[Sequence[Text]]) -> Statistic:
    """Return :func:`sacrebleu` as a statistic; texts are cut by its tokenizer."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=True, tokenize=sacrebleu_tokenizer([joined(text) for item in references for text in item]))

    def words(text: Text) -> list[str]:
        return metric.tokenizer(joined(text).lower()).split()

    counts = count_matches(list(map(words, hypotheses)), [list(map(words, item)) for item in references])
    # A sentence that is too short for an order has no n-grams of it; NLTK would count one.
    totals = np.maximum(counts.lengths[:, None] - np.arange(ORDERS), 0)
    return Statistic(np.concatenate([counts.matches[:, :ORDERS], totals, counts.lengths[:, None],
                                     counts.reference_lengths[:, None]], axis=1), _sacrebleu_of_sums)


def _sacrebleu_of_sums(sums: np.ndarray) -> np.ndarray:
    """The k-th order without a match counts 1 / 2^k matches (smoothing ``exp``); 0 without matches or n-grams."""
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS:2 * ORDERS]
    missing = matches == 0
    smoothed = np.where(missing, 0.5 ** np.cumsum(missing, axis=-1), matches)
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(totals > 0, smoothed / np.maximum(totals, 1), 0.0))
    score = np.exp(logs.mean(axis=-1)) * brevity_penalty(sums[..., -2], sums[..., -1])
    return 100 * np.where(missing.all(axis=-1), 0.0, score)


def chrf_statistic(outputs: Sequence[Text], references: Sequence[Sequence[Text]]) -> Statistic:
    """Return lower-cased chrF2 of the corpus with the best reference of each item, 0 to 100 (Popović 2015)."""
    from sacrebleu.metrics import CHRF

    check_items(outputs, references)
    counted = CHRF(lowercase=True, beta=_BETA)._extract_corpus_statistics(
        list(map(_letters, outputs)), _streams(references, _letters))
    return Statistic(np.array(counted, dtype=np.int64), _chrf_of_sums)


def _letters(text: Text) -> str:
    return "".join(joined(text).split())


def _chrf_of_sums(sums: np.ndarray) -> np.ndarray:
    """Return F of mean precision and mean recall, over the orders that output and reference have."""
    in_output, in_reference, matched = (sums[..., place::3] for place in range(3))      # (..., 6) each
    counts = (in_output > 0) & (in_reference > 0)
    orders = np.maximum(counts.sum(-1), 1)
    precision, recall = (np.where(counts, matched / np.maximum(total, 1), 0).sum(-1) / orders
                         for total in (in_output, in_reference))
    weighted = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)


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
    # Among the others, the greatest count of a gram is the overall greatest, or the second if this text has that.
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
