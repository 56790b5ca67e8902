"""Tables of items, by text id."""

import pyarrow as pa

from stages.common.schemas import TableSchema

EXAMPLES = TableSchema(
    "examples", "Training, validation and test items: a source, a target, a negative, by text id.",
    ("example_id",), (
        ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
        ("split", pa.string(), "train, validation or test; graph: of the keyword graph alone"),
        ("source_id", pa.int64(), "text id of the input x"),
        ("target_id", pa.int64(), "text id of the output y+"),
        ("negative_id", pa.int64(), "text id of the negative y-; null where there is none"),
        ("reference_ids", pa.list_(pa.int64()), "text ids of all references, the target first"),
        ("group", pa.int64(), "connected component of all pairs; in one split, unless ingest.split_by is pair"),
        ("negative_origin", pa.string(), "given, labelled, retrieved or mined; bm25, random or scored for stories and "
                                         "dialogues; null where there is no negative"),
    ))

PLAIN_EXAMPLES = TableSchema(
    "plain_examples", "Plain texts, in the place of table examples for a data set of that layout.", ("example_id",), (
        ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
        ("split", pa.string(), "train, unless the data set publishes others"),
        ("text_id", pa.int64(), "text id"),
    ))

LABELLED_EXAMPLES = TableSchema(
    "labelled_examples", "Labelled texts, in the place of table examples for a data set of that layout.",
    ("example_id",), (
        ("example_id", pa.int64(), "number of the item; stable for the same inputs and params"),
        ("split", pa.string(), "train, validation or test"),
        ("text_id", pa.int64(), "text id"),
        ("label", pa.string(), "class"),
    ))
