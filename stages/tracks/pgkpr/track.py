"""The PGKPR track: paraphrasing with the reconstruction of keywords and parts of speech (METHODS C)."""

from stages.tracks.track import Asked, Finding, Predictor, Track


def _predictor(asked: Asked, finding: Finding, device: str) -> Predictor:
    from stages.tracks.pgkpr.new_texts import NewTexts

    return NewTexts(asked, finding, device)


PGKPR = Track(
    "pgkpr", "PGKPR", _predictor,
    settings=lambda params, name: params.pgkpr_model(name),
    decoding=lambda params, run: params.pgkpr_decoding(run),
    tables={"paraphrase_items": "paraphrase_items", "vocabulary": "paraphrase_items"},
    prepared_by="paraphrase_items", computed_by="generate_pgkpr", unread={"samples": "draw nothing"})
