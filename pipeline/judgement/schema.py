"""What raters said."""

import pyarrow as pa

from stages.common.schemas import TableSchema

JUDGEMENTS = TableSchema(
    "judgements", "What raters said in filled sheets (METHODS E.5); written by `keycontrast judge read`, no stage.",
    ("item", "run", "rater", "criterion"), (
        ("item", pa.int64(), "example of table examples"),
        ("run", pa.string(), "run whose output was judged, or `human reference`"),
        ("rater", pa.string(), "rater, named as the sheet"),
        ("criterion", pa.string(), "what was judged, such as fluency"),
        ("score", pa.int32(), "point of the scale"),
    ))
