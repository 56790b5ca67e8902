"""Results of the CLLD track."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stages.common.settings import Params, earlier_model
from stages.metrics.classification import Confidence, class_statistics
from stages.metrics.registered import family
from stages.metrics.resampling import Statistic
from stages.results.published import paper
from stages.results.track import Compared, Names, Question, Row, TableLayout, TrackResults, unusual
from stages.tracks import registry
from stages.tracks.clld.tables import LABELS, row_name, row_of, source_of

_QUESTIONS = (
    Question("How good is the classification?", "Accuracy, and mean F1 over classes. The accuracy on the validation "
             "split chooses the weights. In training it is that of the first view, under dropout.",
             r"accuracy|macro_f1"),
    Question("The loss and its parts", "What is minimised: the weighted sum of cross-entropy and contrast, in nats per "
             "text. The validation loss is the cross-entropy alone.", r"loss|ce|contrast"),
)
_TABLES = (
    TableLayout(
        "Accuracy as CLLD reports it, and further metrics", "Macro F1 weighs all classes equally, however rare. The "
        "last three judge the probabilities.",
        (family("classes"), family("probabilities"))),
)
_ENCODERS = {"textcnn": "TextCNN", "bundled": "bundled encoder", "scratch": "encoder from scratch"}
_BASELINES = {"majority": "gives every text the class that is most frequent in training",
           "linear": "is a logistic regression on the TF-IDF of words"}


def encoder_name(source: str) -> str:
    """Return the name of an encoder (``textcnn``, or a value of ``encoder.source``) for people."""
    return _ENCODERS.get(source) or source.partition(":")[2] or source


def encoder_of(source: str) -> str | None:
    """Return the encoder of Table II that corresponds to ``source``; None for RoBERTa and the like."""
    if source == "textcnn":
        return "TextCNN"
    if source == "bundled":
        return "BERT"
    match = re.search(r"(?<![a-z])(al)?bert(?![a-z])", source.rpartition("/")[2].lower())
    return None if match is None else "ALBERT" if match[1] else "BERT"


class _EncoderNames(Names):
    """A classifier is named by its contrast, then by its encoder."""

    def label(self, row: Row) -> str:
        """Return the name of a row."""
        return f"{', '.join(map(row_name, sorted(row.switches)))}, {encoder_name(row.architecture)}"


def row(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> Row:
    """Return the row of a run: its encoder, and its contrast (and a split other than test) as switches."""
    return Row(str(settings["encoder"]), frozenset({str(settings["kind"])}) | unusual(settings, decode))


def _printed_as(own: Row) -> Sequence[str]:
    """Return the names in Tables II and III; Table II does not say which matrix its CLLD uses, so that both match."""
    encoder, contrast = encoder_of(own.architecture), LABELS.get(" ".join(own.switches))
    if encoder is None or contrast is None:
        return []
    name = contrast.partition(" ")[0]
    named = {"CT": encoder, "CT+CLSLED": f"{encoder}+CLLD", "CT+CLALD": f"{encoder}+CLLD"}
    return [*([named[name]] if name in named else []), *([name] if encoder == "BERT" else [])]


def _statistics(scores: pd.DataFrame, predicted: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, Statistic]:
    """Return every metric; baseline ``majority`` has no probabilities, and so fewer metrics."""
    names = sorted({*scores["label"], *scores["predicted"]})
    places = {name: place for place, name in enumerate(names)}
    labels, answers = (scores[column].map(places).to_numpy(np.int64) for column in ("label", "predicted"))
    probability, nll, brier = (scores[column].to_numpy(np.float64, na_value=np.nan)
                               for column in ("probability", "nll", "brier"))
    known = not any(np.isnan(column).any() for column in (probability, nll, brier))
    confidence = Confidence(probability, nll, brier, settings.get("bins", 15)) if known else None
    return class_statistics(labels, answers, len(names), confidence)


def _further_settings(params: Params, model: str) -> dict[str, Any]:
    block = params.models.clld[model]
    kind = row_of(block.contrast, params.model(model).ce_views)
    return {"kind": kind, "row": row_name(kind), "encoder": source_of(params, model)} | (
        {"pairs_of": other} if (other := earlier_model(block)) else {})


CLLD = TrackResults(
    **vars(registry.CLLD), method="text classification with a contrast between classes, weighted by label distance",
    names=_EncoderNames({}), row=row, full=None, layouts=_TABLES,
    reported=("accuracy", "macro_f1", "weighted_f1", "nll", "brier", "ece"), questions=_QUESTIONS,
    published=tuple(paper("clld").tables.values()), printed_as=_printed_as, data="20NG, TREC_6, R8, R52 and MR",
    further_settings=_further_settings,
    baselines=_BASELINES, named=("row", "encoder", "pairs_of"),
    compared=Compared("text", "label", "predicted", "predicted", _statistics,
                      ("example_id", "text", "label", "predicted"), exact=True),
    headline="CLLD. mF1, wF1: F1 by class, by text; ECE: calibration error",
    differs="Encoders, length of texts, time of training and the validation split",
    remark="They are divided by 100. The bundled encoder, a BERT of 6 layers and width 384, is compared with BERT. "
           "Table II does not say whether its label distance is static or adaptive: both are compared with it.",
    judged_by=("validation_accuracy", "validation accuracy"), items="texts", curve_names="clld")
