"""`keycontrast inspect` on every kind of artifact."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from keycontrast.cells import cell, print_rows, printable
from keycontrast.errors import InputError
from pipeline.inspection import show
from pipeline.schemas import SCHEMAS
from stages.common.methods import METHODS
from stages.common.tables import Provenance, write_table

PROVENANCE = Provenance("ingest@tiny", "0123", counts={"pairs": 2}, fallbacks=["took the [bold]other[/bold] way"])


@pytest.fixture
def folder(tmp_path):
    texts = {"text_id": [0, 1], "text": ["a [red]text[/red]", "another"], "language": ["en", "en"]}
    examples = {"example_id": [0], "split": ["train"], "source_id": [0], "target_id": [1], "negative_id": [None],
                "reference_ids": [[1, 0]], "group": [0], "negative_origin": [None]}
    write_table(tmp_path / "texts", SCHEMAS["texts"], texts, PROVENANCE)
    write_table(tmp_path / "examples", SCHEMAS["examples"], examples, PROVENANCE)
    return tmp_path


def shown(path, **settings):
    console = Console(width=200, record=True, file=io.StringIO())
    show(path, console, **settings)
    return console.export_text()


def test_a_table_shows_columns_counts_and_provenance(folder):
    text = shown(folder / "examples", schema=True)
    assert text.index("First 1 rows") < text.index("1 rows, 8 columns") and "key: example_id" in text
    assert "text id of the input x" not in shown(folder / "examples")
    assert "text id of the input x" in text
    assert '"stage": "ingest@tiny"' in text and "took the [bold]other[/bold] way" in text
    assert "First 1 rows" in shown(folder / "texts", rows=1) and "First" not in shown(folder / "texts", rows=0)


def test_texts_that_are_safe_stay_as_they_are():
    assert printable("naïve 减肥 👩\u200d💻 \u0646\u0645\u06cc") == "naïve 减肥 👩\u200d💻 \u0646\u0645\u06cc"
    assert printable("a\nb\tc\ud800", keep="\n") == "a\nb\\tc\\ud800"
    assert cell({"a": [None, 0.5] * 10, "b": "x\ty"}).plain == (
        "{a: [" + ", ".join(["null, 0.5"] * 6) + ", ... (20)], b: x\\ty}")
    assert cell("y" * 200).plain == "y" * 119 + "…"


def test_json_csv_and_lines(folder):
    (folder / "m.json").write_text(json.dumps({"run": {"bleu_1": 0.5}}))
    (folder / "h.csv").write_text("epoch,loss\n1,0.25\n2,0.125\n")
    (folder / "p.jsonl").write_text('{"source": "x"}\n{"source": "y"}\n')
    assert '"bleu_1": 0.5' in shown(folder / "m.json")
    assert "First 1 of 2 rows" in (text := shown(folder / "h.csv", rows=1)) and "0.25" in text and "0.125" not in text
    (folder / "T.TSV").write_text("epoch\tloss\n1\t0.25\n")
    assert "0.25" in shown(folder / "T.TSV")
    assert "First 2 of 2 rows" in shown(folder / "p.jsonl") and "y" not in shown(folder / "p.jsonl", rows=1)


def test_a_foreign_table_and_a_folder(folder):
    pq.write_table(pa.table({"x": [1, 2, 3]}), folder / "own.parquet")
    (folder / "config.json").write_text('{"model_type": "hcl"}')
    (folder / "README.md").write_text("# A card with [brackets]")
    (folder / ".texts.abc.tmp").write_text("unfinished")
    assert "3 rows, 1 columns" in shown(folder / "own.parquet")
    (folder / "broken.parquet").write_text("not parquet")
    text = shown(folder)
    assert "not a readable" in text
    assert "Each distinct text once" in text and '"model_type": "hcl"' in text and "A card with [brackets]" in text
    assert ".tmp" not in text


def test_tables_of_one_file_name_are_known_by_what_they_say(tmp_path):
    rows = {"system": ["run", "run"], "example_id": [1, 2], "label": ["a", "b"], "predicted": ["a", "a"],
            "correct": [True, False], "probability": [0.5, 0.5], "nll": [0.7, 0.7], "brier": [0.5, 0.5]}
    write_table(tmp_path / "scores.parquet", SCHEMAS["class_scores"], rows, PROVENANCE)
    described, text = SCHEMAS["class_scores"].description, shown(tmp_path / "scores.parquet")
    assert described[:60] in text and "key: system, example_id" in text
    assert described[:40] in shown(tmp_path)
    ranked = {name for name, method in METHODS.items() if method.holds == "phrases"}  # one shape, files of other names
    others = [schema.description for name, schema in SCHEMAS.items() if name not in ranked]
    assert len(set(others)) == len(others)


def test_errors_name_the_place_and_the_remedy(folder):
    with pytest.raises(InputError, match=r"example: not found; did you mean 'examples'\?"):
        shown(folder / "example")
    for name, content, message in (
            ("broken.parquet", "not parquet", "not a readable Parquet file.*run its stage again"),
            ("broken.json", "{", "not valid JSON"), ("bars.csv", "a|b\n1|2\n", "keycontrast keywords --separator"),
            ("weights.bin", "", r"cannot show a file of kind \.bin; valid endings: \.csv, \.json")):
        (folder / name).write_text(content)
        with pytest.raises(InputError, match=message):
            shown(folder / name)


def test_a_deleted_artifact_is_named_with_the_stage_that_makes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text("schema: '2.0'\nstages:\n  graph@d:\n    cmd: x\n    outs:\n"
                                "    - {path: artifacts/data/d/graph/nodes, md5: a}\n"
                                "    - {path: artifacts/g, md5: b}\n")
    for path in ("artifacts/data/d/graph/nodes", "artifacts/g/inside.json"):
        with pytest.raises(InputError, match="not found. Stage graph@d makes it: `keycontrast run graph@d`"):
            show(Path(path), Console())


def test_narrow_columns_keep_their_width_beside_long_texts():
    console = Console(width=60, file=io.StringIO())
    print_rows(["file", "row", "raw"], [("pairs.csv", 7, "x" * 500)], console, "")
    assert "pairs.csv │ 7 " in console.file.getvalue()
    assert max(map(len, console.file.getvalue().splitlines())) <= 60
