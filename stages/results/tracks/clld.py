"""Results of the CLLD track."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stages.common.settings import Params, earlier_model
from stages.metrics.classification import Sureness, class_statistics
from stages.metrics.registered import family
from stages.metrics.resampling import Statistic
from stages.results.published import paper
from stages.results.track import Compared, Names, Question, Row, TableLayout, TrackResults
from stages.tracks.clld import track
from stages.tracks.clld.track import LABELS, row_name, row_of, source_of

_QUESTIONS = (
    Question("How well are classes told apart?", "Share of texts that are classified rightly, and mean F1 over "
             "classes. The accuracy on the validation split chooses the weights. In training it is that of the first "
             "view, under dropout.", r"accuracy|macro_f1"),
    Question("The loss and its parts", "What is minimised: the weighted sum of cross-entropy and contrast, in nats per "
             "text. The validation loss is the cross-entropy alone.", r"loss|ce|contrast"),
    Question("Optimiser and the rest", "Rates, the size of the gradient, and what else was recorded.", r".*"),
)
_TABLES = (
    TableLayout(
        "As CLLD reports it, with what accuracy hides", "CLLD reports accuracy alone, in per cent. Macro F1 counts "
        "every class alike, however rare. The last three judge the probabilities, not the classes that they name.",
        (family("classes"), family("probabilities"))),
)
_ENCODERS = {"textcnn": "TextCNN", "bundled": "bundled encoder", "scratch": "encoder from scratch"}


_FLOORS = {
    "majority": "gives every text the class that is most frequent in training",
    "linear": "is a logistic regression on the TF-IDF of words, the floor that papers on text classification tend to "
              "omit: what an encoder does not gain over it needed no encoder"}


def encoder_name(source: str) -> str:
    """Return an encoder for people: ``textcnn``, or as ``encoder.source``."""
    return _ENCODERS.get(source) or source.partition(":")[2] or source


def encoder_of(source: str) -> str | None:
    """Return which encoder of Table II ``source`` corresponds to: ``BERT``, ``ALBERT`` or ``TextCNN``; None for none.

    The bundled MiniLM is a BERT of 6 layers and width 384, and is set beside BERT. Encoders that only have its name
    in theirs, such as RoBERTa, are others.

    Args:
        source: ``textcnn``, or as ``encoder.source``: ``bundled``, ``scratch``, ``hub:<id>`` or ``path:<dir>``.
    """
    if source == "textcnn":
        return "TextCNN"
    if source == "bundled":
        return "BERT"
    found = re.search(r"(?<![a-z])(al)?bert(?![a-z])", source.rpartition("/")[2].lower())
    return None if found is None else "ALBERT" if found[1] else "BERT"


class _EncoderNames(Names):
    """Rows of classifiers are called by their contrast, then by their encoder."""

    def label(self, row: Row) -> str:
        """Return the name of a row."""
        return f"{', '.join(map(row_name, sorted(row.switches)))}, {encoder_name(row.architecture)}"


def row(settings: Mapping[str, Any], decode: Mapping[str, Any]) -> Row:
    """Return what a run is: its encoder, and its contrast as the one switch.

    Args:
        settings: with ``kind``, the row (:func:`stages.tracks.clld.track.row_of`), and ``encoder``.
        decode: with ``split``; on another than the test split a run is no row of the paper.
    """
    other = {f"{decode['split']} split"} if decode.get("split", "test") != "test" else set()
    return Row(str(settings["encoder"]), frozenset({str(settings["kind"])} | other))


def _printed_as(own: Row) -> Sequence[str]:
    """Return names in Tables II and III. Table II does not say which of its matrices CLLD has there: it has both."""
    encoder, contrast = encoder_of(own.architecture), LABELS.get(" ".join(own.switches))
    if encoder is None or contrast is None:
        return []
    name = contrast.partition(" ")[0]
    named = {"CT": encoder, "CT+CLSLED": f"{encoder}+CLLD", "CT+CLALD": f"{encoder}+CLLD"}
    return [*([named[name]] if name in named else []), *([name] if encoder == "BERT" else [])]


def _statistics(scores: pd.DataFrame, predicted: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, Statistic]:
    """Return every metric; of floor ``majority``, which gives no probabilities, fewer."""
    names = sorted({*scores["label"], *scores["predicted"]})
    places = {name: place for place, name in enumerate(names)}
    labels, said = (scores[column].map(places).to_numpy(np.int64) for column in ("label", "predicted"))
    probability, nll, brier = (scores[column].to_numpy(np.float64, na_value=np.nan)
                               for column in ("probability", "nll", "brier"))
    known = not any(np.isnan(column).any() for column in (probability, nll, brier))
    sureness = Sureness(probability, nll, brier, settings.get("bins", 15)) if known else None
    return class_statistics(labels, said, len(names), sureness)


def _further_settings(params: Params, model: str) -> dict[str, Any]:
    block = params.models.clld[model]
    kind = row_of(block.contrast, params.model(model).ce_views)
    return {"kind": kind, "row": row_name(kind), "encoder": source_of(params, model)} | (
        {"pairs_of": other} if (other := earlier_model(block)) else {})


CLLD = TrackResults(
    **vars(track.CLLD), method="text classification with a contrast between classes, weighted by label distance",
    names=_EncoderNames({}), row=row, full=None, layouts=_TABLES,
    reported=("accuracy", "macro_f1", "weighted_f1", "nll", "brier", "ece"), scale=100, questions=_QUESTIONS,
    published=tuple(paper("clld").tables.values()), printed_as=_printed_as, data="20NG, TREC_6, R8, R52 and MR",
    further_settings=_further_settings,
    floors=_FLOORS, named=("row", "encoder", "pairs_of"),
    compared=Compared("text", "label", "predicted", "predicted", _statistics,
                      ("example_id", "text", "label", "predicted"), exact=True),
    headline="CLLD. mF1, wF1: F1 by class, by text; ECE: calibration error",
    differs="Encoders, length of texts, time of training and the validation split",
    remark="Accuracies are in per cent; the bundled encoder is a BERT of 6 layers and width 384 and stands below BERT. "
           "Table II does not say whether its label distance is static or adaptive: both stand below it.",
    judged_by=("validation_accuracy", "validation accuracy"), items="texts",
    curve_names="clld")
