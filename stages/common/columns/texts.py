"""Tables of what was read: texts, and rows that were not taken."""

import pyarrow as pa

from stages.common.schemas import TableSchema

TEXTS = TableSchema(
    "texts", "Each distinct text once (by `ingest.text_identity`).", ("text_id",), (
        ("text_id", pa.int64(), "number of the text, in order of first appearance"),
        ("text", pa.string(), "the text as it first appeared"),
        ("language", pa.string(), "ISO 639-1 code"),
    ))

REJECTED = TableSchema(
    "rejected", "Every input row that is in no item, and why.", ("file", "row"), (
        ("file", pa.string(), "input file as named in the params"),
        ("row", pa.int64(), "row in that file, 1-based, header not counted"),
        ("reason", pa.string(), "why the row is in no item"),
        ("raw", pa.string(), "the row as JSON, or the raw line if it could not be parsed"),
    ), unique=False)
