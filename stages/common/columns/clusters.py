"""Examples by keyword."""

import pyarrow as pa

from stages.common.schemas import TableSchema

CLUSTERS = TableSchema(
    "clusters", "Training examples by the keyword of their input (HCL section 3.2.2).", ("keyword", "example_id"), (
        ("keyword", pa.string(), "keyword of the input, or one that it contains (graph.cluster_by)"),
        ("example_id", pa.int64(), "training example"),
        ("output_keyword", pa.string(), "keyword of its target"),
        ("negative_keyword", pa.string(), "keyword of its negative; null where there is none"),
    ))
