"""The PGKPR track: paraphrasing with the reconstruction of keywords and parts of speech."""

from stages.tracks.common.schemas import ITEMS, PARAPHRASE_SCORES, PREDICTIONS
from stages.tracks.common.track import Track

PGKPR = Track(
    "pgkpr", "PGKPR", prepared_by="paraphrase_items",
    schemas={"items": ITEMS, "predictions": PREDICTIONS, "scores": PARAPHRASE_SCORES},
    after="init", unread={"samples": "draw nothing"})
