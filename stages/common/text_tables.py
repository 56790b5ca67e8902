"""The tables whose columns the library describes (tokens and ranked phrases), and the table of each keyword method."""

from dataclasses import replace

from keycontrast.text import schemas
from stages.common.methods import METHODS
from stages.common.schemas import ATTRIBUTION, PSI, TableSchema

TOKENS = TableSchema.of(schemas.TOKENS, "tokens", "Linguistic annotation, one row per text, lists aligned with its "
                                                  "tokens.", ("text_id",))

PHRASES = TableSchema.of(schemas.PHRASES, "phrases", "Ranked phrases of every text; one row with a status for a text "
                                                     "that has none.", ("text_id", "rank"))


def ranked_by(method: str) -> TableSchema:
    """Return the schema of the phrases that ``method`` ranked."""
    return replace(PHRASES, name=method)


_OF_WORDS = {schema.name: schema for schema in (ATTRIBUTION, PSI)}
METHOD_TABLES = {method.name: ranked_by(method.name) if method.ranks_phrases else _OF_WORDS[method.name]
                 for method in METHODS.values() if method.names_keywords}
