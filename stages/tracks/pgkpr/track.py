"""The PGKPR track: paraphrasing with the reconstruction of keywords and parts of speech (METHODS C)."""

from stages.tracks.track import Track

PGKPR = Track(
    "pgkpr", "PGKPR", {"paraphrase_items": "paraphrase_items", "vocabulary": "paraphrase_items"},
    prepared_by="paraphrase_items", schemas={"scores": "paraphrase_scores"}, unread={"samples": "draw nothing"})
