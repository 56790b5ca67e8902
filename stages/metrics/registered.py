"""The register of metrics: name, direction, format and, for a metric that is computed by itself, its function.

A new metric of texts is a function that returns a :class:`Statistic` and an entry in ``_ALL``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stages.metrics.bleu import chrf_statistic, sacrebleu_statistic
from stages.metrics.resampling import Statistic
from stages.metrics.tokens import Text


@dataclass(frozen=True)
class Metric:
    """A metric."""

    key: str                # name in metrics.json and, where scores are kept per item, in the table of scores
    label: str              # heading below that of its family
    family: str = ""        # key of FAMILIES
    meaning: str = ""       # what it measures and in which unit, for people
    direction: int = 1      # 1 if more is better, -1 if less is, 0 if neither
    digits: int = 3         # decimals
    full: str = ""          # name without the heading of its family; empty for the label
    short: str = ""         # heading in a terminal; empty where it is left out there
    detail: bool = False    # shown only where there is room for all metrics of its family
    # From outputs and references; None for a metric that is computed with others.
    statistic: Callable[[Sequence[Text], Sequence[Sequence[Text]]], Statistic] | None = None

    @property
    def name(self) -> str:
        """Name that needs no heading above it."""
        return self.full or self.label

    @property
    def arrow(self) -> str:
        """Direction as a sign; empty without one."""
        return {1: "↑", -1: "↓", 0: ""}[self.direction]

    @property
    def hint(self) -> str:
        """Meaning and direction in words."""
        return f"{self.meaning} {('', 'Higher is better.', 'Lower is better.')[self.direction]}".strip()

    def text(self, value: float, sign: str = "") -> str:
        """Return a value with four decimals, or fewer if the metric has fewer than three; ``sign`` is a format's."""
        return f"{value:{sign}.{self.digits if self.digits < 3 else 4}f}"


@dataclass(frozen=True)
class Family:
    """Metrics under one heading."""

    label: str
    columns: tuple[Metric, ...]


def _orders(prefix: str, kind: str, meaning: str, detail: bool = False) -> list[Metric]:
    return [Metric(f"{prefix}_{order}", f"BLEU-{order}", prefix, meaning.format(n=order), full=f"BLEU-{order}, {kind}",
                   detail=detail) for order in range(1, 5)]


def _rouge(prefix: str, kind: str, meaning: str) -> list[Metric]:
    return [Metric(f"{prefix}_{order}", f"ROUGE-{order.upper()}", prefix, meaning,
                   full=f"ROUGE-{order.upper()}{kind and f', {kind}'}") for order in ("1", "2", "l")]


def _short(metrics: Iterable[Metric], letter: str) -> list[Metric]:
    return [replace(metric, short=f"{letter}-{metric.label.rpartition('-')[2]}") for metric in metrics]


_POOLED = "F1 by the rules of py-rouge{}, counts pooled over all references; 0 to 1."
_VECTORS = "-1 to 1, under the named word vectors only."
_ALL = [
    *_short(_orders("bleu", "order alone", "Mean over items of sentence BLEU with all weight on n-grams of length {n}, "
                    "smoothing method 7; from 0 to a little above 1."), "B"),
    Metric("extrema", "Extrema", "similarity", f"Cosine of the texts' extreme values per dimension; {_VECTORS}",
           short="Extr"),
    Metric("average", "Average", "similarity", f"Cosine of the texts' mean word vectors; {_VECTORS}", short="Avg"),
    Metric("greedy", "Greedy", "similarity", f"Mean best cosine of each word in the other text; {_VECTORS}",
           short="Greed"),
    *_short(_orders("released_bleu", "released", "Corpus BLEU, cumulative over n-grams of length 1 to {n} in the "
                    "weights of the published code, unsmoothed; references are cut, with [unk] for rare words; 0 to "
                    "1."), "B"),
    *_short(_rouge("released_py_rouge", "py-rouge, released", _POOLED.format(
        " against cut references with [unk] for rare words")), "R"),
    *_orders("corpus_bleu", "corpus", "Corpus BLEU with even weights on n-grams of length 1 to {n}, unsmoothed; 0 to "
             "1."),
    Metric("source_bleu", "source BLEU-4", "rewriting", "Corpus BLEU-4 against the sources; 1 for copies.", -1,
           short="src-B"),
    Metric("source_bleu_4", "smoothed", "rewriting", "Mean over items of cumulative sentence BLEU-4 against the "
           "source, smoothing method 7.", -1, full="source BLEU-4, smoothed", detail=True),
    Metric("ibleu", "iBLEU", "rewriting", "0.8 corpus BLEU-4 against the references - 0.2 source BLEU-4."),
    Metric("sacrebleu", "0 to 100", "sacrebleu", "Corpus BLEU-4 with tokens and smoothing of its signature; 0 to 100.",
           digits=2, full="sacreBLEU", statistic=sacrebleu_statistic),
    Metric("chrf", "chrF", "sacrebleu", "F2 of the runs of 1 to 6 letters that an output shares with its best "
           "reference, over the corpus, in lower case and without spaces; from 0 to 100.", digits=2, short="chrF",
           statistic=chrf_statistic),
    *_orders("cumulative_m7", "cumulative", "Mean over items of sentence BLEU with even weights on n-grams of length 1 "
             "to {n}, smoothing method 7.", detail=True),
    *(replace(part, meaning=f"{what}, stemmed: F1 with the best reference; 0 to 1.")
      for part, what in zip(_rouge("rouge", "", ""), ("Shared words", "Shared pairs of words",
                                                      "Longest common subsequence of words"), strict=True)),
    *_rouge("py_rouge", "py-rouge", _POOLED.format("")),
    *(Metric(key, label, "bertscore", f"{label} of greedy cosines between contextual word pieces, best reference, "
             f"under the named encoder.", full=f"BERTScore, {label}", detail=label != "F1")
      for key, label in (("bertscore_precision", "precision"), ("bertscore_recall", "recall"), ("bertscore", "F1"))),
    Metric("bertscore_rescaled", "rescaled", "bertscore", "F1 rescaled by the package's baseline, so that unrelated "
           "texts are near 0.", full="BERTScore, rescaled", detail=True),
    Metric("bertscore_over_shuffled", "over shuffled", "bertscore", "F1 rescaled so that the baseline of shuffled "
           "references is 0 and identity is 1.", full="BERTScore, over shuffled", detail=True),
    *_orders("released_batch_bleu", "batches, released", "Released corpus BLEU of each 100 items, n-grams of length 1 "
             "to {n}, averaged as LBOW's code does; not comparable with corpus BLEU; 0 to 1.", detail=True),
    Metric("distinct_1", "Distinct-1", "distinct", "Different words over all words of the outputs; 0 to 1."),
    Metric("distinct_2", "Distinct-2", "distinct", "Different pairs of words over all pairs; 0 to 1."),
    *(Metric(f"intra_distinct_{order}", f"Distinct-{order}", "within", f"Different {what} over all {what} of one "
             f"item's samples, averaged over items.", full=f"Distinct-{order} within an item", detail=True)
      for order, what in ((1, "words"), (2, "pairs of words"))),
    Metric("self_bleu", "self-BLEU", "sameness", "BLEU of each output against the other outputs: high where a system "
           "says the same to everything.", -1),
    Metric("keyword_kept", "input's", "kept", "Share of outputs with the input's keyword, by word stems, of the items "
           "that have one; 0 to 1.", full="input's keyword kept"),
    Metric("target_keyword_kept", "target's", "kept", "Share of outputs with the target's keyword, likewise.",
           full="target's keyword in the output"),
    Metric("prior_keyword_kept", "given one", "kept", "Share of outputs with the keyword that was put in the place of "
           "the input's own; 0 to 1.", full="given keyword in the output"),
    Metric("keywords_kept", "source's", "keywords", "Share of the source's keywords, by attribution from the source "
           "alone, that occur in the output, by word stems; mean over the items that have any; 0 to 1.",
           full="source's keywords kept"),
    Metric("given_keywords_kept", "given", "keywords", "The same of the keywords that the model was given.",
           full="given keywords kept"),
    Metric("token_nll", "NLL per token", "likelihood", "-log p of a token of the target in nats, decoded from the mean "
           "of the prior where there is one; mean over each target's tokens, and then over items.", -1, 4),
    Metric("mean_length", "tokens", "length", "Mean number of tokens of an output.", 0, 1),
    Metric("accuracy", "accuracy", "classes", "Share of texts whose most probable class is right; 0 to 1.", digits=4,
           short="Acc"),
    Metric("macro_f1", "macro F1", "classes", "Mean of F1 over the classes that are there or predicted; 0 to 1.",
           digits=4, short="mF1"),
    Metric("weighted_f1", "weighted F1", "classes", "The same mean, each class with the weight of its texts; 0 to 1.",
           digits=4, short="wF1"),
    Metric("nll", "NLL", "probabilities", "Mean negative log-likelihood of the right class in nats; 0 where it is "
           "certain and right.", -1, 4, short="NLL"),
    Metric("brier", "Brier", "probabilities", "Squared distance of the probabilities from the right answer, summed "
           "over classes, mean over texts; 0 to 2.", -1, 4, short="Brier"),
    Metric("ece", "ECE", "probabilities", "Expected calibration error: absolute difference between mean probability of "
           "the predicted class and accuracy in a bin of probability, mean over texts; 0 to 1.", -1, 4,
           short="ECE"),
]
METRICS: Mapping[str, Metric] = {metric.key: metric for metric in _ALL}
# Headings of families.
FAMILIES = {
    "bleu": "Sentence BLEU, one order each, smoothing 7", "similarity": "Embedding similarity",
    "released_bleu": "Corpus BLEU, released", "released_py_rouge": "ROUGE of py-rouge, released",
    "corpus_bleu": "Corpus BLEU, cumulative, unsmoothed", "rewriting": "Rewriting", "sacrebleu": "sacreBLEU",
    "cumulative_m7": "Sentence BLEU, cumulative, smoothing 7", "rouge": "ROUGE, F1",
    "py_rouge": "ROUGE as PGKPR counts it", "bertscore": "BERTScore",
    "released_batch_bleu": "BLEU of batches of 100, released", "distinct": "Distinct", "within": "Within an item",
    "sameness": "Sameness", "kept": "Keyword kept", "keywords": "Keywords kept", "likelihood": "Target's likelihood",
    "length": "Length",
    "classes": "Classes", "probabilities": "Probabilities"}


def metric(key: str) -> Metric:
    """Return a metric; one that is not registered is shown by its key, without a direction."""
    return METRICS.get(key) or Metric(key, key.replace("_", " "), direction=0)


def family(name: str, label: str = "") -> Family:
    """Return a family of :data:`FAMILIES`, under another heading if ``label`` says one."""
    return Family(label or FAMILIES[name], tuple(metric for metric in _ALL if metric.family == name))


def standing_alone() -> dict[str, Callable[[Sequence[Text], Sequence[Sequence[Text]]], Statistic]]:
    """Return the functions of outputs and references that compute one metric each."""
    return {metric.key: metric.statistic for metric in _ALL if metric.statistic is not None}
