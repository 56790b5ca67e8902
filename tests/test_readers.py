"""Readers: formats, published layouts, compression, and every trouble that a file can give."""

import bz2
import gzip
import io
import json
import lzma
import random
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keycontrast.errors import InputError
from keycontrast.reading import LONGEST_TEXT
from keycontrast.texts import FileOptions, texts_from
from pipeline.sources import check_sources
from pipeline.sql import Answer, write_csv
from stages.common.settings import read_params, stage_params
from stages.ingest.files import data_files, read_rows
from stages.ingest.params import Dataset
from stages.ingest.parsing import RowError
from stages.ingest.rows import RawRow, RowCheck, name_of
from stages.params import parse_params
from tests.harness import inputs
from tests.harness.cases import draw

STANDARD = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
PACKED = (*STANDARD, ".zst")
PAIRS = {"source": "q1", "target": "q2", "label": "dup"}
LABELLED = {"text": "sentence", "label": "class"}
QUORA = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]


def dataset(source, layout="pairs", columns=None, **more):
    columns = (PAIRS if layout == "pairs" else {}) if columns is None else columns
    return Dataset(source=str(source), layout=layout, columns=columns, **more)


def read(folder, name, content, **more):
    """The rows of one file with ``content``."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_rows(dataset(folder / name, **more)))


def compressed(data, ending):
    if ending in STANDARD:
        return STANDARD[ending].compress(data)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def contents(rows):
    return [dict(row.content) for row in rows]


def problems(rows):
    return {row.row: row.problem for row in rows if row.problem}


def files(folder, *names, content="sentence,class,part\na,b,train\n"):
    for name in names:
        (folder / name).write_text(content)


FRAMES = {
    "pairs": (PAIRS, pd.DataFrame({"q1": ["a b", 'say "x", y', "née\t1"], "q2": ["c", "two\nlines", "你好"],
                                   "more": ["1", "", "z"], "dup": ["1", "0", "1"]})),
    "triples": ({"source": "s", "target": "t", "negative": "n"}, pd.DataFrame({"n": ["x"], "s": ["y"], "t": ["z"]})),
    "captions": ({"group": "g", "text": "c"}, pd.DataFrame({"c": ["a cat", "a, cat"], "g": ["7", "7"]})),
    "labelled": (LABELLED, pd.DataFrame({"class": ["x", "y"], "sentence": ["one", 'the "other"']})),
}


def written(frame, form):
    if form == ".parquet":
        data = io.BytesIO()
        frame.to_parquet(data)
        return data.getvalue()
    if form == ".jsonl":
        return frame.to_json(orient="records", lines=True, force_ascii=False).encode()
    return frame.to_csv(index=False, sep="," if form == ".csv" else "\t").encode()


@pytest.mark.parametrize("layout", FRAMES)
def test_every_format_plain_and_compressed_gives_the_same_rows(tmp_path, layout):
    columns, frame = FRAMES[layout]
    role_of = {column: role for role, column in columns.items()}
    expected = [{role_of[column]: value for column, value in row.items() if column in role_of}
                for row in frame.to_dict("records")]
    for form in (".csv", ".tsv", ".jsonl", ".parquet"):
        for packed in ("", *PACKED):
            content = written(frame, form)
            content = compressed(content, packed) if packed else content
            for name in {f"t{form}{packed}", f"t{form}"}:  # what is packed is seen by its content too
                rows = read(tmp_path, name, content, layout=layout, columns=columns)
                assert [(row.file, row.row) for row in rows] == [(name, n + 1) for n in range(len(frame))]
                assert contents(rows) == expected
                assert [json.loads(row.raw) for row in rows] == frame.to_dict("records")
                assert problems(rows) == {} and {row.split for row in rows} == {None}


def test_glue_has_tabs_and_ordinary_quotation_marks(tmp_path):
    lines = ["\t".join(QUORA), '0\t1\t2\tWhat is "a" b?\t"open\t1', '1\t3\t4\tc\td"\t0', "2\t5\t6\tcut off", "",
             "3\t7\t8\te\tf\t1"]
    rows = read(tmp_path, "train.tsv", "\r\n".join(lines) + "\r\n", layout="glue_qqp")
    assert [row.row for row in rows] == [1, 2, 3, 5]
    assert rows[0].content == {"source": 'What is "a" b?', "target": '"open', "label": "1"}
    assert problems(rows) == {3: "broken line: 4 fields instead of 6 in line 4"}
    assert rows[2].raw == "2\t5\t6\tcut off"
    with pytest.raises(InputError, match=r"test\.tsv: no column 'is_duplicate' \(which files of layout glue_qqp have"):
        read(tmp_path, "test.tsv", "id\tquestion1\tquestion2\n0\ta\tb\n", layout="glue_qqp")


def coco(annotations, **more):
    return json.dumps({"info": {"year": 2017}, "images": [{"id": 1, "sizes": [1, [2, 3]]}], "licenses": [],
                       **more, "annotations": annotations})


CAPTIONS = [{"image_id": 9, "id": 5, "caption": "A cat."}, {"image_id": 2, "id": 1, "caption": "Un café [x], \"y\"\n"},
            {"image_id": 9, "id": 3, "caption": "A dog."}]


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_captions_of_mscoco_come_in_the_order_of_the_file(tmp_path, packed):
    content = coco(CAPTIONS).encode()
    rows = read(tmp_path, f"captions_val2017.json{packed}", compressed(content, packed) if packed else content,
                layout="mscoco_captions")
    assert contents(rows) == [{"group": str(item["image_id"]), "text": item["caption"]} for item in CAPTIONS]
    assert [json.loads(row.raw) for row in rows] == CAPTIONS and [row.row for row in rows] == [1, 2, 3]
    pd.DataFrame(CAPTIONS).to_parquet(tmp_path / "val.parquet")
    assert contents(read_rows(dataset(tmp_path / "val.parquet", "mscoco_captions"))) == contents(rows)


@pytest.mark.parametrize(("content", "message"), [
    ("[1, 2]", "no list 'annotations', as the captions_.*it is no object"),
    (coco(CAPTIONS)[:-9], "not a JSON object as MSCOCO writes it: Unterminated string.*Fetch it again"),
    (coco(CAPTIONS)[:-1] + ', "annotations": []}', "the name 'annotations' occurs twice"),
    ('{"annotation": []}', "no list 'annotations', as the captions_.*did you mean 'annotation'"),
    ('{"annotations": []}', "its list 'annotations' is empty"),
    (coco([{"image_id": 1, "id": 2}]), r"no column 'caption' \(which files of layout mscoco_captions have"),
])
def test_a_document_that_is_not_of_captions_is_named(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, "c.json", content, layout="mscoco_captions")


def test_broken_captions_are_set_aside(tmp_path):
    content = coco([*CAPTIONS[:1], 3, {"id": 1}, {"image_id": 1, "caption": "caf?"}]).encode().replace(b"?", b"\xe9")
    rows = read(tmp_path, "c.json", content, layout="mscoco_captions")
    assert [row.problem.partition(". If")[0] for row in rows] == [
        "", "broken entry: not a JSON object", "group: is missing",
        "encoding: not valid UTF-8: byte 0xe9 in entry 4 of 'annotations'"]
    assert "caf\\xe9" in rows[3].raw


def test_splits_come_from_files(tmp_path):
    files(tmp_path, "a1.csv", "a2.csv", "b.csv", "other.csv", "unnamed.csv")
    splits = {"test": ["b.csv"], "train": ["a*.csv"]}
    found = dataset(tmp_path, "labelled", LABELLED, files=["other.csv"], splits=splits)
    assert [(row.file, row.split) for row in read_rows(found)] == [
        ("other.csv", None), ("a1.csv", "train"), ("a2.csv", "train"), ("b.csv", "test")]
    alone = dataset(tmp_path / "b.csv", "labelled", LABELLED, splits={"test": ["b.csv"]})
    assert [row.split for row in read_rows(alone)] == ["test"]
    columns = LABELLED | {"split": "part"}
    rows = read_rows(dataset(tmp_path, "labelled", columns, splits={"test": ["b.csv"], "train": ["a1.csv"]}))
    assert [(row.file, row.split, row.problem) for row in rows] == [
        ("a1.csv", "train", ""),
        ("b.csv", "test", "split: the row says train, but its file is named under splits.test")]


def test_files_of_other_columns_are_rows_of_one_data_set(tmp_path):
    files(tmp_path, "a.csv", content="q1,q2\nx,y\n")
    files(tmp_path, "b1.tsv", "b2.tsv", content='one\tother\tsame\n"x\tz\t0\n')
    own = {"name": "b*.tsv", "layout": "pairs", "quoting": "none",
           "columns": {"source": "one", "target": "other", "label": "same"}}
    found = dataset(tmp_path, columns={"source": "q1", "target": "q2"}, files=["a.csv", own], splits={
        "test": [own | {"name": "b2.tsv"}]})
    (tmp_path / "params.yaml").write_text(json.dumps({"recipe": "r", "datasets": {"d": found.plain()}}))
    for named in (found, stage_params(read_params(tmp_path / "params.yaml"), "ingest", "d").datasets.d):
        assert [(row.file, row.split, dict(row.content)) for row in read_rows(named)] == [
            ("a.csv", None, {"source": "x", "target": "y"}),
            ("b1.tsv", None, {"source": '"x', "target": "z", "label": "0"}),
            ("b2.tsv", "test", {"source": '"x', "target": "z", "label": "0"})]
    assert [RowCheck(found)(row).label for row in read_rows(found)] == ["1", "0", "0"]  # without one: a paraphrase
    for entries in (["b*.tsv", own], [own, "b*.tsv"]):  # a file has its own columns in whatever order it is named
        named = dataset(tmp_path, columns={"source": "q1", "target": "q2"}, files=entries)
        assert [row.content["label"] for row in read_rows(named)] == ["0", "0"]
    with pytest.raises(ValueError, match=r"columns.source must be one name, found \['one'\]"):
        dataset(tmp_path, columns={"source": ["one"], "target": "other"})


def test_a_folder_is_read_format_by_format(tmp_path):
    files(tmp_path, "z.csv", "a.parquet", "b.jsonl", "c.tsv", "d.csv.gz", "e.jsonl.zst", "notes.txt", "meta.json")
    assert [file.name for file in data_files(dataset(tmp_path))] == [
        "z.csv", "d.csv.gz", "c.tsv", "b.jsonl", "e.jsonl.zst", "a.parquet"]
    assert "meta.json" in [file.name for file in data_files(dataset(tmp_path, "mscoco_captions"))]
    (tmp_path / "b.jsonl").rename(tmp_path / "b.JSONL")
    assert "b.JSONL" in [file.name for file in data_files(dataset(tmp_path))]


def test_files_that_cannot_be_meant_are_named_with_the_nearest(tmp_path):
    files(tmp_path, "train.csv")
    for source, names, message in ((tmp_path / "trian.csv", [], "no such file or folder.*did you mean 'train.csv'"),
                                   (tmp_path, ["tran.csv"], "tran.csv: no such file; did you mean 'train.csv'"),
                                   (tmp_path, ["/etc/*.csv"], "must be a name or pattern inside"),
                                   (tmp_path / "train.csv", ["x.csv"], "is a file, so `files` must be empty")):
        with pytest.raises(InputError, match=message):
            list(read_rows(dataset(source, files=names)))
    files(tmp_path, "train.csv.gz")
    with pytest.raises(InputError, match=r"holds train\.csv and train\.csv\.gz\. Say which is meant"):
        data_files(dataset(tmp_path))
    assert len(data_files(dataset(tmp_path, files=["*.csv"]))) == 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no \.csv, \.tsv, \.jsonl, \.parquet file, nor one of them as \.gz"):
        list(read_rows(dataset(tmp_path / "empty")))


def test_lines_of_objects_named_json_are_read(tmp_path):
    line = '{"q1": "a", "q2": "b", "dup": 1}\n'
    assert [row.content["source"] for row in read(tmp_path, "t.json", 2 * line)] == ["a", "a"]
    with pytest.raises(InputError, match="this is one JSON document. Write one object per line"):
        read(tmp_path, "u.json", f"[{line}]")
    caption = '{"image_id": 1, "caption": "a dog"}\n'
    assert len(read(tmp_path, "c.json", 2 * caption, layout="mscoco_captions")) == 2


def test_a_label_has_one_form_in_every_kind_of_file(tmp_path):
    values = [True, 1.0, 1, "TRUE", Decimal("1.00"), 2.5, " false ", "-2.00", "1.10", "007", "Yes"]
    assert [name_of(value, "label") for value in values] == [
        "true", "1", "1", "true", "1", "2.5", "false", "-2", "1.10", "007", "Yes"]
    for number, value in enumerate([True, "true", "TRUE", 1.0, "1.0", 1, "1"]):
        found = RowCheck(dataset("unused"))(RawRow("f", number, {"source": "a", "target": "b", "label": value}))
        assert found.label == "1"


def test_other_files_of_a_folder_are_of_training_where_splits_names_the_test_alone(tmp_path):
    for name in ("a.csv", "b.csv", "test.csv"):
        (tmp_path / name).write_text("q1,q2,dup\na,b,1\n")
    rows = list(read_rows(dataset(tmp_path, splits={"test": ["test.csv"]})))
    assert [(row.file, row.split) for row in rows] == [("a.csv", None), ("b.csv", None), ("test.csv", "test")]
    with pytest.raises(InputError, match=r"holds no .* but a\.csv, b\.csv, test\.csv, .* the file of training"):
        list(read_rows(dataset(tmp_path, splits={"test": ["*.csv"]})))


def test_what_is_wrong_with_files_is_said_before_any_work(tmp_path):
    files(tmp_path, "t.csv", "t.txt")
    content = {"recipe": "r", "datasets": {"one": {"source": "gone"}, "two": {"source": ".", "files": ["t.cvs"]},
                                           "three": {"source": ".", "files": ["t.txt"]}, "four": {"source": "."},
                                           "five": {"source": ".", "splits": {"test": ["u.csv"]}}}}
    with pytest.raises(InputError) as error:
        check_sources(parse_params(content, "params.yaml"), tmp_path)
    lines = str(error.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["datasets.one.source", "datasets.two", "datasets.three",
                                                      "datasets.five"]
    assert "t.cvs: no such file; did you mean 't.csv'" in lines[1]


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_damaged_archives_are_named(tmp_path, ending, form):
    rng = random.Random(1)
    lines = "".join(f"{rng.random()},{rng.random()},1\n" for _ in range(5000))
    data = compressed(("q1,q2,dup\n" + lines).encode(), ending)
    after = [data + b"more of it"] if ending in (".gz", ".zst") else []  # the other two pass over what follows
    for content in (data[:len(data) // 2], b"q1,q2,dup\na,b,1\n", data[:4] + b"\xff" * 9 + data[13:], *after):
        with pytest.raises(InputError, match=rf"t\.{form}\{ending}: the archive is damaged, ends too early, or is no "
                                             rf"\{ending} file \(.*Fetch it again"):
            read(tmp_path, f"t.{form}{ending}", content)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-32", "UTF8", "gb18030"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_files_of_another_encoding_are_read_if_it_is_named(tmp_path, encoding, name):
    text = "q1,q2,dup\ncafé,thé,1\n" if name == "t.csv" else '{"q1":"café","q2":"thé","dup":"1"}\n'
    rows = read(tmp_path, name, text.encode(encoding), encoding=encoding)
    assert contents(rows) == [{"source": "café", "target": "thé", "label": "1"}]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    for name, content in (("t.csv", b"q1,q2,dup\nx,y,1\n"), ("t.jsonl", b'{"q1":"x","q2":"y","dup":"1"}\n')):
        rows = read(tmp_path, name, b"\xef\xbb\xbf" + content)
        assert contents(rows) == [{"source": "x", "target": "y", "label": "1"}]


@pytest.mark.parametrize(("content", "encoding", "message"), [
    ("q1".encode("utf-16"), "utf-8", "begins with the mark of UTF-16.*Set it to utf-16"),
    (b"\xef\xbb\xbfq1", "cp1252", "begins with the mark of UTF-8, but the data set's `encoding` is cp1252"),
    ("q1".encode("utf-16-le"), "utf-16", "has no byte-order mark.* to utf-16-le or utf-16-be"),
    ("q1,q2,dup\n".encode("utf-16-le"), "utf-8", "header holds NUL bytes. Unpack a .zip.* for UTF-16 set"),
    (b"\n\n", "utf-8", "the file is empty"),
    (b"q1,q2,dup\n", "utf-8", "header but no rows"),
    (b"q1,q3,dup\na,b,1\n", "utf-8", r"no column 'q2' \(columns.target in the params\); valid names: dup, q1, q3"),
    (b"q1,q2,q2,dup\na,b,c,1\n", "utf-8", "column 'q2' occurs 2 times in the header"),
    (b'q1,q2,dup\na,"b,1\nc,d,1\ne,f,0\n', "utf-8", "lines 2 to 4: a quotation mark is not closed.*`quoting: none`"),
    (b"How are you?,What's up,1\na,b,0\n", "utf-8", "no column .q1.* put a line with the columns' names"),
    (b"q1,q2,dup\ra,b,1\rc,d,0\r", "utf-8", r"the header cannot be read \(line ending: a carriage return"),
    (b"\x8eD\tq\xff\n\xfe", "utf-8", r"the header cannot be read \(encoding: not valid UTF-8: byte 0x8e in the header"),
    (b"q1;q2;dup\na;b;1\n", "utf-8", "its name holds semicolons. .* `separator` to"),
    (b'"q1,q2,dup\n', "utf-8", r"header cannot be read \(broken line: unexpected end of data in line 1")])
def test_a_table_that_cannot_be_used_as_a_whole_is_named(tmp_path, content, encoding, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, "t.csv", content, encoding=encoding)


@pytest.mark.parametrize(("name", "line", "problem"), [
    ("t.csv", b"x,caf\xe9,1", "encoding: not valid UTF-8: byte 0xe9 in line 3"),
    ("t.csv", b"a,b\0,1", "NUL byte: line 3 holds one"),
    ("t.csv", b"\xef\xbb\xbfc,d,1", "byte order mark: line 3 begins with one"),
    ("t.csv", b"short,row", "broken line: 2 fields instead of 3 in line 3"),
    ("t.csv", b"a,b,c,1", "broken line: 4 fields instead of 3 in line 3; fields that hold commas must be in quotation"),
    ("t.csv", b'"a"b,c,1', "broken line: ',' expected after '\"' in line 3; double the quotation marks inside fields"),
    ("t.csv", b"a\rb,c,1", "line ending: a carriage return (\\r) without a line feed in line 3"),
    ("t.csv", b'5" pipe,c,1', "quotation mark: column 'q1' holds one in line 3, but is not quoted itself"),
    ("t.jsonl", b'{"q1":"\xe9"}', "encoding: not valid UTF-8: byte 0xe9 in line 2"),
    ("t.jsonl", b'{"q1":', "broken line: not valid JSON in line 2 (Expecting value, character 7)"),
    ("t.jsonl", b'{"q1":"a","q1":"c"}', "broken line: not valid JSON in line 2 (the name 'q1' occurs twice)"),
    ("t.jsonl", b"[1]", "broken line: not a JSON object in line 2"),
    ("t.jsonl", b"[" * 100_000, "broken line: not valid JSON in line 2")])
def test_broken_rows_are_set_aside_with_the_reason(tmp_path, name, line, problem):
    before, after = {"t.csv": (b"q1,q2,dup\nfine,good,1", b"last,one,0"),
                     "t.jsonl": (b'{"q1":"a","q2":"b","dup":1}', b'{"q2":"c","dup":0}')}[name]
    rows = read(tmp_path, name, b"\n".join([before, line, after]))
    assert [row.row for row in rows] == [1, 2, 3] and list(problems(rows)) == [2]
    assert rows[1].problem.startswith(problem)
    if problem.startswith(("broken", "encoding")):
        assert rows[1].raw == line.decode("utf-8", "backslashreplace")


def test_without_quoting_every_line_is_a_row(tmp_path):
    rows = read(tmp_path, "t.tsv", 'q1\tq2\tdup\n"a\tb "c"\t1\nx\ty\tz\t0\np\rq\tr\t1\n', quoting="none")
    assert rows[0].content == {"source": '"a', "target": 'b "c"', "label": "1"}
    assert problems(rows) == {
        2: "broken line: 4 fields instead of 3 in line 3; without quoting no field can hold tabs",
        3: "line ending: a carriage return (\\r) without a line feed in line 4; remove it"}


def parquet(folder, **columns):
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize(("column", "reason"), [
    (pa.array([[1]]), "type list"), (pa.array([3]), "type int"), (pa.array([b"a"]), "type bytes")])
def test_columns_of_another_type_are_a_reason_of_each_row(tmp_path, column, reason):
    found = dataset(parquet(tmp_path, q1=["a"], q2=column, dup=[1]))
    with pytest.raises(ValueError, match=f"not text: target is of {reason}"):
        RowCheck(found)(next(read_rows(found)))


def test_parquet_files_that_cannot_be_used(tmp_path):
    damaged = parquet(tmp_path, q1=["a"], q2=["b"], dup=[1], zzzz=[1]).read_bytes().replace(b"zzzz", b"\xefzzz")
    for name, content in (("t.parquet", b"PAR1 no"), ("u.parquet.gz", gzip.compress(b"PAR1 no")),
                          ("v.parquet", damaged)):
        with pytest.raises(InputError, match=f"{name}: not a readable Parquet file"):
            read(tmp_path, name, content)
    with pytest.raises(InputError, match="the file has no rows"):
        list(read_rows(dataset(parquet(tmp_path, q1=pa.array([], pa.string()), q2=pa.array([], pa.string()),
                                       dup=pa.array([], pa.int8())))))
    with pytest.raises(InputError, match="no column 'dup'"):
        list(read_rows(dataset(parquet(tmp_path, q1=["a"], q2=["b"]))))


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


def test_no_text_of_an_answer_is_a_formula():
    stream = io.StringIO()
    write_csv(Answer(["=a"], iter([("=1+1",), ("@x",), (" ＝1",), (-1,), ("a=b",)]), []), stream)
    assert stream.getvalue().splitlines() == ["'=a", "'=1+1", "'@x", "' ＝1", "-1", "a=b"]


def test_damaged_files_are_read_or_refused_row_by_row():
    verdicts = [inputs.damaged_input(draw(11, number)) for number in range(120)]
    assert [verdict for verdict in verdicts if verdict.fault] == []
    assert sum("cannot be written" in verdict.what for verdict in verdicts) < 40
