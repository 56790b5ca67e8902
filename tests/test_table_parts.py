"""Tables as folders of parts: read as one table, whole or not at all, and every damage is named."""


import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keycontrast.errors import InputError
from stages.common import tables
from stages.common.lookup import Lookup
from stages.common.schemas import TEXTS
from stages.common.tables import (
    Provenance,
    column_names,
    parts_of,
    read_batches,
    read_metadata,
    read_table,
    row_count,
    table_writer,
    write_table,
)

STRINGS = [f"The big dogs bark {number}. {'x' * (number % 7)}" for number in range(20)]
PROVENANCE = Provenance("ingest@toy", "h", counts={"n": 1})


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(tables, "PART_ROWS", 6)


def rows(start=0, stop=20):
    return pa.table({"text_id": range(start, stop), "text": STRINGS[start:stop], "language": ["en"] * (stop - start)},
                    schema=TEXTS.arrow())


def written(path, step=3):
    with table_writer(path, TEXTS, PROVENANCE) as writer:
        for start in range(0, len(STRINGS), step):
            writer.write(rows(start, min(start + step, len(STRINGS))))
    return path


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
    assert read_metadata(many) == read_metadata(one) and read_metadata(many)["rows"] == row_count(many) == 20
    assert column_names(many) == column_names(one)
    assert [batch.num_rows for batch in read_batches(many, TEXTS, rows=4)] == [4, 2, 4, 2, 4, 2, 2]
    assert [read_metadata(part)["rows"] for part in parts_of(many)] == [6, 6, 6, 2]
    assert all(pq.read_schema(part).field("text").metadata[b"description"] for part in parts_of(many))
    for other in (pd.read_parquet(many), duckdb.sql(f"FROM read_parquet('{many}/*.parquet')").df()):
        assert other.equals(pd.read_parquet(one))


def test_a_table_appears_whole_or_not_at_all(tmp_path):
    path = written(tmp_path / "texts")
    before = read_table(path)
    with pytest.raises(RuntimeError), table_writer(path, TEXTS, PROVENANCE) as writer:
        writer.write(rows(0, 9))
        raise RuntimeError
    assert read_table(path).equals(before) and [item.name for item in tmp_path.iterdir()] == ["texts"]
    with pytest.raises(ValueError, match="rows after"), table_writer(path, TEXTS, PROVENANCE) as writer:
        writer.write(rows(4, 8))
        writer.write(rows(0, 2))


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
        row_count(path)
    pq.write_table(pa.table({"text_id": [6]}), lost)
    with pytest.raises(InputError, match=r"part-00001.parquet: .*its columns are not those of part-00000.parquet"):
        read_table(path)
    lost.write_bytes(other[:-9])
    with pytest.raises(InputError, match=r"part-00001.parquet: not a readable Parquet file"):
        list(read_batches(path, TEXTS))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match=r"none/part-00000.parquet: this part of the table is missing"):
        read_table(tmp_path / "none")


@pytest.mark.parametrize("single", [True, False])
def test_every_bit_of_a_table_is_read_as_written_or_named(tmp_path, single, monkeypatch):
    """But for the columns' descriptions: each byte of a part in turn, and what reads it never gives another value."""
    path = tmp_path / ("texts.parquet" if single else "texts")
    write_table(path, TEXTS, rows(0, 8), PROVENANCE)
    file, expected = parts_of(path)[-1], read_table(path)
    content = file.read_bytes()
    named = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        for read in (lambda: read_table(path), lambda: pa.concat_tables(read_batches(path, TEXTS)),
                     lambda: read_table(path, filters=pa.compute.field("text_id") >= 0)):
            try:
                found = read()
            except InputError as error:
                named += 1
                assert str(path) in str(error)
            else:
                assert found.to_pydict() == expected.to_pydict(), place
    assert named > len(content) / 3


# Rows by id

PAIRS = pa.schema([("text_id", pa.int64()), ("pair", pa.int64()), ("score", pa.list_(pa.float32()))])


def some_pairs(count=300):
    keys = np.unique(np.random.default_rng(1).integers(0, 40, (count, 2)), axis=0)
    return keys, pa.table([pa.array(keys[:, 0]), pa.array(keys[:, 1]), pa.array([[float(key.sum())] for key in keys])],
                          schema=PAIRS)


def test_rows_by_id_are_those_asked_for_in_that_order(tmp_path):
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


def test_rows_that_do_not_come_by_their_ids_are_refused():
    _, table = some_pairs()
    for refused, second, message in (
            (table.take(pa.array([1, 0])), "pair", "table attribution: not sorted by text_id and pair"),
            (table.take(pa.array([0, 0])), "pair", "table attribution: .* or a row stands twice"),
            (table, None, "table attribution: not sorted by text_id, or a row stands twice")):
        with pytest.raises(InputError, match=message):
            Lookup("attribution", refused, second)
