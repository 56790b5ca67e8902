"""Readers: trouble inside a file is named with its place and the remedy, never guessed away."""

import csv
import gzip
import io
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keycontrast.errors import InputError
from keycontrast.reading import is_unicode
from stages.ingest.params import Dataset
from stages.ingest.reading.files import read_rows
from stages.ingest.reading.rows import RawRow

PAIRS = {"source": "q1", "target": "q2", "label": "dup"}
LABELLED = {"text": "sentence", "label": "class"}


def dataset(source, layout="pairs", columns=None, **more):
    columns = (PAIRS if layout == "pairs" else {}) if columns is None else columns
    return Dataset(source=str(source), layout=layout, columns=columns, **more)


def read(folder, name, content, **more):
    """The rows of one file with ``content``."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_rows(dataset(folder / name, **more)))


def contents(rows):
    return [dict(row.content) for row in rows]


def problems(rows):
    return {row.row: row.problem for row in rows if row.problem}


# Encodings


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "UTF8"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_files_of_another_encoding_are_read_if_it_is_named(tmp_path, encoding, name):
    text = "q1,q2,dup\ncafé,thé,1\n" if name == "t.csv" else '{"q1":"café","q2":"thé","dup":"1"}\n'
    rows = read(tmp_path, name, text.encode(encoding), encoding=encoding)
    assert contents(rows) == [{"source": "café", "target": "thé", "label": "1"}]


def test_chinese_in_its_national_encoding(tmp_path):
    rows = read(tmp_path, "t.tsv", "q1\tq2\tdup\n你好\t再见\t0\n".encode("gb18030"), encoding="gb18030")
    assert contents(rows) == [{"source": "你好", "target": "再见", "label": "0"}]


def test_an_encoding_that_does_not_exist_is_refused_with_the_nearest():
    for name, message in (("latin9x", "no encoding of text is called 'latin9x'; did you mean 'latin_1'"),
                          ("rot13", "no encoding of text is called 'rot13'"), ("hex", "called 'hex'")):
        with pytest.raises(ValueError, match=message):
            dataset("x", encoding=name)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    for encoding in ("utf-8", "utf-8-sig"):
        for name, content in (("t.csv", b"q1,q2,dup\nx,y,1\n"), ("t.jsonl", b'{"q1":"x","q2":"y","dup":"1"}\n')):
            rows = read(tmp_path, name, b"\xef\xbb\xbf" + content, encoding=encoding)
            assert contents(rows) == [{"source": "x", "target": "y", "label": "1"}]


def test_undecodable_bytes_are_placed(tmp_path):
    rows = read(tmp_path, "t.csv", b'q1,q2,dup\nfine,"two\nlines",1\nx,"\xc3\xa9\ncaf\xe9",1\n\nlast,one,0\n')
    assert problems(rows) == {
        2: "encoding: not valid UTF-8: byte 0xe9 in line 5, column 'q2'. If the file has another encoding, "
           "name it as the data set's `encoding` (latin-1, cp1252, utf-16, gb18030, ...)."}
    assert rows[1].raw == 'x,"é\ncaf\\xe9",1'
    assert [row.row for row in rows] == [1, 2, 4]
    rows = read(tmp_path, "t.jsonl", b' {"q1":"\xe9","q2":"a","dup":1}\n{"q1":"b","q2":"c","dup":1}')
    assert problems(rows)[1].startswith("encoding: not valid UTF-8: byte 0xe9 in line 1. If")
    rows = read(tmp_path, "t.tsv", b"q1\tq2\tdup\n\xb5\xa1\tb\xff\t1\n", encoding="gb18030")
    assert problems(rows)[1].startswith("encoding: not valid GB18030: byte 0xff in line 2, column 'q2'")


def test_bytes_that_cannot_be_passed_over_end_the_reading(tmp_path):
    content = "q1,q2,dup\na,b,1\n".encode("utf-16") + b"\x00\xd8x\x00"
    with pytest.raises(InputError, match=r"t\.csv: not valid utf-16 \(.*If the file has another encoding"):
        read(tmp_path, "t.csv", content, encoding="utf-16")


@pytest.mark.parametrize(("content", "encoding", "message"), [
    ("q1".encode("utf-16"), "utf-8", "begins with the mark of UTF-16, but the data set's `encoding` is utf-8. "
                                     "Set it to utf-16"),
    ("q1".encode("utf-32"), "utf-8", "begins with the mark of UTF-32.*Set it to utf-32"),
    (b"\xfe\xff\0q\0001", "latin-1", "begins with the mark of UTF-16"),
    (b"\xef\xbb\xbfq1", "cp1252", "begins with the mark of UTF-8, but the data set's `encoding` is cp1252"),
    ("q1".encode("utf-16-le"), "utf-16", "does not begin with the mark .* to utf-16-le or utf-16-be"),
    ("q1,q2,dup\n".encode("utf-16-le"), "utf-8", "header holds NUL bytes. If the file is UTF-16 without a mark, set")])
def test_marks_of_encodings_are_believed_and_named(tmp_path, content, encoding, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, "t.csv", content, encoding=encoding)


def test_a_mark_at_the_beginning_of_a_later_line_is_named(tmp_path):
    mark = "\ufeff"
    rows = read(tmp_path, "t.csv", f"q1,q2,dup\na,b,1\n{mark}q1,q2,dup\nc,d{mark}d,1\n")
    assert problems(rows) == {2: "byte order mark: line 3 begins with one, as where files were put one behind the "
                                 "other. Remove it, and any header that follows it."}
    rows = read(tmp_path, "t.jsonl", f'{{"q1":"a","q2":"b","dup":1}}\n{mark}{{"q1":"c","q2":"d","dup":1}}\n')
    assert list(problems(rows)) == [2]


def test_nul_bytes_are_named(tmp_path):
    rows = read(tmp_path, "t.csv", b"q1,q2,dup\na,b\0,1\n")
    assert problems(rows) == {1: "NUL byte: in line 2, column 'q2'. Text holds none; if the file is UTF-16, "
                                 "name it as the data set's `encoding`."}
    rows = read(tmp_path, "t.jsonl", b'{"q1":"a\0","q2":"b","dup":1}\n')
    assert problems(rows)[1].startswith("NUL byte: in line 1.")


def test_what_cannot_be_written_as_utf_8_is_told_from_what_can():
    assert is_unicode("é你\N{GRINNING FACE}") and not is_unicode("a\ud800")


# CSV and TSV


@pytest.mark.parametrize(("name", "content", "message"), [
    ("t.csv", "\n\n", "the file is empty"),
    ("t.csv", "q1,q2,dup\n", "header but no rows"),
    ("t.csv", "q1,q3,dup\na,b,1\n", r"no column 'q2' \(columns.target in the params\); valid names: dup, q1, q3"),
    ("t.csv", "q1,q2,q2,dup\na,b,c,1\n", "column 'q2' occurs 2 times in the header. Give each column a name"),
    ("t.csv", 'q1,q2,dup\na,"b,1\nc,d,1\ne,f,0\n', "lines 2 to 4: a quotation mark is not closed.* the data set's "
                                                   "`quoting: none`"),
    ("t.csv", 'q1,q2,dup\na,b,1\nc,"d,1\ne,"f",0\n', "lines 3 to 4: a quotation mark is not closed"),
    ("t.csv", "How are you?,What's up,1\na,b,0\n", r'no column .q1.* The first line is "How are you\?,What\'s up,1": '
                                                   r"if that is a row of data, put a line with the columns' names"),
    ("t.csv", "q1,q2,dup\ra,b,1\rc,d,0\r", r"the header cannot be read \(line ending: a carriage return \(\\r\) "
                                           r"without a line feed in line 1.* old Macintosh"),
    ("t.tsv", "q1,q2,dup\na,b,1\n", r"only one column was found, and its name holds commas. .* name it \.csv"),
    ("t.csv", "q1\tq2\tdup\na\tb\t1\n", r"its name holds tabs. .* name it \.tsv"),
    ("t.csv", "q1;q2;dup\na;b;1\n", "its name holds semicolons. .* `separator` to"),
    ("t.csv", '"q1,q2,dup\n', r"header cannot be read \(broken line: the quotation mark of the last field of line 1"),
])
def test_a_table_that_cannot_be_used_as_a_whole_is_named(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, name, content)


@pytest.mark.parametrize(("line", "problem"), [
    ("short,row", "broken line: 2 fields instead of 3 in line 3"),
    ("a,b,c,1", "broken line: 4 fields instead of 3 in line 3; fields that hold commas must be in quotation marks"),
    ('"a"b,c,1', "broken line: in line 3 a quoted field goes on after its closing mark (',' expected after '\"'); "
                 "double the quotation marks inside fields"),
    ('5" pipe,"c ""d""",1', "quotation mark: column 'q1' holds one in line 3, but is not quoted itself. Quote it and "
                            "double the mark; or, if marks are ordinary characters in this file, use the data set's "
                            "`quoting: none`"),
    ('"a ""x"" b",y"",1', "quotation mark: column 'q2' holds one in line 3, but is not quoted itself."),
    ("a\rb,c,1", "line ending: a carriage return (\\r) without a line feed in line 3; remove it"),
])
def test_broken_rows_of_tables_are_set_aside_with_the_reason(tmp_path, line, problem):
    rows = read(tmp_path, "t.csv", f"q1,q2,dup\nfine,good,1\n{line}\nlast,one,0\n")
    assert [row.row for row in rows] == [1, 2, 3]
    assert list(problems(rows)) == [2] and rows[1].problem.startswith(problem)
    assert rows[1].raw == rows[1].content == line


def test_a_mark_that_is_not_closed_in_the_last_line(tmp_path):
    rows = read(tmp_path, "t.csv", 'q1,q2,dup\na,b,1\nc,"d,1')
    assert problems(rows) == {2: "broken line: the quotation mark of the last field of line 3 is not closed"}


def test_rows_quoted_in_every_proper_way_are_taken(tmp_path):
    fields = ["", "a", 'x"y', '"', '""', ",", "\n", 'a,"b"\r\nc', "é", "a\rb", " "]
    rng = random.Random(5)
    table = [[rng.choice(fields) for _ in range(2)] + ["1"] for _ in range(300)]
    for quoting in (csv.QUOTE_ALL, csv.QUOTE_MINIMAL):
        for delimiter, name in ((",", "t.csv"), ("\t", "t.tsv")):
            sheet = io.StringIO()
            csv.writer(sheet, delimiter=delimiter, quoting=quoting).writerows([["q1", "q2", "dup"], *table])
            rows = read(tmp_path, name, sheet.getvalue())
            assert problems(rows) == {}
            assert [list(row.content.values()) for row in rows] == table


def test_line_feeds_with_and_without_a_carriage_return_are_the_same(tmp_path):
    for quoting in ("standard", "none"):
        rows = read(tmp_path, "t.tsv", "q1\tq2\tdup\r\na\tb\t1\r\nc\td\t0\ne\tf\t1", quoting=quoting)
        assert [tuple(row.content.values()) for row in rows] == [("a", "b", "1"), ("c", "d", "0"), ("e", "f", "1")]


def test_without_quoting_every_line_is_a_row(tmp_path):
    rows = read(tmp_path, "t.tsv", 'q1\tq2\tdup\n"a\tb "c"\t1\nx\ty\tz\t0\np\rq\tr\t1\n', quoting="none")
    assert rows[0].content == {"source": '"a', "target": 'b "c"', "label": "1"}
    assert problems(rows) == {
        2: "broken line: 4 fields instead of 3 in line 3; a field must not hold the separating tabs",
        3: "line ending: a carriage return (\\r) without a line feed in line 4; remove it"}


def test_long_documents_fit_into_a_field(tmp_path):
    long = "word " * 60_000
    rows = read(tmp_path, "t.csv", f'sentence,class\n"{long}",x\n', layout="labelled", columns=LABELLED)
    assert rows[0].content["text"] == long


# JSONL


@pytest.mark.parametrize(("content", "message"), [
    ("\n\n", "the file has no rows"),
    ('{"q1":"a","q22":"b","dup":1}\n', "no column 'q2' .* did you mean 'q22'"),
    ("{}\n", "no column 'q1'"),
    ('[{"q1":"a","q2":"b","dup":1}]\n', "this is one JSON array. Write one object per line, without commas"),
    ('\n[\n{"q1":"a"}]', "this is one JSON array"),
    ('{\n "q1": "a"\n}\n', "this is one JSON document over several lines. Write one object per line"),
])
def test_lines_that_cannot_be_used_as_a_whole_are_named(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, "t.jsonl", content)


@pytest.mark.parametrize(("line", "problem"), [
    ('{"q1":', "broken line: not valid JSON in line 2 (Expecting value, character 7)"),
    ('{"q1":"a"} {"q1":"b"}', "broken line: not valid JSON in line 2 (Extra data, character 11)"),
    ('{"q1":"a","q2":"b","q1":"c"}', "broken line: not valid JSON in line 2 (the name 'q1' occurs twice)"),
    ("[1]", "broken line: not a JSON object in line 2"),
    ('{"q1":"a","q2":"b","dup":1},', "broken line: line 2 ends with a comma; write one object per line, without"),
    ('{"q1":"a"}\r{"q1":"b"}', "line ending: a carriage return (\\r) without a line feed in line 2; write \\n"),
    ("[" * 100_000, "broken line: not valid JSON in line 2"),
])
def test_broken_lines_are_set_aside_with_the_reason(tmp_path, line, problem):
    rows = read(tmp_path, "t.jsonl", f'{{"q1":"a","q2":"b","dup":1}}\n{line}\n\n{{"q2":"c","dup":0}}\r\n')
    assert [row.row for row in rows] == [1, 2, 4]
    assert list(problems(rows)) == [2] and rows[1].problem.startswith(problem)
    assert rows[1].raw == line
    assert rows[2].content == {"source": None, "target": "c", "label": 0}


def test_half_a_surrogate_pair_is_left_to_be_checked_and_can_be_written(tmp_path):
    rows = read(tmp_path, "t.jsonl", '{"q1":"\\ud800é","q2":"z","dup":1}\n')
    assert rows[0].content["source"] == "\ud800é" and not rows[0].problem
    assert rows[0].raw == '{"q1": "\\ud800\\u00e9", "q2": "z", "dup": 1}'


# Parquet


def parquet(folder, **columns):
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize(("column", "shown"), [
    (pa.array([[1]]), "list<.*int64>"), (pa.array([3]), "int64"), (pa.array([b"a"]), "binary"),
    (pa.array([b"a"]).dictionary_encode(), "dictionary<.*binary.*>")])
def test_columns_of_another_type_are_named(tmp_path, column, shown):
    path = parquet(tmp_path, q1=["a"], q2=column, dup=[1])
    with pytest.raises(InputError, match=rf"t\.parquet: column 'q2' \(target\) is of type {shown}, but must be text\."):
        list(read_rows(dataset(path)))


def test_labels_and_groups_in_lists_are_refused(tmp_path):
    path = parquet(tmp_path, g=[["a"]], c=["b"])
    with pytest.raises(InputError, match=r"column 'g' \(group\) is of type list<.*>, but must be text or whole num"):
        list(read_rows(dataset(path, "captions", {"group": "g", "text": "c"})))


def test_texts_of_every_text_type_are_read(tmp_path):
    path = parquet(tmp_path, q1=pa.array(["a", "b"]).dictionary_encode(), q2=pa.array(["c", None], pa.large_string()),
                   dup=pa.array([None, None]), more=[[1], [2, 3]])
    rows = list(read_rows(dataset(path)))
    assert contents(rows) == [{"source": "a", "target": "c", "label": None},
                              {"source": "b", "target": None, "label": None}]
    assert json.loads(rows[1].raw)["more"] == [2, 3]


def test_parquet_files_that_cannot_be_used(tmp_path):
    for name, content, message in (("t.parquet", b"PAR1 no", "not a readable Parquet file"),
                                   ("u.parquet.gz", gzip.compress(b"PAR1 no"), "not a readable Parquet file")):
        with pytest.raises(InputError, match=message):
            read(tmp_path, name, content)
    damaged = parquet(tmp_path, q1=["a"], q2=["b"], dup=[1], zzzz=[1]).read_bytes().replace(b"zzzz", b"\xefzzz")
    with pytest.raises(InputError, match=r"v\.parquet: not a readable Parquet file"):
        read(tmp_path, "v.parquet", damaged)
    with pytest.raises(InputError, match="the file has no rows"):
        list(read_rows(dataset(parquet(tmp_path, q1=pa.array([], pa.string()), q2=pa.array([], pa.string()),
                                       dup=pa.array([], pa.int8())))))
    with pytest.raises(InputError, match="no column 'dup'"):
        list(read_rows(dataset(parquet(tmp_path, q1=["a"], q2=["b"]))))


# Rows


def test_a_row_without_columns_of_its_own_shows_its_roles():
    assert RawRow("f", 1, {"source": "é"}).raw == '{"source": "é"}'
    assert RawRow("f", 1, "the line", "broken line").raw == "the line"


def test_reading_is_a_stream(tmp_path):
    (tmp_path / "t.csv").write_text("q1,q2,dup\n" + "a,b,1\n" * 200_000 + 'c,"d\ne')
    rows = read_rows(dataset(tmp_path / "t.csv"))
    assert next(rows).row == 1  # the unclosed mark at the end has not been seen yet
    with pytest.raises(InputError, match="lines 200002 to 200003: a quotation mark is not closed"):
        for _ in rows:
            pass
