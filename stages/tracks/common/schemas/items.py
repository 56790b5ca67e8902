"""What rewriters are trained on."""

import pyarrow as pa

from stages.common.schemas import STRINGS, TableSchema

ITEMS = TableSchema(
    "items", "What a model was trained and is evaluated on, as plain texts with keywords.", ("example_id",), (
        ("example_id", pa.int64(), "example of table examples"),
        ("split", pa.string(), "train, validation or test"),
        ("source", pa.string(), "input text"),
        ("target", pa.string(), "output text"),
        ("negatives", STRINGS, "negative texts, best first; empty where there is none"),
        ("keyword", pa.string(), "keyword of the input"),
        ("target_keyword", pa.string(), "keyword of the target"),
        ("negative_keyword", pa.string(), "keyword of the first negative; null where there is none"),
        ("references", STRINGS, "reference texts, the target first"),
    ))
