"""The keyword of every text."""

import pyarrow as pa

from stages.common.methods import COMPARED_NAMING
from stages.common.schemas import NO_KEYWORD, TableSchema

# Descriptions are part of the table's bytes, by which trainings know whether they are up to date: a method that is not
# compared (embedrank) is not listed, though it may stand in the column.
KEYWORDS = TableSchema(
    "keywords", "The keyword of every text and how it was found.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        ("keyword", pa.string(), f"keyword in normal form; {NO_KEYWORD} where the text has none"),
        ("method", pa.string(), f"{', '.join(COMPARED_NAMING)}, idf (fall-back) or none"),
        ("score", pa.float64(), "score under that method; null for none"),
    ))
