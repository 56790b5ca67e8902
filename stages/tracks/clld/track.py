"""The CLLD track, text classification with label-aware contrasts, and the names of its rows."""

from typing import TYPE_CHECKING

from stages.common.schemas import LABELLED_EXAMPLES
from stages.common.settings import Params
from stages.tracks.clld.tables import CLASS_PREDICTIONS, CLASS_SCORES, LABELLED_ITEMS
from stages.tracks.common.track import Track

if TYPE_CHECKING:
    from stages.params import Params as Validated

# What stands in the place of an encoder's source for the model that starts from none.
TEXTCNN = "textcnn"
# By value of `contrast`, as published (CLLD Table III), and further rows of ours (docs/clld.md).
LABELS = {"none": "CT", "uniform": "CT+CL", "static_tau_pairs": "CT+CLSLED", "adaptive": "CT+CLALD",
          "supcl_seq": "SupCL-Seq", "simcse": "CT+SimCSE"}
# CT whose cross-entropy reads two views: the time that a contrast takes, without one.
TWO_VIEWS = "two_views"
_NAMES = {**LABELS, TWO_VIEWS: "CT, two views"}


def source_of(params: "Params | Validated", name: str) -> str:
    """Return what model ``name`` starts from: ``textcnn``, or a source of an encoder."""
    return str(params.models.clld[name].encoder or params.encoder.source)


def row_of(contrast: str, ce_views: str) -> str:
    """Return the table row of a model with this ``contrast``; CT of both views is :data:`TWO_VIEWS`."""
    return TWO_VIEWS if (contrast, ce_views) == ("none", "both") else contrast


def row_name(row: str) -> str:
    """Return the printed name of a row."""
    return _NAMES.get(row, row)


CLLD = Track(
    "clld", "CLLD", prepared_by="linear_floor", classifies=True,
    run_files=("predictions.parquet", "scores.parquet", "classes.parquet", "confusion.parquet", "calibration.parquet",
               "metrics.json"),
    schemas={"examples": LABELLED_EXAMPLES, "items": LABELLED_ITEMS, "predictions": CLASS_PREDICTIONS,
             "scores": CLASS_SCORES},
    after="pairs_of", source=source_of,
    encoded=lambda source: source != TEXTCNN, predicts_in="new_texts",
    unread=dict.fromkeys(("keyword", "samples", "n"), "classify"))
