"""Every score of one system's outputs: per item, over all items, and as statistics that can be resampled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stages.metrics.bleu import ORDERS, BleuScores, MatchCounts, bleu, bleu_from_counts, count_matches
from stages.metrics.corpus_statistics import corpus_bleu_statistic, ibleu_statistic
from stages.metrics.diversity import IBLEU_ALPHA, distinct, self_bleu
from stages.metrics.embeddings import WordVectors, embedding_similarity
from stages.metrics.registered import standing_alone
from stages.metrics.resampling import Statistic, interval, mean_statistic, resampled
from stages.metrics.retention import keyword_retention
from stages.metrics.rouge import CONVENTIONS, MEASURES, rouge
from stages.metrics.tokens import Text, joined

if TYPE_CHECKING:
    from stages.metrics.bertscore import BertScores

# Metrics that do not follow from sums over items, and so have neither interval nor test.
WITHOUT_INTERVAL = ("distinct_1", "distinct_2", "self_bleu")


@dataclass(frozen=True)
class ScoredItems:
    """What outputs are scored against; one entry per item.

    Texts may be strings, whose basic tokens are compared, or lists of words, which are compared as they are.

    Attributes:
        sources: inputs.
        references: reference texts of each item.
        keywords: keyword of the input; None or NO_KEYWORD without one.
        target_keywords: keyword of the target likewise.
    """

    sources: Sequence[Text]
    references: Sequence[Sequence[Text]]
    keywords: Sequence[str | None]
    target_keywords: Sequence[str | None]


@dataclass(frozen=True)
class SystemScores:
    """Scores of one system.

    Attributes:
        per_item: scores of each item (n_items,); NaN where an item does not count.
        rows: columns of table ``scores``, but for system and example.
        values: every metric over all items.
        statistics: those among them that follow from sums over items.
        skipped: items without Extrema and Average.
        sacrebleu: sacreBLEU's description of its settings.
    """

    per_item: dict[str, np.ndarray]
    rows: dict[str, Any]
    values: dict[str, float]
    statistics: dict[str, Statistic]
    skipped: int
    sacrebleu: str

    def intervals(self, resamples: int, level: float, seed: int) -> dict[str, list[float]]:
        """Return the bootstrap percentile interval of every statistic, ``{metric: [low, high]}``."""
        if not resamples:
            return {}
        return {name: list(interval(samples, level))
                for name, samples in resampled(self.statistics, resamples, seed).items()}


def score_system(outputs: Sequence[Text], items: ScoredItems, vectors: WordVectors,
                 bertscores: "BertScores | None" = None, seed: int = 0) -> SystemScores:
    """Return every score of one system; n-grams of each sentence are counted once per style.

    Args:
        outputs: one text per item, string or list of words.
        items: what they are scored against.
        vectors: word vectors of the embedding metrics.
        bertscores: of these outputs, where BERTScore is wanted.
        seed: of the sample behind self-BLEU.
    """
    counts = count_matches(outputs, items.references)
    copied = count_matches(outputs, [[source] for source in items.sources])
    sacrebleu = bleu(outputs, items.references, "sacrebleu")
    similar = embedding_similarity(outputs, items.references, vectors)
    per_item = {**_bleu_per_item(counts, copied), "extrema": similar.extrema, "average": similar.average,
                "greedy": similar.greedy, **_rouge_per_item(outputs, items), **_kept_per_item(outputs, items),
                **_bertscore_per_item(bertscores), "mean_length": counts.lengths.astype(np.float64)}
    statistics = {name: mean_statistic(values) for name, values in per_item.items()} | _corpus(counts, copied)
    statistics |= {key: made(outputs, items.references) for key, made in standing_alone().items()}
    values = {name: statistic.value() for name, statistic in statistics.items()}
    values |= {"sacrebleu": sacrebleu[ORDERS - 1], "self_bleu": self_bleu(outputs, seed=seed),
               "distinct_1": distinct(outputs, 1), "distinct_2": distinct(outputs, 2)}
    return SystemScores(per_item, _rows(outputs, items, per_item), values, statistics, similar.skipped,
                        sacrebleu.signature)


def corpus_statistics(outputs: Sequence[Text], references: Sequence[Sequence[Text]], sources: Sequence[Text],
                      orders: Sequence[int] = (ORDERS,)) -> dict[str, Statistic]:
    """Return the corpus metrics of a system as statistics: corpus BLEU, BLEU against sources, iBLEU, and those alone.

    Args:
        outputs: one text per item, string or list of words.
        references: of each item, likewise.
        sources: likewise.
        orders: of corpus BLEU.
    """
    counts, copied = count_matches(outputs, references), count_matches(outputs, [[source] for source in sources])
    wanted = {f"corpus_bleu_{order}" for order in orders} | {"source_bleu", "ibleu"}
    found = {name: statistic for name, statistic in _corpus(counts, copied).items() if name in wanted}
    return found | {key: made(outputs, references) for key, made in standing_alone().items()}


def _bleu_per_item(counts: MatchCounts, copied: MatchCounts) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for style, prefix in (("individual_m7", "bleu"), ("cumulative_m7", "cumulative_m7")):
        columns = _columns(bleu_from_counts(counts, style))
        found |= {f"{prefix}_{order}": values for order, values in enumerate(columns, 1)}
    return found | {"source_bleu_4": _columns(bleu_from_counts(copied, "cumulative_m7"))[ORDERS - 1]}


def _columns(scores: BleuScores) -> np.ndarray:
    assert scores.sentences is not None    # both smoothed styles have a value per sentence
    return scores.sentences.T


def _rouge_per_item(outputs: Sequence[Text], items: ScoredItems) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for convention in CONVENTIONS:
        prefix = "" if convention == "rouge_score" else "py_"
        columns = rouge(outputs, items.references, convention).f1.T
        found |= {f"{prefix}{measure}": values for measure, values in zip(MEASURES, columns, strict=True)}
    return found


def _kept_per_item(outputs: Sequence[Text], items: ScoredItems) -> dict[str, np.ndarray]:
    texts = [joined(text) for text in outputs]
    return {name: np.array(keyword_retention(texts, keywords), dtype=np.float64)
            for name, keywords in (("keyword_kept", items.keywords), ("target_keyword_kept", items.target_keywords))}


def _bertscore_per_item(scores: "BertScores | None") -> dict[str, np.ndarray]:
    if scores is None:
        return {}
    return {"bertscore_precision": scores.precision, "bertscore_recall": scores.recall, "bertscore": scores.f1}


def _corpus(counts: MatchCounts, copied: MatchCounts) -> dict[str, Statistic]:
    return {**{f"corpus_bleu_{order}": corpus_bleu_statistic(counts, order) for order in range(1, ORDERS + 1)},
            "source_bleu": corpus_bleu_statistic(copied), "ibleu": ibleu_statistic(counts, copied, IBLEU_ALPHA)}


def _rows(outputs: Sequence[Text], items: ScoredItems, per_item: dict[str, np.ndarray]) -> dict[str, Any]:
    texts = [joined(text) for text in outputs]
    names = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "extrema", "average", "greedy", *MEASURES, "source_bleu_4")
    empty = np.full(len(outputs), np.nan)
    columns = {name: _nullable(per_item[name]) for name in names}
    return {"output": texts, **columns, "bertscore": _nullable(per_item.get("bertscore", empty)),
            "keyword_kept": keyword_retention(texts, items.keywords)}


def _nullable(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
