"""A bit turned over, a cut or a hole in an artifact: it is told, or what is read is what was written."""

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from keycontrast.errors import InputError
from stages.common.schemas import TableSchema
from stages.common.tables import Provenance, read_metadata, read_table, write_table
from tests.harness.cases import Verdict
from tests.harness.params import bad_message

SCHEMA = TableSchema(name="pairs", description="Of the harness.", key=("number",), fields=(
    ("number", pa.int64(), "counts"), ("text", pa.string(), "words"), ("score", pa.float32(), "drawn"),
    ("parts", pa.list_(pa.string()), "of the text")))


def table(rows: int = 200) -> dict[str, Any]:
    """Return content for a table of the harness."""
    chance = random.Random(1)  # noqa: S311 - no secret
    texts = [" ".join(chance.choice(["rice", "cooker", "中文", "naïve"]) for _ in range(6)) for _ in range(rows)]
    return {"number": list(range(rows)), "text": texts, "score": [chance.random() for _ in range(rows)],
            "parts": [text.split() for text in texts]}


def damaged_table(chance: random.Random) -> Verdict:
    """Damage a table in one place, and read it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.parquet"
        written = write_table(file, SCHEMA, table(), Provenance("pairs@harness", "0123"))
        metadata, content = read_metadata(file), bytearray(file.read_bytes())
        place = chance.randrange(len(content))
        way = chance.choice(["bit", "bit", "bit", "bit", "cut", "hole"])
        what = f"{way} at byte {place} of {len(content)}"
        if way == "bit":
            content[place] ^= 1 << chance.randrange(8)
        elif way == "cut":
            del content[place:]
        else:
            content[place:place + 64] = bytes(len(content[place:place + 64]))
        file.write_bytes(content)
        try:
            read, said = read_table(file, SCHEMA), read_metadata(file)
        except InputError as error:
            return Verdict(what, bad_message(str(error)))
        except Exception as error:  # noqa: BLE001 - the very fault that is looked for
            return Verdict(what, f"{type(error).__name__}: {str(error)[:300]}")
    # A file without any metadata is what another program wrote, and is taken as that.
    same = read.replace_schema_metadata(None).equals(written.replace_schema_metadata(None)) and said in (metadata, {})
    return Verdict(what, "" if same else "read as other content, unnoticed")
