"""Tables in parts: read as one table, and the same bytes whoever writes them."""

import io
import json
import os
import shutil
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from test_annotate import saved_pipeline

from keycontrast.errors import InputError
from keycontrast.files import sha256_of
from pipeline import inspection, sql
from pipeline.schemas import SCHEMAS
from stages.annotate import annotate
from stages.common.parts import LIST, Layout, parts_of
from stages.common.tables import (
    Provenance,
    column_names,
    read_batches,
    read_metadata,
    read_table,
    row_count,
    write_table,
)
from stages.common.writing import table_writer
from stages.graph.joins import JoinLimits, joining
from stages.keywords import textrank

ROOT = Path(__file__).resolve().parents[1]
TEXTS = SCHEMAS["texts"]
WORDS = ["The big dogs bark.", "Dogs bark loudly. The dogs bark.", "Big dogs", "42", "The loudly bark dogs", "Dogs."]
STRINGS = [f"{WORDS[number % len(WORDS)]} Dogs {number}" for number in range(20)]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return saved_pipeline(tmp_path_factory.mktemp("pipeline") / "en_words")


def rows(start, stop):
    return pa.table({"text_id": range(start, stop), "text": STRINGS[start:stop], "language": ["en"] * (stop - start)},
                    schema=TEXTS.arrow())


def written(path, layout=None, step=3, provenance=None):
    with table_writer(path, TEXTS, provenance or Provenance("ingest@toy", "h", counts={"n": 1}), layout) as writer:
        for start in range(0, len(STRINGS), step):
            writer.write(rows(start, min(start + step, len(STRINGS))))
    return path


def test_a_table_goes_on_in_another_part(tmp_path):
    one, many = written(tmp_path / "one.parquet"), written(tmp_path / "many.parquet", Layout(6))
    assert one.is_file()
    assert [path.name for path in sorted(many.iterdir())] == [LIST, *(f"part-0000{n}.parquet" for n in range(4))]
    assert [part.rows for part in parts_of(many)] == [6, 6, 6, 2]
    assert all(part.sha256 == sha256_of(Path(part.place)) for part in parts_of(many))
    assert written(tmp_path / "few.parquet", Layout(100)).read_bytes() == one.read_bytes()
    assert read_table(many, TEXTS).equals(read_table(one, TEXTS))
    assert read_metadata(many) == read_metadata(one)
    assert row_count(many) == 20 and column_names(many) == column_names(one)
    assert [batch.num_rows for batch in read_batches(many, TEXTS, rows=4)] == [4, 2, 4, 2, 4, 2, 2]


def test_one_large_write_is_cut_too(tmp_path):
    one, many = (written(tmp_path / name, Layout(6), step) for name, step in (("one.parquet", 20), ("many.parquet", 1)))
    assert [part.rows for part in parts_of(one)] == [part.rows for part in parts_of(many)] == [6, 6, 6, 2]
    assert read_table(one, TEXTS).equals(read_table(many, TEXTS))


def test_others_read_a_folder_as_a_file(tmp_path):
    one, many = written(tmp_path / "one.parquet"), written(tmp_path / "many.parquet", Layout(6))
    assert pd.read_parquet(many).equals(pd.read_parquet(one))
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{many}/*.parquet')").fetchall() == [(20,)]
    assert pq.read_table(many).num_rows == 20


def test_a_table_takes_the_place_of_one_of_another_form(tmp_path):
    path = tmp_path / "texts.parquet"
    for layout in (None, Layout(6), Layout(4), None):
        written(path, layout)
        assert row_count(path) == 20 and path.is_dir() == (layout is not None)
        assert [item.name for item in tmp_path.iterdir()] == ["texts.parquet"]
    with pytest.raises(RuntimeError), table_writer(path, TEXTS, Provenance("", ""), Layout(1)) as writer:
        writer.write(rows(0, 5))
        writer.write(rows(5, 9))
        raise RuntimeError
    assert path.is_file() and [item.name for item in tmp_path.iterdir()] == ["texts.parquet"]


def test_rows_of_parts_are_in_order(tmp_path):
    with (pytest.raises(ValueError, match="rows after"),
          table_writer(tmp_path / "t.parquet", TEXTS, Provenance("", ""), Layout(2)) as writer):
        writer.write(rows(4, 8))
        writer.write(rows(0, 2))


def test_damage_is_named(tmp_path):
    path = written(tmp_path / "texts.parquet", Layout(6))
    content = json.loads((path / LIST).read_text())
    content["parts"].pop()
    (path / LIST).write_text(json.dumps(content))
    with pytest.raises(InputError, match="_table.json: not a readable list of a table's parts"):
        read_table(path)
    (path / LIST).unlink()
    with pytest.raises(InputError, match=r"texts.parquet: a folder without _table.json"):
        read_table(path)
    written(path, Layout(6))
    (path / "part-00002.parquet").write_bytes((path / "part-00001.parquet").read_bytes()[:-9])
    with pytest.raises(InputError, match=r"texts.parquet: not a readable Parquet file"):
        read_table(path)
    (path / "part-00002.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        read_table(path)


def shown(path):
    console = Console(width=200, record=True, file=io.StringIO())
    inspection.show(path, console)
    return console.export_text()


def test_inspection_sql_and_joins_read_parts(tmp_path):
    one = written(tmp_path / "artifacts/data/one/items/texts.parquet")
    many = written(tmp_path / "artifacts/data/toy/items/texts.parquet", Layout(6))
    lines = shown(many).splitlines()
    assert "20 rows, 3 columns" in lines[1] and "in 4 parts" in lines[1]
    assert [line for line in lines[2:]] == [line for line in shown(one).splitlines()[2:]]
    files = sql.catalog(tmp_path / "artifacts")
    assert files.names() == ["one.texts", "toy.texts"]
    query = "SELECT count(*), min(text), max(text_id) FROM {}.texts"
    with sql.answer(query.format("toy"), files) as mine, sql.answer(query.format("one"), files) as other:
        assert list(mine.rows) == list(other.rows) == [(20, min(STRINGS), 19)]
    with joining({"texts": many}, JoinLimits(threads=2)) as connection:
        assert connection.sql("SELECT count(*), max(text_id) FROM texts").fetchall() == [(20, 19)]


# Stages over parts

def project(folder, pipeline, **settings):
    """Write a project whose table of texts has seven parts, and return its tables of tokens and phrases."""
    block = {"part_rows": 3}
    table = folder / "artifacts/data/toy/items/texts.parquet"
    written(table, Layout(**block), provenance=Provenance("ingest@toy", "0"))
    text_ids = list(range(len(STRINGS)))
    write_table(folder / "artifacts/data/toy/items/examples.parquet", SCHEMAS["plain_examples"], {
        "example_id": text_ids, "split": ["train"] * 12 + ["test"] * 8, "text_id": text_ids}, Provenance("i@toy", "0"))
    params = {"recipe": "t", "runtime": {"workers": settings.pop("workers", 1)}, "artifacts": block,
              "datasets": {"toy": {"source": "x", "layout": "texts"}}, "annotate": {"pipeline": pipeline, "chunk": 2},
              "cluster": settings}
    (folder / "params.yaml").write_text(json.dumps(params))
    return [folder / f"artifacts/data/toy/{name}.parquet" for name in ("tokens", "textrank")]


def hashes(paths):
    return [[part.sha256 for part in parts_of(path)] for path in paths]


def run_stages():
    assert annotate.main(["toy"]) == 0
    assert textrank.main(["toy"]) == 0


@pytest.fixture(scope="module")
def at_home(pipeline, tmp_path_factory):
    """Hashes of the parts that one process makes."""
    folder = tmp_path_factory.mktemp("home")
    before = Path.cwd()
    os.chdir(folder)
    try:
        paths = project(folder, pipeline)
        run_stages()
        return hashes(paths), [read_metadata(path) for path in paths], [read_table(path) for path in paths]
    finally:
        os.chdir(before)


def test_a_stage_makes_a_part_of_each(at_home, pipeline, tmp_path, monkeypatch):
    found, metadata, tables = at_home
    assert [len(each) for each in found] == [7, 7]
    monkeypatch.chdir(tmp_path)
    whole = project(tmp_path, pipeline)
    block = json.loads((tmp_path / "params.yaml").read_text())
    (tmp_path / "params.yaml").write_text(json.dumps({**block, "artifacts": {"part_rows": 100}}))
    shutil.rmtree(tmp_path / "artifacts/data/toy/items/texts.parquet")
    written(tmp_path / "artifacts/data/toy/items/texts.parquet", provenance=Provenance("ingest@toy", "0"))
    run_stages()
    assert [read_table(path).equals(table) for path, table in zip(whole, tables, strict=True)] == [True, True]
    assert metadata[1]["counts"] == read_metadata(whole[1])["counts"]


@pytest.mark.whole
def test_any_number_of_workers_makes_the_same_parts(at_home, pipeline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = project(tmp_path, pipeline, workers=2)
    run_stages()
    assert hashes(paths) == at_home[0]
