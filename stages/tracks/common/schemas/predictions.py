"""What rewriters write."""

import pyarrow as pa

from stages.common.schemas import STRINGS, TableSchema

PREDICTIONS = TableSchema(
    "predictions", "Generated texts of a run.", ("example_id", "sample"), (
        ("example_id", pa.int64(), "evaluated example"),
        ("sample", pa.int32(), "0 for z as the run has it (mean of the prior by default); 1.. for further draws"),
        ("source", pa.string(), "input text"),
        ("keyword", pa.string(), "keyword that conditioned the output; those of PGKPR and IANet joined by spaces; "
                                  "null if the model uses none"),
        ("keyword_known", pa.bool_(), "the keyword is a node of the training graph; true without a graph"),
        ("prediction", pa.string(), "generated text"),
        ("references", STRINGS, "reference texts"),
    ))
