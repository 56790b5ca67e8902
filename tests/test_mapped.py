"""Tables that are looked into by id, without being held in memory."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from keycontrast.errors import InputError
from stages.common import mapped as module
from stages.common.columns.texts import TEXTS
from stages.common.columns.tokens import TOKENS
from stages.common.mapped import MappedTexts, copied, grouped, mapped
from stages.common.parts import Layout
from stages.common.tables import Provenance
from stages.common.writing import table_writer

COLUMNS = ["text_id", "text"]


def written(path, ids, layout=None):
    with table_writer(path, TEXTS, Provenance("", ""), layout) as writer:
        for start in range(0, len(ids), 7000):
            some = ids[start:start + 7000]
            writer.write(pa.table({"text_id": some, "text": [f"text {number}" for number in some],
                                   "language": ["en"] * len(some)}, schema=TEXTS.arrow()))
    return path


@pytest.mark.parametrize("layout", [None, Layout(9000)])
def test_rows_are_those_asked_for_in_that_order(tmp_path, layout):
    path = written(tmp_path / "texts.parquet", list(range(0, 60000, 3)), layout)
    wanted = 3 * np.random.default_rng(0).integers(0, 20000, 5000)
    with mapped(path, TEXTS, COLUMNS, tmp_path / "scratch") as texts:
        found = texts.of(wanted)
        assert found["text_id"].to_pylist() == wanted.tolist()
        assert found["text"].to_pylist() == [f"text {number}" for number in wanted]
        assert found.column_names == COLUMNS
        assert texts.of(np.zeros(0, dtype=np.int64)).num_rows == 0
        one = MappedTexts(texts)
        assert len(one) == 20000 and one[59997] == "text 59997" and list(one)[:3] == [0, 3, 6]
        assert 4 not in one and 60000 not in one and -3 not in one
        with pytest.raises(InputError, match=r"texts.parquet: text 1 has no row \(and 1 more\)"):
            texts.of(np.array([3, 1, 60000, 1]))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_an_empty_table_has_no_row(tmp_path):
    with mapped(written(tmp_path / "texts.parquet", []), TEXTS, COLUMNS, tmp_path / "scratch") as texts:
        assert texts.of(np.zeros(0, dtype=np.int64)).column_names == COLUMNS and 0 not in MappedTexts(texts)


def test_another_table_or_order_is_named(tmp_path):
    path = written(tmp_path / "texts.parquet", [1, 2])
    with pytest.raises(InputError, match="column 'token' is missing"), mapped(path, TOKENS, ["text_id", "token"],
                                                                              tmp_path / "scratch"):
        pass
    pa.parquet.write_table(pa.table({"text_id": [2, 1], "text": ["b", "a"], "language": ["en"] * 2},
                                    schema=TEXTS.arrow()), path)
    with pytest.raises(InputError, match=r"texts.parquet: not sorted by text_id"), mapped(path, TEXTS, COLUMNS,
                                                                                          tmp_path / "scratch"):
        pass
    assert list((tmp_path / "scratch").iterdir()) == []


PAIRS = pa.schema([("text_id", pa.int64()), ("pair", pa.int64()), ("score", pa.list_(pa.float32()))])


def some_pairs(count=300):
    """Rows of random pairs, by text and pair, in uneven batches."""
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(0, 40, (count, 2)), axis=0)
    rows = pa.table([pa.array(keys[:, 0]), pa.array(keys[:, 1]), pa.array([[float(key.sum())] for key in keys])], PAIRS)
    cuts = [0, 1, 1, 60, rows.num_rows]
    return keys, [rows.slice(start, end - start) for start, end in zip(cuts, cuts[1:], strict=False)]


@pytest.mark.parametrize("size", [1, 1000, 1 << 23])
def test_rows_by_two_ids(size, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BYTES", size)
    keys, batches = some_pairs()
    place = {tuple(key): row for row, key in enumerate(keys.tolist())}
    every = np.array([(text, pair) for text in range(-1, 42) for pair in range(-1, 42)])
    with copied("attribution", PAIRS, batches, tmp_path / "new" / "pairs.arrow", "pair") as table:
        found = table.places(every[:, 0], every[:, 1])
        assert found.tolist() == [place.get(tuple(key), -1) for key in every.tolist()]
        taken = table.at(found[found >= 0][::-1])
        assert taken["score"].to_pylist() == [[float(sum(key))] for key in reversed(place)]
        assert pa.concat_tables(table.batches()).combine_chunks().equals(pa.concat_tables(batches).combine_chunks())
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("size", [1, 1 << 23])
def test_all_rows_of_an_id_that_several_may_have(size, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BYTES", size)
    keys, batches = some_pairs()
    with grouped("textrank", PAIRS, batches, tmp_path / "groups.arrow") as groups:
        assert groups.ids.tolist() == np.unique(keys[:, 0]).tolist()
        for ids in (groups.ids[::-3], groups.ids[:1], groups.ids[:0]):
            expected = [key for text in ids for key in keys.tolist() if key[0] == text]
            found = groups.of(ids)
            assert list(zip(found["text_id"].to_pylist(), found["pair"].to_pylist(), strict=True)) == list(
                map(tuple, expected))
    with grouped("textrank", PAIRS, [], tmp_path / "groups.arrow") as groups:
        assert groups.of(groups.ids).num_rows == len(groups.ids) == 0


def test_rows_that_do_not_come_by_their_ids_are_refused(tmp_path):
    _, batches = some_pairs()
    last = batches[-1].slice(batches[-1].num_rows - 1)
    for refused, rows_by, message in (
            (batches[::-1], partial(copied, second="pair"), "attribution.parquet: not sorted by text_id and pair"),
            ([*batches, last], partial(copied, second="pair"), "attribution.parquet: .* or a row stands twice"),
            (batches, copied, "attribution.parquet: not sorted by text_id, or a row stands twice"),
            (batches[::-1], grouped, "attribution.parquet: not sorted by text_id: written by another version")):
        with pytest.raises(InputError, match=message), rows_by("attribution", PAIRS, refused, tmp_path / "rows.arrow"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_an_empty_table_has_no_pair(tmp_path):
    with copied("attribution", PAIRS, [], tmp_path / "rows.arrow", "pair") as table:
        assert table.places(np.array([1, 2]), np.array([3, 4])).tolist() == [-1, -1] and list(table.batches()) == []
