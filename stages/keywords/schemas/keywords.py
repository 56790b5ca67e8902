"""The keyword of every text."""

import pyarrow as pa

from stages.artifacts.schemas import NO_KEYWORD, TableSchema
from stages.keywords.methods import NAMING

KEYWORDS = TableSchema(
    "keywords", "The keyword of every text and how it was found.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        ("keyword", pa.string(), f"keyword in normal form; {NO_KEYWORD} where the text has none"),
        ("method", pa.string(), f"{', '.join(NAMING)}, idf (fall-back) or none"),
        ("score", pa.float64(), "score under that method; null for none"),
    ))
