"""Ranked phrases, one table per method that ranks."""

from dataclasses import replace

from keycontrast.text import schemas
from stages.common.schemas import TableSchema

PHRASES = TableSchema.of(schemas.PHRASES, "phrases", "Ranked phrases of every text; one row with a status for a text "
                                                     "that has none.", ("text_id", "rank"))


def ranked_by(method: str) -> TableSchema:
    """Return the schema of the phrases that ``method`` ranked, in the table of its name."""
    return replace(PHRASES, name=method)
