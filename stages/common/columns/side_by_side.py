"""The keywords of all methods."""

import pyarrow as pa

from stages.common.methods import COMPARED
from stages.common.schemas import STRINGS, TableSchema

SIDE_BY_SIDE = TableSchema(
    "side_by_side", "The best keywords of each text by every method, best first.", ("text_id",), (
        ("text_id", pa.int64(), "text"),
        *((method.name, STRINGS, method.shown) for method in COMPARED.values()),
    ))
