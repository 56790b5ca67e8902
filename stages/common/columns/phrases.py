"""Ranked phrases, one table per method that ranks."""

from dataclasses import replace

import pyarrow as pa

from stages.common.schemas import TableSchema

PHRASES = TableSchema(
    "phrases", "Ranked phrases of every text; one row with a status for a text that has none.", ("text_id", "rank"), (
        ("text_id", pa.int64(), "text"),
        ("rank", pa.int32(), "1 for the best phrase; 0 for a text without phrases"),
        ("phrase", pa.string(), "phrase as written in the text; null without phrases"),
        ("keyword", pa.string(), "normal form of the phrase, the identity of a graph node"),
        ("score", pa.float64(), "rank score of the phrase"),
        ("start", pa.int32(), "first token of the phrase's first occurrence"),
        ("end", pa.int32(), "token after its last"),
        ("status", pa.string(), "ok, not_converged, or why there is no phrase (empty_text, no_candidate)"),
    ))


def ranked_by(method: str) -> TableSchema:
    """Return the schema of the phrases that ``method`` ranked, in the table of its name."""
    return replace(PHRASES, name=method)
