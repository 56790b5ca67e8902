"""The HCL track: rewriting a text under the guidance of its keyword."""

from stages.tracks.common.schemas.items import ITEMS
from stages.tracks.common.schemas.predictions import PREDICTIONS
from stages.tracks.common.schemas.scores import SCORES
from stages.tracks.common.track import Track

HCL = Track(
    "hcl", "HCL", prepared_by="graph", schemas={"items": ITEMS, "predictions": PREDICTIONS, "scores": SCORES},
    after="init", source=lambda params, name: params.encoder.source,
    unread={"n": "draw further outputs instead, with --samples"})
