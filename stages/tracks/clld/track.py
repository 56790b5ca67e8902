"""The CLLD track: classifying texts, with contrasts that know how far classes are apart (METHODS D)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stages.tracks.clld.rows import TEXTCNN
from stages.tracks.track import Asked, Finding, Predictor, Track

if TYPE_CHECKING:
    from stages.params import Params


def _predictor(asked: Asked, finding: Finding, device: str) -> Predictor:
    from stages.tracks.clld.new_texts import NewTexts

    return NewTexts(asked, device)


def _follows(params: "Params", name: str) -> Mapping[str, str]:
    other = params.models.clld[name].pairs_of
    return {} if other is None else {"pairs_of": other}


CLLD = Track(
    "clld", "CLLD", _predictor,
    settings=lambda params, name: params.clld_model(name), decoding=None,
    tables={"examples": "ingest", "texts": "ingest", "linear_floor": "linear_floor"},
    prepared_by="linear_floor", computed_by="evaluate_clld",
    run_files=("predictions.parquet", "scores.parquet", "classes.parquet", "confusion.parquet", "calibration.parquet",
               "metrics.json"),
    schemas={"examples": "labelled_examples", "items": "labelled_items", "predictions": "class_predictions",
             "scores": "class_scores"},
    follows=_follows, source=lambda params, name: params.clld_encoder(name),
    encoded=lambda source: source != TEXTCNN,
    pooled=lambda params, name: bool(params.clld_model(name).pool == "pooler"),
    unread=dict.fromkeys(("keyword", "samples"), "classify"))
