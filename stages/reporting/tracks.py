"""What differs from track to track on the page: names, tables, questions to the curves, published rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stages.reporting.curves import HCL_QUESTIONS, PGKPR_QUESTIONS, Question
from stages.reporting.gather import RunMaterial
from stages.reporting.metric_columns import LAYOUTS, PGKPR_LAYOUTS, TableLayout
from stages.reporting.published import PGKPR_TABLES, TABLES, PublishedRow, PublishedTable, published_row
from stages.reporting.published_pgkpr import pgkpr_row


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
        row: returns the published row of a run, from the run, its model's settings and the kind of its data set.
        reported: data sets of the paper, for people.
        scores: what the small numbers beside an output are, for people.
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
    row: Callable[[RunMaterial, Mapping[str, Any], str | None], PublishedRow | None]
    reported: str
    scores: str
    many_keywords: bool = False
    raises_alarms: bool = True
    curve_names: str = ""


def _hcl_row(run: RunMaterial, settings: Mapping[str, Any], kind: str | None) -> PublishedRow | None:
    # A run under another keyword, or of drawn z, is no row of the paper.
    if run.decode.get("keyword", "own") != "own" or run.decode.get("z", "mean") != "mean":
        return None
    return published_row(settings, kind)


def _pgkpr_row(run: RunMaterial, settings: Mapping[str, Any], kind: str | None) -> PublishedRow | None:
    return pgkpr_row(settings, {"keywords": run.keywords}, kind)


HCL = Track("hcl", "HCL", "hierarchical contrastive learning over keywords and instances", "bleu_1", LAYOUTS,
            HCL_QUESTIONS, tuple(TABLES.values()), _hcl_row, "QQP, Douban and RocStories", "as in the first table")
PGKPR = Track("pgkpr", "PGKPR", "paraphrasing with reconstruction of keywords and parts of speech, its ablations and "
              "baselines", "released_bleu_1", PGKPR_LAYOUTS, PGKPR_QUESTIONS, tuple(PGKPR_TABLES.values()), _pgkpr_row,
              "Quora and MSCOCO", "of one order each with smoothing 7, as HCL reports it", many_keywords=True,
              raises_alarms=False, curve_names="pgkpr")
