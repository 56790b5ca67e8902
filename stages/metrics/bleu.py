"""BLEU as HCL reports it, and the usual styles beside it (METHODS E.1).

HCL's published BLEU-1..4 fit sentence BLEU of each order *alone* with NLTK's smoothing method 7, averaged over
items. Method 7 lifts low scores, and identical texts score above 1, so these numbers are never comparable
with ordinary BLEU; :func:`bleu` therefore makes the style an argument without a default.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keycontrast.errors import nearest
from stages.metrics.tokens import Text, joined, reference_lists, token_lists

ORDERS = 4
STYLES = ("individual_m7", "cumulative_m7", "corpus", "sacrebleu")
_COUNTED = ORDERS + 1   # method 5 averages order 4 with order 5
# Items over which LBOW's code takes a BLEU, before it averages these.
LBOW_BATCH = 100
# What PGKPR's and LBOW's code gives NLTK for BLEU-1..4; the thirds of BLEU-3 are rounded there.
RELEASED_WEIGHTS = ((1.0,), (0.5, 0.5), (0.33, 0.33, 0.34), (0.25, 0.25, 0.25, 0.25))


@dataclass(frozen=True)
class MatchCounts:
    """Modified n-gram counts of each sentence, from which every style but sacreBLEU follows.

    Attributes:
        matches: clipped n-gram matches, (n_items, 5), orders 1 to 5.
        totals: n-grams of the hypothesis, at least 1, likewise.
        lengths: tokens of the hypothesis, (n_items,).
        reference_lengths: tokens of the reference closest in length (the shorter of two equally close).
    """

    matches: np.ndarray
    totals: np.ndarray
    lengths: np.ndarray
    reference_lengths: np.ndarray

    @property
    def precisions(self) -> np.ndarray:
        """Unsmoothed modified precisions, (n_items, 5)."""
        return self.matches / self.totals

    @property
    def brevity(self) -> np.ndarray:
        """Brevity penalty of each sentence, (n_items,); 0 for an empty hypothesis."""
        return brevity_penalty(self.lengths, self.reference_lengths)


@dataclass(frozen=True)
class BleuScores:
    """BLEU-1..4 of a system; iterates over, and is indexed like, its four corpus values.

    Attributes:
        style: one of ``STYLES``.
        values: (4,) BLEU-1 to BLEU-4 of the system.
        sentences: (n_items, 4) values of each item; None where the style has none.
        signature: sacreBLEU's own description of its settings; empty for other styles.
    """

    style: str
    values: np.ndarray
    sentences: np.ndarray | None = None
    signature: str = ""

    def __getitem__(self, index: int) -> float:
        return float(self.values[index])

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())

    def __len__(self) -> int:
        return len(self.values)

    def named(self, prefix: str = "bleu") -> dict[str, float]:
        """Return ``{"bleu_1": ..., ..., "bleu_4": ...}``."""
        return {f"{prefix}_{order}": value for order, value in enumerate(self, 1)}


def bleu(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]], style: str) -> BleuScores:
    """Return BLEU-1..4 of ``hypotheses``: ``bleu(["a b"], [["a b", "a c"]], "corpus").values``.

    Args:
        hypotheses: one text (or list of tokens) per item; texts become lower-cased BERT basic tokens.
        references: per item a string or a sequence of references (strings or lists of tokens).
        style: ``individual_m7``: mean over items of sentence BLEU of order n alone, smoothing method 7 (HCL);
            ``cumulative_m7``: likewise with uniform weights on orders 1..n; ``corpus``: unsmoothed cumulative
            corpus BLEU (Papineni et al. 2002), where as in NLTK a hypothesis too short for an order counts as
            one n-gram without a match; ``sacrebleu``: sacreBLEU, lower-cased, with at most n orders,
            on its own scale of 0 to 100 (Post 2018).

    Raises:
        ValueError: unknown style, no items, different numbers of items, or an item without reference.
    """
    if style not in STYLES:
        raise ValueError(f"no BLEU style is called {style!r}; {nearest(style, STYLES)}")
    if style == "sacrebleu":
        return _sacrebleu(hypotheses, references)
    return bleu_from_counts(count_matches(hypotheses, references), style)


def count_matches(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]]) -> MatchCounts:
    """Count the modified n-gram matches of every sentence once, for orders 1 to 5.

    Args and errors as in :func:`bleu`.
    """
    check_items(hypotheses, references)
    counts = np.zeros((2, len(hypotheses), _COUNTED), dtype=np.int64)
    lengths = np.zeros((2, len(hypotheses)), dtype=np.int64)
    for item, (tokens, others) in enumerate(zip(token_lists(hypotheses), reference_lists(references),
                                                strict=True)):
        for order in range(1, _COUNTED + 1):
            counts[:, item, order - 1] = _clipped(tokens, others, order)
        lengths[0, item] = len(tokens)
        lengths[1, item] = min(map(len, others), key=lambda length: (abs(length - len(tokens)), length))
    return MatchCounts(counts[0], np.maximum(counts[1], 1), lengths[0], lengths[1])


def bleu_from_counts(counts: MatchCounts, style: str) -> BleuScores:
    """Return BLEU-1..4 of any style but ``sacrebleu`` from counts made once."""
    if style == "corpus":
        return BleuScores(style, _corpus(counts))
    smoothed = _method7(counts)
    if style == "cumulative_m7":
        smoothed = _cumulative(smoothed)
    elif style != "individual_m7":
        raise ValueError(f"BLEU style {style!r} does not follow from counts; {nearest(style, STYLES)}")
    # Without one common word the score is 0, whatever the smoothing would have made of it.
    sentences = smoothed * (counts.brevity * (counts.matches[:, 0] > 0))[:, None]
    return BleuScores(style, sentences.mean(axis=0), sentences)


def sacrebleu_tokenizer(texts: Sequence[str]) -> str:
    """Return the sacreBLEU tokenizer for ``texts``: ``zh`` where most letters are Chinese, else ``13a``."""
    letters = [letter for text in texts for letter in text if letter.isalpha()]
    chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in letters)
    return "zh" if 2 * chinese > len(letters) else "13a"


def check_items(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]]) -> None:
    """Check that there are items, and a reference for each of them."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} items with references")
    if not len(hypotheses):
        raise ValueError("BLEU of no items is undefined")
    empty = [index for index, item in enumerate(references) if not isinstance(item, str) and len(item) == 0]
    if empty:
        raise ValueError(f"item {empty[0]} has no reference")


def _clipped(tokens: list[str], references: list[list[str]], order: int) -> tuple[int, int]:
    """Return (clipped matches, n-grams of the hypothesis) of one order."""
    own = _ngrams(tokens, order)
    if not own:
        return 0, 0
    others = [_ngrams(reference, order) for reference in references]
    matches = sum(min(count, max(other[gram] for other in others)) for gram, count in own.items())
    return matches, sum(own.values())


def _ngrams(tokens: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[offset:] for offset in range(order)), strict=False))


def brevity_penalty(lengths: np.ndarray, reference_lengths: np.ndarray) -> np.ndarray:
    """Return exp(1 - reference / length), at most 1; 0 for an empty hypothesis. Element by element."""
    penalty = np.exp(1 - reference_lengths / np.maximum(lengths, 1))
    return np.where(lengths == 0, 0.0, np.where(lengths > reference_lengths, 1.0, penalty))


def _method7(counts: MatchCounts) -> np.ndarray:
    """Smoothed precisions of orders 1..4, (n_items, 4): Chen and Cherry (2014), methods 4 then 5.

    Method 4: the k-th order without a match counts 1 / (2^k * 5 / ln(length)) matches, if length > 1.
    Method 5: p'_n = (p'_{n-1} + p_n + p_{n+1}) / 3 with p'_0 = p_1 + 1; order 5 enters unsmoothed.
    """
    zero = counts.matches[:, :ORDERS] == 0
    logs = np.log(np.maximum(counts.lengths, 1))[:, None]   # ln(1) = 0: a single token stays unsmoothed
    smoothing = logs / (5 * 2.0 ** np.cumsum(zero, axis=1))
    precisions = counts.precisions
    precisions[:, :ORDERS] = np.where(zero, smoothing / counts.totals[:, :ORDERS], precisions[:, :ORDERS])
    smoothed = np.empty((len(precisions), ORDERS))
    before = precisions[:, 0] + 1
    for order in range(ORDERS):
        before = (before + precisions[:, order] + precisions[:, order + 1]) / 3
        smoothed[:, order] = before
    return smoothed


def _cumulative(precisions: np.ndarray) -> np.ndarray:
    """Geometric means over orders 1..n along the last axis; 0 from the first zero on."""
    with np.errstate(divide="ignore"):
        logs = np.log(precisions)
    return np.exp(np.cumsum(logs, axis=-1) / np.arange(1, precisions.shape[-1] + 1))


def corpus_columns(counts: MatchCounts) -> np.ndarray:
    """Return what each item adds to the sums that corpus BLEU follows from, (n_items, 10).

    Columns: matches of orders 1 to 4, n-grams of the hypothesis likewise (at least 1), tokens of the hypothesis,
    tokens of the closest reference.
    """
    return np.concatenate([counts.matches[:, :ORDERS], counts.totals[:, :ORDERS], counts.lengths[:, None],
                           counts.reference_lengths[:, None]], axis=1)


def corpus_bleu_of_sums(sums: np.ndarray, weights: Sequence[Sequence[float]] | None = None) -> np.ndarray:
    """Return unsmoothed cumulative corpus BLEU-1..4, (..., 4), of sums (..., 10) of :func:`corpus_columns`.

    Args:
        sums: over items.
        weights: of orders 1 to n, for each n; None for equal ones.
    """
    precisions = sums[..., :ORDERS] / sums[..., ORDERS:2 * ORDERS]
    means = _cumulative(precisions) if weights is None else _weighted(precisions, weights)
    return means * brevity_penalty(sums[..., -2], sums[..., -1])[..., None]


def batched_bleu(counts: MatchCounts, weights: Sequence[Sequence[float]] | None = None,
                 size: int = LBOW_BATCH) -> np.ndarray:
    """Return unsmoothed cumulative BLEU-1..4, (4,), each the mean of corpus BLEU over batches (METHODS E.3).

    Args:
        counts: of all items, in an order that stands for itself, such as that of ids; batches are cut by it.
        weights: as of :func:`corpus_bleu_of_sums`.
        size: items of a batch; the last one may have fewer, and counts as much as the others.
    """
    columns = corpus_columns(counts)
    sums = np.add.reduceat(columns, np.arange(0, len(columns), size), axis=0)
    return np.asarray(corpus_bleu_of_sums(sums, weights).mean(axis=0))


def _weighted(precisions: np.ndarray, weights: Sequence[Sequence[float]]) -> np.ndarray:
    """Weighted geometric means over orders 1..n, one n per row of weights; 0 from the first zero on."""
    with np.errstate(divide="ignore"):
        logs = np.log(precisions)
    return np.stack([np.exp((logs[..., :len(row)] * row).sum(axis=-1)) for row in weights], axis=-1)


def _corpus(counts: MatchCounts) -> np.ndarray:
    return corpus_bleu_of_sums(corpus_columns(counts).sum(axis=0))


def _sacrebleu(hypotheses: Sequence[Text], references: Sequence[Text | Sequence[Text]]) -> BleuScores:
    from sacrebleu.metrics import BLEU

    check_items(hypotheses, references)
    outputs = [joined(text) for text in hypotheses]
    per_item = [[item] if isinstance(item, str) else [joined(text) for text in item] for item in references]
    width = max(map(len, per_item))
    # sacreBLEU wants streams of equal length; None stands where an item has fewer references.
    streams: Any = [[item[place] if place < len(item) else None for item in per_item]
                    for place in range(width)]
    tokenizer = sacrebleu_tokenizer([text for item in per_item for text in item])
    metrics = [BLEU(lowercase=True, tokenize=tokenizer, max_ngram_order=order)
               for order in range(1, ORDERS + 1)]
    values = np.array([metric.corpus_score(outputs, streams).score for metric in metrics])
    return BleuScores("sacrebleu", values, signature=str(metrics[-1].get_signature()))
