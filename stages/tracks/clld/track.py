"""The CLLD track: classifying texts, with contrasts that know how far classes are apart."""

from stages.common.schemas import LABELLED_EXAMPLES
from stages.tracks.clld.rows import TEXTCNN, source_of
from stages.tracks.clld.schemas import CLASS_PREDICTIONS, CLASS_SCORES, LABELLED_ITEMS
from stages.tracks.common.track import Track

CLLD = Track(
    "clld", "CLLD", prepared_by="linear_floor", classifies=True,
    run_files=("predictions.parquet", "scores.parquet", "classes.parquet", "confusion.parquet", "calibration.parquet",
               "metrics.json"),
    schemas={"examples": LABELLED_EXAMPLES, "items": LABELLED_ITEMS, "predictions": CLASS_PREDICTIONS,
             "scores": CLASS_SCORES},
    after="pairs_of", source=source_of,
    encoded=lambda source: source != TEXTCNN,
    unread=dict.fromkeys(("keyword", "samples", "n"), "classify"))
