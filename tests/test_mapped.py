"""Tables that are looked into by id, without being held in memory."""

import numpy as np
import pyarrow as pa
import pytest

from stages.artifacts.mapped import MappedTexts, mapped
from stages.artifacts.parts import Layout
from stages.artifacts.tables import Provenance
from stages.artifacts.writing import table_writer
from stages.data.schemas.texts import TEXTS
from stages.data.schemas.tokens import TOKENS
from stages.runtime.errors import InputError

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
