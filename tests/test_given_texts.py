"""Texts as arguments, in files of lines and tables, and on standard input; what is wrong with them is named."""

import gzip
import io
import json
import os

import pandas as pd
import pytest

from keycontrast.errors import InputError
from keycontrast.texts import FileOptions, texts_from

TEXTS = ["Who was it?", "Where, and when?", "caf\u00e9"]


def read(file, **options):
    return [text for _, text in texts_from([], file, io.StringIO(), FileOptions(**options))]


@pytest.fixture
def write(tmp_path):
    def made(name, content):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file
    return made


def test_texts_come_from_arguments_lines_or_standard_input(write):
    file = write("in.txt", "one\n\n two \r\nthree")
    assert list(texts_from(["a text", " another "], None, io.StringIO())) == [(0, "a text"), (1, "another")]
    assert read(file) == ["one", "two", "three"]
    assert list(texts_from([], None, io.StringIO("x\n\ny\n"))) == [(0, "x"), (2, "y")]


def test_tables_have_their_texts_in_a_column(tmp_path, write):
    table = pd.DataFrame({"number": [1, 2, 3], "text": TEXTS, "question": TEXTS[::-1]})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    table.to_json(tmp_path / "a.jsonl", orient="records", lines=True, force_ascii=False)
    table.to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.csv.gz"):
        assert read(tmp_path / name) == TEXTS
        assert read(tmp_path / name, column="question") == TEXTS[::-1]


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.txt", b"one\ncaf\xe9\n", r"a\.txt: encoding: not valid UTF-8: byte 0xe9 in line 2.*--encoding"),
    ("a.txt", b"\n \n", r"a\.txt: the file has no text"),
    ("a.csv", "question\nWho?\n", r"a\.csv: no column 'text' \(--column\); valid names: question"),
    ("a.csv", "id,text\n1,Who?\n2,\n", r"a\.csv, row 2: column 'text' is empty\. Fill it in, or leave such rows out"),
    ("a.csv", 'text\nWho "is" it?\n', r"row 1: quotation mark: .* double the mark; or, .* --quoting none$"),
    ("a.csv", 'id,text\n1,Who?\n2,"is\nit\n', r"a\.csv: lines 3 to 4: .* Double .* --quoting none\.$"),
    ("a.jsonl", '{"text": "a"}\n{"text": 3}\n', r"a\.jsonl, row 2: column 'text' holds 3, and a text is needed"),
    ("a.jsonl", '{"text": "a"}\n{"text": null}\n', "row 2: column 'text' has no value"),
    ("a.jsonl", '{"text": "\\ud800"}\n', "row 1: column 'text' holds half a surrogate pair"),
    ("a.txt", "One.\rTwo.\r", r"line ending: a carriage return \(.r\) without a line feed in line 1"),
    ("a.jsonl", '{"txt": "a"}\n', r"row 1: no column 'text' \(--column\); did you mean 'txt'"),
    ("a.parquet", b"PAR", r"a\.parquet: not a readable Parquet file")])
def test_files_and_rows_that_cannot_be_read_are_named(write, name, content, message):
    with pytest.raises(InputError, match=message) as found:
        read(write(name, content))
    assert "data set" not in str(found.value) and "`files`" not in str(found.value)


def test_rows_before_a_broken_one_are_given(write):
    rows = texts_from([], write("a.jsonl", json.dumps({"text": "a"}) + "\nx\n"), io.StringIO())
    assert next(rows) == (0, "a")
    with pytest.raises(InputError, match="row 2"):
        next(rows)


def test_a_pipe_in_place_of_a_file_is_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: a pipe; pass it as standard input"):
        read(tmp_path / "pipe")
