"""Linguistic annotation, as the library makes it."""

from keycontrast.text import schemas
from stages.common.schemas import TableSchema

TOKENS = TableSchema.of(schemas.TOKENS, "tokens", "Linguistic annotation, one row per text, lists aligned with its "
                                                  "tokens.", ("text_id",))
