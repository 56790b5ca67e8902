"""All scores of one system's outputs: per item, over all items, and as statistics for resampling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stages.metrics import bleu
from stages.metrics.bleu import ORDERS, MatchCounts, count_matches, distinct, self_bleu, sentence_bleu
from stages.metrics.embeddings import WordVectors, embedding_similarity
from stages.metrics.registered import standing_alone
from stages.metrics.resampling import Statistic, mean_statistic
from stages.metrics.rouge import MEASURES, rouge
from stages.metrics.tokens import Text, joined, keyword_retention

if TYPE_CHECKING:
    from stages.metrics.bertscore import BertScores


@dataclass(frozen=True)
class ScoredItems:
    """Sources, references and keywords of the scored items; a missing keyword is None or NO_KEYWORD."""

    sources: Sequence[Text]
    references: Sequence[Sequence[Text]]
    keywords: Sequence[str | None]
    target_keywords: Sequence[str | None]


@dataclass(frozen=True)
class SystemScores:
    """Scores of one system."""

    per_item: dict[str, np.ndarray]     # scores of each item (n_items,); NaN where an item does not count
    rows: dict[str, Any]                # columns of table scores, without system and example
    values: dict[str, float]            # every metric over all items
    statistics: dict[str, Statistic]    # of values, without Distinct-n and self-BLEU, which are no sums over items
    skipped: int                        # items without Extrema and Average
    sacrebleu: str                      # signature of sacreBLEU


def score_system(outputs: Sequence[Text], items: ScoredItems, vectors: WordVectors,
                 bertscores: "BertScores | None" = None, seed: int = 0) -> SystemScores:
    """Return all scores of one system from its outputs, one per item; ``seed`` draws the sample of self-BLEU."""
    counts = count_matches(outputs, items.references)
    copied = count_matches(outputs, [[source] for source in items.sources])
    sacrebleu_value, signature = bleu.sacrebleu(outputs, items.references)
    similar = embedding_similarity(outputs, items.references, vectors)
    texts = list(map(joined, outputs))
    kept = {"keyword_kept": keyword_retention(texts, items.keywords),
            "target_keyword_kept": keyword_retention(texts, items.target_keywords)}
    per_item = {**{f"bleu_{order}": values for order, values in enumerate(sentence_bleu(counts, False).T, 1)},
                **{f"cumulative_m7_{order}": values for order, values in enumerate(sentence_bleu(counts, True).T, 1)},
                "source_bleu_4": sentence_bleu(copied, True)[:, ORDERS - 1], **vars(similar)}
    for prefix, convention in (("", "rouge_score"), ("py_", "py_rouge")):
        scores = rouge(outputs, items.references, convention).T
        per_item |= {f"{prefix}{measure}": values for measure, values in zip(MEASURES, scores, strict=True)}
    per_item |= {name: np.array(values, dtype=np.float64) for name, values in kept.items()}
    if bertscores is not None:
        per_item |= {"bertscore_precision": bertscores.precision, "bertscore_recall": bertscores.recall,
                     "bertscore": bertscores.f1}
    per_item["mean_length"] = counts.lengths.astype(np.float64)
    statistics = {name: mean_statistic(values) for name, values in per_item.items() if not np.isnan(values).all()}
    statistics |= _corpus(counts, copied, range(1, ORDERS + 1))
    statistics |= {key: statistic(outputs, items.references) for key, statistic in standing_alone().items()}
    values = {name: statistic.value() for name, statistic in statistics.items()}
    values |= {"sacrebleu": sacrebleu_value, "self_bleu": self_bleu(outputs, seed=seed),
               "distinct_1": distinct(outputs, 1), "distinct_2": distinct(outputs, 2)}
    columns = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", *vars(similar), *MEASURES, "source_bleu_4", "bertscore")
    empty = np.full(len(outputs), np.nan)
    rows = {name: [None if np.isnan(value) else float(value) for value in per_item.get(name, empty)]
            for name in columns}
    return SystemScores(per_item, {"output": texts, **rows, "keyword_kept": kept["keyword_kept"]}, values, statistics,
                        int(np.isnan(similar.average).sum()), signature)


def corpus_statistics(outputs: Sequence[Text], references: Sequence[Sequence[Text]], sources: Sequence[Text],
                      orders: Sequence[int] = (ORDERS,)) -> dict[str, Statistic]:
    """Return corpus BLEU of ``orders``, source BLEU, iBLEU, sacreBLEU and chrF of a system."""
    counts, copied = count_matches(outputs, references), count_matches(outputs, [[source] for source in sources])
    return _corpus(counts, copied, orders) | {
        key: statistic(outputs, references) for key, statistic in standing_alone().items()}


def _corpus(counts: MatchCounts, copied: MatchCounts, orders: Sequence[int]) -> dict[str, Statistic]:
    return {**{f"corpus_bleu_{order}": bleu.corpus_bleu_statistic(counts, order) for order in orders},
            "source_bleu": bleu.corpus_bleu_statistic(copied), "ibleu": bleu.ibleu_statistic(counts, copied)}
