"""One gate for texts of all formats, and nothing that a text holds steers a terminal or a spreadsheet."""

import io
import json

import pandas as pd
import pytest

from keycontrast.errors import InputError
from keycontrast.reading import LONGEST_TEXT
from keycontrast.texts import FileOptions, texts_from
from pipeline.sql import Answer, write_csv
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset
from stages.ingest.parsing import RowError
from stages.ingest.rows import RowCheck
from tests.harness import inputs
from tests.harness.cases import draw

BAD = [("a\0b", "NUL byte: "), ("x" * (LONGEST_TEXT + 1), "too long: source has 1,000,001 characters")]


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize(("text", "message"), BAD, ids=["nul", "long"])
def test_every_format_refuses_the_same_texts_with_file_and_row(tmp_path, form, text, message):
    file, frame = tmp_path / f"a.{form}", pd.DataFrame({"source": ["a", text], "target": ["b", "c"]})
    if form == "parquet":
        frame.to_parquet(file)
    elif form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    else:
        frame.to_csv(file, index=False, sep="," if form == "csv" else "\t")
    dataset = Dataset(source=str(file), columns={"source": "source", "target": "target", "label": None})
    check = RowCheck(dataset)
    first, second = read_rows(dataset)
    assert check(first).surfaces[0] == "a" and (second.file, second.row) == (file.name, 2)
    with pytest.raises(RowError, match=message):
        check(second)
    with pytest.raises(InputError, match=f"{file.name}, row 2"):
        list(texts_from([], file, io.StringIO(), FileOptions("source")))


@pytest.mark.parametrize(("separator", "quoting"), [(";", "standard"), ("|", "none"), ("\t", "standard")])
def test_columns_may_be_parted_by_what_the_params_say(tmp_path, separator, quoting):
    file = tmp_path / "a.csv"
    file.write_text("source,target\na, b,c\n".replace(",", separator, 1).replace(",c", f"{separator}c"))
    columns = {"source": "source", "target": "target", "label": None}
    dataset = Dataset(source=str(file), columns=columns, separator=separator, quoting=quoting)
    (row,) = read_rows(dataset)
    assert (row.content, row.problem) == ({"source": "a, b", "target": "c"}, "")
    if separator == ";":
        with pytest.raises(InputError, match="holds semicolons. .*set the data set's `separator` to ';'"):
            list(read_rows(Dataset(source=str(file), columns=columns)))


def test_no_text_of_an_answer_is_a_formula():
    stream = io.StringIO()
    write_csv(Answer(["=a"], iter([("=1+1",), ("@x",), (-1,), ("a=b",)]), []), stream)
    assert stream.getvalue().splitlines() == ["'=a", "'=1+1", "'@x", "-1", "a=b"]


def test_damaged_files_are_read_or_refused_row_by_row():
    verdicts = [inputs.damaged_input(draw(11, number)) for number in range(120)]
    assert [verdict for verdict in verdicts if verdict.fault] == []
    assert sum("cannot be written" in verdict.what for verdict in verdicts) < 40
