"""A project of 4000 texts in eight parts; ``python -m horses FOLDER URL CLUSTER`` writes it from where it runs."""

import json
import sys
from pathlib import Path

import pyarrow as pa

from pipeline.schemas import SCHEMAS
from stages.common.parts import Layout
from stages.common.tables import Provenance, write_table
from stages.common.writing import table_writer

TEXTS, PART = 4000, 500
BEGINNINGS = (
    "The big dogs bark.", "Dogs bark loudly. The dogs bark.", "Big dogs", "42", "The loudly bark dogs", "Dogs.")


def write_project(folder: Path, url: str | None, cluster: dict[str, str]) -> None:
    """Write data set ``toy``, whose parts lie at ``url``, and params with block ``cluster``."""
    texts = [f"{BEGINNINGS[n % len(BEGINNINGS)]} The {n} horses of a rider eat apples." for n in range(TEXTS)]
    layout, made = {"part_rows": PART, "url": url}, Provenance("i", "0")
    table = folder / "artifacts/data/toy/items/texts.parquet"
    with table_writer(table, SCHEMAS["texts"], made, Layout(**layout)) as writer:
        for start in range(0, TEXTS, PART):
            writer.write(pa.table({"text_id": range(start, start + PART), "text": texts[start:start + PART],
                                   "language": ["en"] * PART}, schema=SCHEMAS["texts"].arrow()))
    write_table(folder / "artifacts/data/toy/items/examples.parquet", SCHEMAS["plain_examples"], {
        "example_id": range(TEXTS), "split": ["train"] * TEXTS, "text_id": range(TEXTS)}, made)
    (folder / "params.yaml").write_text(json.dumps({
        "recipe": "t", "artifacts": layout, "cluster": cluster, "annotate": {"chunk": 256},
        "datasets": {"toy": {"source": "x", "layout": "texts"}}}))


if __name__ == "__main__":
    write_project(Path(sys.argv[1]), sys.argv[2] or None, json.loads(sys.argv[3]))
