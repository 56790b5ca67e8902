"""The metrics as the tables show them: heading, direction, unit, and what each one means."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Column:
    """One metric.

    Attributes:
        key: name in ``metrics.json``.
        label: heading.
        direction: 1 if more is better, -1 if less is, 0 if neither.
        digits: decimals.
        meaning: what it measures and in which unit, for people.
        full: name where the heading of its group does not stand above it; empty for the label.
    """

    key: str
    label: str
    direction: int = 1
    digits: int = 3
    meaning: str = ""
    full: str = ""

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


@dataclass(frozen=True)
class ColumnGroup:
    """Columns that belong together under one heading."""

    label: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class TableLayout:
    """A table of results: its title, a note, and its columns."""

    title: str
    note: str
    groups: tuple[ColumnGroup, ...]


def _orders(prefix: str, kind: str, meaning: str) -> tuple[Column, ...]:
    return tuple(Column(f"{prefix}_{order}", f"BLEU-{order}", meaning=meaning.format(n=order),
                        full=f"BLEU-{order}, {kind}") for order in range(1, 5))


def _rouge(prefix: str, kind: str, meaning: str) -> tuple[Column, ...]:
    return tuple(Column(f"{prefix}rouge_{one}", f"ROUGE-{one.upper()}", meaning=meaning,
                        full=f"ROUGE-{one.upper()}, {kind}") for one in ("1", "2", "l"))


_CORPUS_BLEU = ColumnGroup("Corpus BLEU, cumulative, unsmoothed", _orders(
    "corpus_bleu", "corpus", "BLEU over the whole corpus with even weights on n-grams of length 1 to {n}, "
                             "unsmoothed; from 0 to 1."))
_SACREBLEU = ColumnGroup("sacreBLEU", (Column("sacrebleu", "0 to 100", 1, 2, "Corpus BLEU-4 with the tokens and "
                                              "smoothing of its printed signature; from 0 to 100.", "sacreBLEU"),))
_SOURCE_BLEU = Column("source_bleu", "source BLEU-4", -1, meaning="Corpus BLEU-4 of the outputs against their own "
                                                                  "sources; 1 for copies.")
_SMOOTHED_SOURCE_BLEU = Column("source_bleu_4", "smoothed", -1, meaning="Mean over items of cumulative sentence BLEU-4 "
                               "against the source, smoothing method 7.", full="source BLEU-4, smoothed")
_IBLEU = Column("ibleu", "iBLEU", meaning="0.8 times corpus BLEU-4 against the references, less 0.2 times "
                                          "source BLEU-4.")
_ROUGE = ColumnGroup("ROUGE, F1", tuple(
    Column(f"rouge_{kind.lower()}", f"ROUGE-{kind}", meaning=f"{what}, stemmed: F1 with the best reference; 0 to 1.")
    for kind, what in (("1", "Shared words"), ("2", "Shared pairs of words"),
                       ("L", "Longest common subsequence of words"))))
_PY_ROUGE = ColumnGroup("ROUGE as PGKPR counts it", _rouge(
    "py_", "py-rouge", "F1 by the rules of py-rouge: counts are pooled over all references; 0 to 1."))
_BERTSCORE = ColumnGroup("BERTScore", tuple(
    Column(key, label, meaning=f"{label} of greedy cosines between contextual word pieces, best "
                               f"reference, under the named encoder.", full=f"BERTScore, {label}")
    for key, label in (("bertscore_precision", "precision"), ("bertscore_recall", "recall"),
                       ("bertscore", "F1"))) + (
    Column("bertscore_rescaled", "rescaled", meaning="F1 rescaled by the package's baseline, so that "
           "unrelated texts are near 0.", full="BERTScore, rescaled"),
    Column("bertscore_over_shuffled", "over shuffled", meaning="F1 rescaled so that the floor of shuffled "
           "references is 0 and identity is 1.", full="BERTScore, over shuffled")))
_AS_HCL = TableLayout(
    "As HCL reports them", "BLEU-n here is the mean of sentence BLEU with order n alone and NLTK's smoothing "
    "method 7. It lifts low scores, and identical texts score above 1, up to 4/3: never compare it with ordinary "
    "BLEU.", (
        ColumnGroup("Sentence BLEU, one order each, smoothing 7", _orders(
            "bleu", "order alone", "Mean over items of sentence BLEU with all weight on n-grams of length {n}, "
            "smoothing method 7; from 0 to a little above 1.")),
        ColumnGroup("Embedding similarity", (
            Column("extrema", "Extrema", meaning="Cosine of the two texts' vectors of extreme values per "
                                                 "dimension; from -1 to 1, under the named word vectors only."),
            Column("average", "Average", meaning="Cosine of the two texts' mean word vectors; from -1 to 1, under "
                                                 "the named word vectors only."),
            Column("greedy", "Greedy", meaning="Each word's best cosine in the other text, averaged, both ways; "
                                               "from -1 to 1, under the named word vectors only."))),
    ))
_CUMULATIVE = TableLayout(
    "Cumulative sentence BLEU", "The same smoothing as in the first table, with even weights on orders 1 to n.", (
        ColumnGroup("Sentence BLEU, cumulative, smoothing 7", _orders(
            "cumulative_m7", "cumulative", "Mean over items of sentence BLEU with even weights on n-grams of "
            "length 1 to {n}, smoothing method 7.")),
    ))
_VARIETY = TableLayout(
    "Variety and keywords", "Over the outputs of one system together; self-BLEU compares each output with the "
    "others and is high where all say the same.", (
        ColumnGroup("Distinct", (
            Column("distinct_1", "Distinct-1", meaning="Different words over all words of the outputs; 0 to 1."),
            Column("distinct_2", "Distinct-2", meaning="Different pairs of words over all pairs; 0 to 1."))),
        ColumnGroup("Within an item", tuple(
            Column(f"intra_distinct_{order}", f"Distinct-{order}", full=f"Distinct-{order} within an item",
                   meaning=f"Different {what} over all {what} of one item's samples, averaged over items.")
            for order, what in ((1, "words"), (2, "pairs of words")))),
        ColumnGroup("Sameness", (
            Column("self_bleu", "self-BLEU", -1, meaning="BLEU of each output against the other outputs: high "
                                                         "where a system says the same to everything."),)),
        ColumnGroup("Keyword kept", (
            Column("keyword_kept", "input's", meaning="Share of outputs in which the input's keyword occurs, by "
                   "word stems, of the items that have one; 0 to 1.", full="input's keyword kept"),
            Column("target_keyword_kept", "target's", meaning="Share of outputs in which the target's keyword "
                   "occurs, likewise; 0 to 1.", full="target's keyword in the output"),
            Column("prior_keyword_kept", "given one", meaning="Share of outputs in which the keyword that was put "
                   "in the place of the input's own occurs; 0 to 1.", full="given keyword in the output"))),
        ColumnGroup("Length", (Column("mean_length", "tokens", 0, 1, "Mean number of tokens of an output."),)),
    ))
LAYOUTS = (
    _AS_HCL,
    TableLayout(
        "Ordinary BLEU and rewriting", "Source BLEU compares an output with its own source: lower means more "
        "rewriting. iBLEU weighs BLEU against the references with 0.8 and source BLEU with -0.2.",
        (_CORPUS_BLEU, _SACREBLEU, ColumnGroup("Rewriting", (_SOURCE_BLEU, _SMOOTHED_SOURCE_BLEU, _IBLEU)))),
    _CUMULATIVE,
    TableLayout(
        "ROUGE and BERTScore", "ROUGE is F1. Raw BERTScore of unrelated texts is far above 0: look at it rescaled.", (
            _ROUGE, _PY_ROUGE, _BERTSCORE)),
    _VARIETY,
)
# The metrics that lead are those of the paper, under the normalisation of its code; each stands beside its raw reading.
PGKPR_LAYOUTS = (
    TableLayout(
        "As PGKPR reports them", "Released: as in the published code, references are cut and words outside the "
        "vocabulary become [unk], which counts as a match; that lifts scores. Raw: whole references, real words. The "
        "paper prints BLEU and ROUGE times 100.", (
            ColumnGroup("Corpus BLEU, released", _orders(
                "released_bleu", "released", "BLEU over the whole corpus, cumulative over n-grams of length 1 to {n} "
                "in the weights of the published code, unsmoothed; references are cut and have [unk] for rare words; "
                "from 0 to 1.")),
            replace(_CORPUS_BLEU, label="Corpus BLEU, raw"),
            ColumnGroup("ROUGE of py-rouge, released", _rouge(
                "released_py_", "py-rouge, released", "F1 by the rules of py-rouge against cut references with [unk] "
                "for rare words: counts are pooled over all references; 0 to 1.")),
            replace(_PY_ROUGE, label="ROUGE of py-rouge, raw"),
            replace(_ROUGE, label="ROUGE of rouge_score, raw"),
            ColumnGroup("Rewriting", (_SOURCE_BLEU, _IBLEU)),
            ColumnGroup("Keywords kept", (
                Column("keywords_kept", "source's", meaning="Share of the source's keywords, by attribution from the "
                       "source alone for every run, that occur in the output, by word stems; mean over the items that "
                       "have any; 0 to 1.", full="source's keywords kept"),
                Column("given_keywords_kept", "given", meaning="The same of the keywords that the model was given.",
                       full="given keywords kept"))),
        )),
    _AS_HCL,
    replace(_CUMULATIVE, note="Smoothing method 7, with even weights on orders 1 to n."),
    TableLayout(
        "BERTScore and others", "Raw BERTScore of unrelated texts is far above 0: look at it rescaled.",
        (_BERTSCORE, _SACREBLEU, ColumnGroup("BLEU of batches of 100, released", _orders(
            "released_batch_bleu", "batches, released", "Released corpus BLEU of each 100 items, n-grams of length "
            "1 to {n}, averaged as LBOW's code does; not comparable with BLEU over the whole corpus; from 0 to 1.")),
         ColumnGroup("Source BLEU-4", (_SMOOTHED_SOURCE_BLEU,)))),
    _VARIETY,
)
CLLD_LAYOUTS = (
    TableLayout(
        "As CLLD reports it, with what accuracy hides", "CLLD reports accuracy alone, in per cent. Macro F1 counts "
        "every class alike, however rare. The last three judge the probabilities, not the classes that they name.", (
            ColumnGroup("Classes", (
                Column("accuracy", "accuracy", 1, 4, "Share of texts whose most probable class is right; 0 to 1."),
                Column("macro_f1", "macro F1", 1, 4, "Mean over classes of F1, of precision and recall the harmonic "
                       "mean; a class that is neither there nor predicted is left out; 0 to 1."),
                Column("weighted_f1", "weighted F1", 1, 4, "The same mean, each class with the weight of its texts; "
                       "0 to 1."))),
            ColumnGroup("Probabilities", (
                Column("nll", "NLL", -1, 4, "Negative log-likelihood of the right class, mean over texts, in nats; 0 "
                       "where it is certain and right."),
                Column("brier", "Brier", -1, 4, "Squared distance of the probabilities from the right answer, summed "
                       "over classes, mean over texts; 0 to 2."),
                Column("ece", "ECE", -1, 4, "Expected calibration error: how far the probability of the named class is "
                       "from the share of texts in which it is right, mean over bins of probability, each with the "
                       "weight of its texts; 0 to 1."))))),
)
COLUMNS = {column.key: column for layout in (*LAYOUTS, *PGKPR_LAYOUTS, *CLLD_LAYOUTS) for group in layout.groups
           for column in group.columns}


def column(key: str) -> Column:
    """Return the column of any metric; one that is not listed is shown by its key, without a direction."""
    return COLUMNS.get(key) or Column(key, key.replace("_", " "), 0)
