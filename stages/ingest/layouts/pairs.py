"""Pairs of texts, and triples: columns of the user's own, or those of Quora's question pairs as published."""

from stages.ingest.layouts.layout import Column, Layout

_SOURCE, _TARGET = Column("a text", "source"), Column("a text that says the same, unless the label denies it", "target")
_QUESTIONS = {
    "source": Column("a question", "question1"), "target": Column("another", "question2"),
    "label": Column("0 or 1", "is_duplicate", values="truth",
                    missing="The test files of GLUE and Kaggle come without labels: name the others in the data set's "
                            "`files`, such as train.tsv and dev.tsv.")}

LAYOUTS = (
    Layout("pairs", "two texts", {
        "source": _SOURCE, "target": _TARGET,
        "label": Column("0 or 1; without it all are paraphrases", needed=False, values="truth")}),
    Layout("triples", "a text, a paraphrase, a negative", {
        "source": _SOURCE, "target": Column("a paraphrase", "target"), "negative": Column("a text that is none")}),
    # GLUE writes train.tsv and dev.tsv without any quoting; Kaggle and Quora quote as RFC 4180 says.
    Layout("glue_qqp", "a Quora question pair, as GLUE publishes it", _QUESTIONS, True, "none"),
    Layout("kaggle_qqp", "a Quora question pair, as Kaggle publishes it", _QUESTIONS, True, "standard"),
    Layout("quora_qqp", "a Quora question pair, as Quora publishes it", _QUESTIONS, True, "standard"),
)
