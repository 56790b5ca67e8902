"""Artifacts: whole or not at all, sorted, described, the same bytes."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keycontrast.errors import InputError
from keycontrast.files import atomic_file, atomic_folder
from pipeline.schemas import SCHEMAS
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, read_table, write_json, write_table

PROVENANCE = Provenance("ingest@sample", "0123")


def texts(ids=(2, 0, 1)):
    return pd.DataFrame({"text_id": list(ids), "text": [f"text {i}" for i in ids], "language": "en"})


def test_rows_are_sorted_described_and_carry_their_provenance(tmp_path):
    path = tmp_path / "deep" / "texts.parquet"
    write_table(path, SCHEMAS["texts"], texts(), Provenance("ingest@s", "ab", fallbacks=["none of note"]))
    assert read_frame(path, SCHEMAS["texts"])["text_id"].tolist() == [0, 1, 2]
    schema = pq.read_schema(path)
    assert schema.field("text").metadata[b"description"] == b"the text as it first appeared"
    assert b"pandas" not in pq.read_metadata(path).metadata
    metadata = read_metadata(path)
    assert (metadata["stage"], metadata["params_hash"], metadata["rows"]) == ("ingest@s", "ab", 3)
    assert metadata["fallbacks"] == ["none of note"]


def test_the_same_rows_give_the_same_bytes_in_any_order(tmp_path):
    write_table(tmp_path / "a.parquet", SCHEMAS["texts"], texts((0, 1, 2)), PROVENANCE)
    write_table(tmp_path / "b.parquet", SCHEMAS["texts"], texts((2, 1, 0)), PROVENANCE)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_wrong_columns_and_repeated_keys_are_refused():
    with pytest.raises(ValueError, match="columns .* instead of"):
        as_table(SCHEMAS["texts"], texts().drop(columns="language"))
    with pytest.raises(ValueError, match="is not unique"):
        as_table(SCHEMAS["texts"], texts((1, 1)))
    with pytest.raises(ValueError, match=r"edges: key .* is not unique"):
        as_table(SCHEMAS["edges"], {"target": [0, 0], "source": [1, 1], "sign": [1, 1], "count": [1, 2]})
    signed = {"target": [0, 0], "source": [1, 1], "sign": [1, -1], "count": [1, 2]}
    assert as_table(SCHEMAS["edges"], signed).num_rows == 2


def test_reading_names_what_is_wrong(tmp_path):
    with pytest.raises(InputError, match="no such artifact.*keycontrast run"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_table(tmp_path / "bad.parquet")
    pd.DataFrame({"text_id": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError, match="column 'text' is missing"):
        read_table(tmp_path / "other.parquet", SCHEMAS["texts"])


@pytest.mark.parametrize("columns", [None, ["text"]])
def test_a_column_of_another_type_is_refused(tmp_path, columns):
    path = tmp_path / "texts.parquet"
    write_table(path, SCHEMAS["texts"], texts(), PROVENANCE)
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "text", table["text"].cast("binary")), path)
    with pytest.raises(InputError, match=r"column 'text' is of type binary, not string.* run its stage again"):
        read_table(path, SCHEMAS["texts"], columns)
    assert read_table(path, SCHEMAS["texts"], ["text_id"]).num_rows == 3


def test_texts_with_large_offsets_are_texts(tmp_path):
    path = tmp_path / "tokens.parquet"
    schema = SCHEMAS["tokens"]
    empty = pq.ParquetFile(write_to(path, schema)).read()
    large = pa.schema([
        (field.name, pa.large_list(pa.large_string())) if field.type == pa.list_(pa.string()) else
        (field.name, pa.large_string()) if field.type == pa.string() else field for field in empty.schema])
    assert large.types != empty.schema.types
    pq.write_table(empty.cast(large), path)
    assert read_table(path, schema).num_rows == 0


def write_to(path, schema):
    write_table(path, schema, {name: [] for name, _, _ in schema.fields}, PROVENANCE)
    return path


def test_a_failing_writer_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), atomic_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"a": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["x.json"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "model"
    for content in ("one", "two"):
        with atomic_folder(path) as temporary:
            (temporary / content).write_text(content)
    with pytest.raises(RuntimeError), atomic_folder(path) as temporary:
        (temporary / "three").write_text("three")
        raise RuntimeError
    assert [item.name for item in path.iterdir()] == ["two"]
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


def test_what_a_killed_writer_left_is_cleared_away(tmp_path):
    (tmp_path / ".x.json.abc.tmp").write_text("half")
    (tmp_path / ".model.abc.old").mkdir()
    (tmp_path / ".xyjson.abc.tmp").write_text("not ours")
    write_json(tmp_path / "x.json", {})
    with atomic_folder(tmp_path / "model"):
        pass
    assert sorted(item.name for item in tmp_path.iterdir()) == [".xyjson.abc.tmp", "model", "x.json"]


def test_every_column_of_every_schema_is_described():
    for schema in SCHEMAS.values():
        assert schema.description.endswith(".")
        assert set(schema.key) <= {name for name, _, _ in schema.fields}
        assert all(text for _, _, text in schema.fields)
