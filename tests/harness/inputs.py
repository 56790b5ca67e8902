"""Damaged input files of every format: each row is taken or has a reason, or the file is refused with a message."""

import io
import json
import random
import tempfile
from pathlib import Path

import pandas as pd

from keycontrast.errors import InputError
from keycontrast.texts import FileOptions, texts_from
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset
from stages.ingest.parsing import RowError
from stages.ingest.rows import RowCheck
from tests.harness.cases import Verdict
from tests.harness.damage import TOKENS, damaged_bytes, damaged_value
from tests.harness.params import bad_message

_TEXTS = ["How do I keep my starter alive?", "a \"quoted\", text", "line\nbreak", "naïve café", "我的面团发不起来。",
          "x; y\tz", "=1+1", "1.0", "💥"]
_SHAPES = {
    "pairs": {"source": "source", "target": "target", "label": "label"},
    "triples": {"source": "source", "target": "target", "negative": "negative"},
    "labelled": {"text": "source", "label": "label"}, "captions": {"group": "label", "text": "source"},
    "stories": {"story": "story"}, "dialogue": {"context": "story", "response": "source"}}


def _rows(chance: random.Random) -> list[dict[str, object]]:
    return [{"source": f"{chance.choice(_TEXTS)} {number}", "target": f"{chance.choice(_TEXTS)} b{number}",
             "negative": f"{chance.choice(_TEXTS)} c{number}", "label": number % 2,
             "story": [f"{chance.choice(_TEXTS)} {part}" for part in range(5)]} for number in range(8)]


def _content(form: str, rows: list[dict[str, object]]) -> bytes:
    if form == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode(
            "utf-8", "surrogatepass")
    frame = pd.DataFrame(rows)
    if form == "parquet":
        stream = io.BytesIO()
        frame.to_parquet(stream)
        return stream.getvalue()
    return frame.to_csv(index=False, sep="\t" if form == "tsv" else ",").encode("utf-8", "surrogatepass")


def damaged_input(chance: random.Random) -> Verdict:
    """Damage a file, as bytes or in its values, and read it as `ingest` and `predict --file` do."""
    layout, form = chance.choice(list(_SHAPES)), chance.choice(["csv", "tsv", "jsonl", "parquet", "txt"])
    rows, said = _rows(chance), "bytes"
    if form != "txt" and chance.random() < 0.3:
        rows, said = damaged_value(rows, chance)
    elif form != "txt" and chance.random() < 0.5:
        row, name, token = chance.choice(rows), chance.choice(["source", "target", "label"]), chance.choice(TOKENS)
        row[name], said = f"{row[name]}{token}", f"{name} with {token[:20]!a}"
    try:
        content = _content(form, [row for row in rows if isinstance(row, dict)]) if form != "txt" else (
            "\n".join(_TEXTS).encode())
    except Exception:  # noqa: BLE001 - what no program can write is no case
        return Verdict(f"{form}: {said}: cannot be written")
    if said == "bytes":
        content = damaged_bytes(content, chance)
    else:
        content += chance.choice(["", "", chance.choice(TOKENS)]).encode() if form != "parquet" else b""
    what = f"{layout}, {form}: {said}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"rows.{form}"
        file.write_bytes(content)
        try:
            if form == "txt" or chance.random() < 0.3:
                list(texts_from([], file, io.StringIO(), FileOptions(None if form == "txt" else "source")))
                return Verdict(what)
            dataset = Dataset(source=str(file), layout=layout, columns=_SHAPES[layout],
                              quoting=chance.choice(["standard", "none"]))
            check = RowCheck(dataset)
            for row in read_rows(dataset):
                try:
                    checked = check(row)
                except RowError as error:
                    if not str(error).strip():
                        return Verdict(what, "a row is refused without a reason")
                    row.raw.encode()
                    continue
                if any("\0" in text for text in checked.surfaces):
                    return Verdict(what, "a text with NUL is taken")
                "".join([*checked.surfaces, checked.label, checked.group, row.raw]).encode()
        except InputError as error:
            return Verdict(what, bad_message(str(error)))
        except Exception as error:  # noqa: BLE001 - the very fault that is looked for
            return Verdict(what, f"{type(error).__name__}: {str(error)[:300]}")
    return Verdict(what)
