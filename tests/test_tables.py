"""Tables: files and folders of parts with the same bytes, written whole or not at all, and every damage is named."""

import hashlib
import json

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_project

from keycontrast.errors import InputError
from keycontrast.files import atomic_file, atomic_folder
from stages.common import manifest, tables
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths, manifest_path
from stages.common.schemas import EDGES, TEXTS
from stages.common.tables import Provenance, parts_of, read_batches, read_metadata, read_table, write_json, write_table

STRINGS = [f"The big dogs bark {number}. {'x' * (number % 7)}" for number in range(20)]
PROVENANCE = Provenance("ingest@toy", "h", counts={"n": 1}, fallbacks=["none of note"])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(tables, "PART_ROWS", 6)


def rows(start=0, stop=20):
    return pa.table({"text_id": range(start, stop), "text": STRINGS[start:stop], "language": ["en"] * (stop - start)},
                    schema=TEXTS.arrow())


def written(path, step=3):
    with tables.table_writer(path, TEXTS, PROVENANCE) as writer:
        for start in range(0, len(STRINGS), step):
            writer.write(rows(start, min(start + step, len(STRINGS))))
    return path


def test_rows_are_sorted_and_described_and_have_the_same_bytes_in_any_order(tmp_path):
    path = tmp_path / "deep" / "texts.parquet"
    write_table(path, TEXTS, rows().to_pandas().sample(frac=1, random_state=1), PROVENANCE)
    write_table(tmp_path / "b.parquet", TEXTS, rows(), PROVENANCE)
    assert path.read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert tables.read_frame(path, TEXTS)["text_id"].tolist() == list(range(20))
    assert pq.read_schema(path).field("text").metadata[b"description"] == b"the text as it first appeared"
    assert b"pandas" not in pq.read_metadata(path).metadata
    metadata = read_metadata(path)
    assert (metadata["stage"], metadata["params_hash"], metadata["rows"]) == ("ingest@toy", "h", 20)
    assert metadata["fallbacks"] == ["none of note"]


def test_a_table_is_a_folder_of_parts_of_a_fixed_number_of_rows(tmp_path):
    one = tmp_path / "one.parquet"
    write_table(one, TEXTS, rows(), PROVENANCE)
    write_table(tmp_path / "whole", TEXTS, rows(), PROVENANCE)
    for step in (1, 3, 20):
        many = written(tmp_path / "many", step)
        assert [part.name for part in parts_of(many)] == [f"part-0000{number}.parquet" for number in range(4)]
        assert [pq.read_metadata(part).num_rows for part in parts_of(many)] == [6, 6, 6, 2]
        assert [part.read_bytes() for part in parts_of(many)] == [
            part.read_bytes() for part in parts_of(tmp_path / "whole")]
    assert parts_of(one) == [one]
    assert read_table(many, TEXTS).equals(read_table(one, TEXTS))
    assert read_metadata(many) == read_metadata(one) and read_metadata(many)["rows"] == tables.row_count(many) == 20
    assert tables.column_names(many) == tables.column_names(one)
    assert [batch.num_rows for batch in read_batches(many, TEXTS, rows=4)] == [4, 2, 4, 2, 4, 2, 2]
    assert [read_metadata(part)["rows"] for part in parts_of(many)] == [6, 6, 6, 2]
    for other in (pd.read_parquet(many), duckdb.sql(f"FROM read_parquet('{many}/*.parquet')").df()):
        assert other.equals(pd.read_parquet(one))


def test_wrong_columns_repeated_keys_and_rows_out_of_order_are_refused(tmp_path):
    with pytest.raises(ValueError, match="columns .* instead of"):
        tables.as_table(TEXTS, rows().drop("language"))
    with pytest.raises(ValueError, match="is not unique"):
        tables.as_table(TEXTS, pa.concat_tables([rows(0, 2), rows(1, 2)]))
    with pytest.raises(ValueError, match=r"edges: key .* is not unique"):
        tables.as_table(EDGES, {"target": [0, 0], "source": [1, 1], "sign": [1, 1], "count": [1, 2]})
    assert tables.as_table(EDGES, {"target": [0, 0], "source": [1, 1], "sign": [1, -1], "count": [1, 2]}).num_rows == 2
    path = tmp_path / "texts"
    with pytest.raises(ValueError, match="rows after"), tables.table_writer(path, TEXTS, PROVENANCE) as writer:
        writer.write(rows(4, 8))
        writer.write(rows(0, 2))


def test_a_failing_writer_leaves_the_old_artifact_and_nothing_else(tmp_path):
    texts, file, folder = written(tmp_path / "texts"), tmp_path / "x.json", tmp_path / "model"
    before = read_table(texts)
    write_json(file, {"a": 1})
    for content in ("one", "two"):
        with atomic_folder(folder) as temporary:
            (temporary / content).write_text(content)
    with pytest.raises(RuntimeError), tables.table_writer(texts, TEXTS, PROVENANCE) as writer:
        writer.write(rows(0, 9))
        raise RuntimeError
    with pytest.raises(RuntimeError), atomic_file(file) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    with pytest.raises(RuntimeError), atomic_folder(folder) as temporary:
        (temporary / "three").write_text("three")
        raise RuntimeError
    assert read_table(texts).equals(before) and json.loads(file.read_text()) == {"a": 1}
    assert [item.name for item in folder.iterdir()] == ["two"]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["model", "texts", "x.json"]
    # Files of a killed writer are removed by the next.
    (tmp_path / ".x.json.abcdefgh.tmp").write_text("half")
    (tmp_path / ".model.abcdefgh.old").mkdir()
    (tmp_path / ".x.json.abc.tmp").write_text("not ours")
    write_json(file, {})
    with atomic_folder(folder):
        pass
    assert sorted(item.name for item in tmp_path.iterdir()) == [".x.json.abc.tmp", "model", "texts", "x.json"]


def test_a_lost_part_or_another_schema_is_named(tmp_path):
    path = written(tmp_path / "texts")
    last, lost = path / "part-00003.parquet", path / "part-00001.parquet"
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(InputError, match=r"texts: has 3 parts of more: the last ones are missing. Remove .* run its"):
        read_table(path)
    last.write_bytes(content)
    other = lost.read_bytes()
    lost.unlink()
    with pytest.raises(InputError, match=r"part-00001.parquet: this part of the table is missing. Remove .* again"):
        tables.row_count(path)
    pq.write_table(pa.table({"text_id": [6]}), lost)
    with pytest.raises(InputError, match=r"part-00001.parquet: .*its columns are not those of part-00000.parquet"):
        read_table(path)
    lost.write_bytes(other[:-9])
    with pytest.raises(InputError, match=r"part-00001.parquet: not a readable Parquet file"):
        list(read_batches(path, TEXTS))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match=r"none/part-00000.parquet: this part of the table is missing"):
        read_table(tmp_path / "none")
    with pytest.raises(InputError, match="no such artifact.*keycontrast run"):
        read_table(tmp_path / "none.parquet")


@pytest.mark.parametrize("single", [True, False])
def test_every_bit_of_a_table_is_read_as_written_or_named(tmp_path, single):
    """But for the columns' descriptions: a damaged byte never gives another value."""
    path = tmp_path / ("texts.parquet" if single else "texts")
    write_table(path, TEXTS, rows(0, 8), PROVENANCE)
    file, expected = parts_of(path)[-1], read_table(path)
    content = file.read_bytes()
    errors = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        for read in (lambda: read_table(path), lambda: pa.concat_tables(read_batches(path, TEXTS)),
                     lambda: read_table(path, filters=pa.compute.field("text_id") >= 0)):
            try:
                table = read()
            except InputError as error:
                errors += 1
                assert str(path) in str(error)
            else:
                assert table.to_pydict() == expected.to_pydict(), place
    assert errors > len(content) / 3


@pytest.mark.parametrize("columns", [None, ["text"]])
def test_a_missing_column_or_one_of_another_type_is_refused(tmp_path, columns):
    path = tmp_path / "texts.parquet"
    table = rows()
    pq.write_table(table.set_column(1, "text", table["text"].cast("binary")), path)
    with pytest.raises(InputError, match=r"column 'text' is of type binary, not string.* run its stage again"):
        read_table(path, TEXTS, columns)
    assert read_table(path, TEXTS, ["text_id"]).num_rows == 20
    pq.write_table(table.set_column(1, "text", table["text"].cast("large_string")), path)
    assert read_table(path, TEXTS).num_rows == 20   # large offsets make no other type
    pq.write_table(table.drop("text"), path)
    with pytest.raises(InputError, match="column 'text' is missing"):
        read_table(path, TEXTS, columns)


PAIRS = pa.schema([("text_id", pa.int64()), ("pair", pa.int64()), ("score", pa.list_(pa.float32()))])


def some_pairs(count=300):
    keys = np.unique(np.random.default_rng(1).integers(0, 40, (count, 2)), axis=0)
    return keys, pa.table([pa.array(keys[:, 0]), pa.array(keys[:, 1]), pa.array([[float(key.sum())] for key in keys])],
                          schema=PAIRS)


def test_rows_by_id_come_in_the_order_of_the_ids(tmp_path):
    texts = Lookup.read(written(tmp_path / "texts"), TEXTS, ["text_id", "text"])
    wanted = np.array([7, 3, 7, 19])
    assert texts.of(wanted)["text"].to_pylist() == [STRINGS[number] for number in wanted]
    assert texts.of(wanted[:0]).column_names == ["text_id", "text"]
    with pytest.raises(InputError, match=r"table texts: text 20 has no row \(and 1 more\).*ingest and annotate again"):
        texts.of(np.array([3, 20, 600, 20]))
    assert Lookup("texts", rows(0, 0)).places(np.array([1])).tolist() == [-1]


def test_rows_by_two_ids_and_all_rows_of_an_id():
    keys, table = some_pairs()
    place = {tuple(key): row for row, key in enumerate(keys.tolist())}
    every = np.array([(text, pair) for text in range(-1, 42) for pair in range(-1, 42)])
    assert Lookup("attribution", table, "pair").places(every[:, 0], every[:, 1]).tolist() == [
        place.get(tuple(key), -1) for key in every.tolist()]
    groups = Lookup("textrank", table, unique=False)
    for ids in (np.unique(keys[:, 0])[::-3], keys[:0, 0]):
        found = groups.all_of(ids)
        assert list(zip(found["text_id"].to_pylist(), found["pair"].to_pylist(), strict=True)) == [
            tuple(key) for text in ids for key in keys.tolist() if key[0] == text]
    for refused, second in ((table.take(pa.array([1, 0])), "pair"), (table.take(pa.array([0, 0])), "pair"),
                            (table, None)):
        with pytest.raises(InputError, match="table attribution: not sorted by text_id.* or a row is repeated"):
            Lookup("attribution", refused, second)


def test_a_manifest_has_every_finished_file_with_its_hash_and_the_rows_of_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny_project.write_params(tmp_path)
    assert manifest.main(["tiny"]) == 1
    assert "artifacts/data/tiny: no artifacts there. Make them with `keycontrast run`." in capsys.readouterr().err
    paths = DatasetPaths("tiny")
    write_table(paths.table("texts"), TEXTS, rows(0, 2), PROVENANCE)
    paths.pair_classifier.mkdir()
    (paths.pair_classifier / "config.json").write_text("{}")
    (paths.folder / ".edges.parquet.x.tmp").write_text("half")
    assert manifest.main(["tiny"]) == 0
    content = json.loads(manifest_path("sample", "data", "tiny").read_text())
    texts, config = content["artifacts"].values()
    assert content["name"] == "tiny" and list(content["artifacts"]) == [
        "artifacts/data/tiny/items/texts/part-00000.parquet", "artifacts/data/tiny/pair_classifier/config.json"]
    assert config == {"bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    assert texts["rows"] == 2 and texts["metadata"]["fallbacks"] == ["none of note"]
