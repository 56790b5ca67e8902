"""What differs from track to track on the page: names, tables, questions to the curves, published rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.results.reporting.curves import CLLD_QUESTIONS, HCL_QUESTIONS, PGKPR_QUESTIONS, Question
from stages.results.reporting.gather import RunMaterial
from stages.results.reporting.metric_columns import CLLD_LAYOUTS, LAYOUTS, PGKPR_LAYOUTS, TableLayout
from stages.results.reporting.published import PGKPR_TABLES, TABLES, PublishedRow, PublishedTable, published_row
from stages.results.reporting.published_clld import CLLD_TABLES, clld_rows
from stages.results.reporting.published_pgkpr import pgkpr_row


@dataclass(frozen=True)
class Track:
    """One method with its ablations and baselines.

    Attributes:
        key: as in the params.
        title: short name.
        method: what it is.
        lead: the metric that leads where the evaluation names none.
        layouts: tables of results.
        questions: groups of training curves.
        published: tables of the paper.
        rows: returns the published rows of a run, from the run, its model's settings and the kind of its data set.
        reported: data sets of the paper, for people.
        scores: what the small numbers beside an output are, for people.
        judged_by: the column of the history that tells how good an epoch was, and its name.
        classifies: whether its runs name classes of texts, and do not write texts.
        many_keywords: whether a source has a set of keywords, stored joined by spaces, and not one.
        raises_alarms: whether trainings watch for what may go wrong.
        curve_names: put into the names of its plots of curves.
    """

    key: str
    title: str
    method: str
    lead: str
    layouts: tuple[TableLayout, ...]
    questions: tuple[Question, ...]
    published: tuple[PublishedTable, ...]
    rows: Callable[[RunMaterial, Mapping[str, Any], str | None], Sequence[PublishedRow]]
    reported: str
    scores: str = ""
    judged_by: tuple[str, str] = ("validation_loss", "validation loss")
    classifies: bool = False
    many_keywords: bool = False
    raises_alarms: bool = True
    curve_names: str = ""


def _hcl_rows(run: RunMaterial, settings: Mapping[str, Any], kind: str | None) -> list[PublishedRow]:
    # A run under another keyword, or of drawn z, is no row of the paper.
    if run.decode.get("keyword", "own") != "own" or run.decode.get("z", "mean") != "mean":
        return []
    return _known(published_row(settings, kind))


def _pgkpr_rows(run: RunMaterial, settings: Mapping[str, Any], kind: str | None) -> list[PublishedRow]:
    return _known(pgkpr_row(settings, {"keywords": run.keywords}, kind))


def _clld_rows(run: RunMaterial, settings: Mapping[str, Any], kind: str | None) -> list[PublishedRow]:
    # The paper's numbers are of the test sets.
    if run.classifier is None or run.metrics["settings"].get("split") != "test":
        return []
    return clld_rows(run.classifier.kind.contrast, run.classifier.kind.encoder, kind)


def _known(row: PublishedRow | None) -> list[PublishedRow]:
    return [] if row is None else [row]


HCL = Track("hcl", "HCL", "hierarchical contrastive learning over keywords and instances", "bleu_1", LAYOUTS,
            HCL_QUESTIONS, tuple(TABLES.values()), _hcl_rows, "QQP, Douban and RocStories", "as in the first table")
PGKPR = Track("pgkpr", "PGKPR", "paraphrasing with reconstruction of keywords and parts of speech, its ablations and "
              "baselines", "released_bleu_1", PGKPR_LAYOUTS, PGKPR_QUESTIONS, tuple(PGKPR_TABLES.values()), _pgkpr_rows,
              "Quora and MSCOCO", "of one order each with smoothing 7, as HCL reports it", many_keywords=True,
              raises_alarms=False, curve_names="pgkpr")
CLLD = Track("clld", "CLLD", "text classification with a contrast between classes, weighted by label distance",
             "accuracy", CLLD_LAYOUTS, CLLD_QUESTIONS, tuple(CLLD_TABLES.values()), _clld_rows,
             "20NG, TREC_6, R8, R52 and MR", judged_by=("validation_accuracy", "validation accuracy"), classifies=True,
             raises_alarms=False, curve_names="clld")
TRACKS = (HCL, PGKPR, CLLD)
