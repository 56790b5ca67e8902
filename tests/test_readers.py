"""Readers: formats, published layouts, compression, and every trouble that a file can give."""

import bz2
import csv
import gzip
import io
import json
import lzma
import random

import pandas as pd
import pyarrow as pa
import pytest

from keycontrast.errors import InputError
from pipeline.sources import check_sources
from stages.common.settings import read_params, stage_params
from stages.ingest.deduplication.checks import RowCheck
from stages.ingest.layouts.registry import layout_of
from stages.ingest.params import Dataset
from stages.ingest.reading.files import data_files, read_rows
from stages.params import parse_params

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


# Formats


FRAMES = {
    "pairs": (PAIRS, pd.DataFrame({"q1": ["a b", 'say "x", y', "née\t1"], "q2": ["c", "two\nlines", "你好"],
                                   "more": ["1", "", "z"], "dup": ["1", "0", "1"]})),
    "triples": ({"source": "s", "target": "t", "negative": "n"}, pd.DataFrame({"n": ["x"], "s": ["y"], "t": ["z"]})),
    "captions": ({"group": "g", "text": "c"}, pd.DataFrame({"c": ["a cat", "a, cat"], "g": ["7", "7"]})),
    "labelled": (LABELLED, pd.DataFrame({"class": ["x", "y"], "sentence": ["one", 'the "other"']})),
}


def write(frame, path):
    """Write ``frame`` as the first ending of ``path`` says, then compress it as the second says."""
    form, packed = path.name.removeprefix("t").removesuffix(path.suffix if path.suffix in PACKED else ""), path.suffix
    if form == ".parquet":
        data = io.BytesIO()
        frame.to_parquet(data)
        content = data.getvalue()
    elif form == ".jsonl":
        content = frame.to_json(orient="records", lines=True, force_ascii=False).encode()
    else:
        content = frame.to_csv(index=False, sep="," if form == ".csv" else "\t").encode()
    path.write_bytes(compressed(content, packed) if packed in PACKED else content)


@pytest.mark.parametrize("layout", FRAMES)
def test_every_format_plain_and_compressed_gives_the_same_rows(tmp_path, layout):
    columns, frame = FRAMES[layout]
    role_of = {column: role for role, column in columns.items()}
    expected = [{role_of[column]: value for column, value in row.items() if column in role_of}
                for row in frame.to_dict("records")]
    for form in (".csv", ".tsv", ".jsonl", ".parquet"):
        for packed in ("", *PACKED):
            path = tmp_path / f"t{form}{packed}"
            write(frame, path)
            rows = list(read_rows(dataset(path, layout, columns)))
            assert [(row.file, row.row) for row in rows] == [(path.name, n + 1) for n in range(len(frame))]
            assert contents(rows) == expected
            assert [json.loads(row.raw) for row in rows] == frame.to_dict("records")
            assert problems(rows) == {} and {row.split for row in rows} == {None}


def test_published_layouts_bring_their_columns():
    for named, columns in ((dataset("x", "glue_qqp"), {"source": "question1", "target": "question2",
                                                       "label": "is_duplicate"}),
                           (dataset("x", "mscoco_captions", {"split": "part"}), {
                               "group": "image_id", "text": "caption", "split": "part"}),
                           (dataset("x", "pairs", {"source": "a", "target": "b"}), {"source": "a", "target": "b"})):
        assert layout_of(named).columns == columns


@pytest.mark.parametrize(("layout", "columns", "message"), [
    ("pair", {}, "no layout is called 'pair'; did you mean 'pairs'"),
    ("pairs", {"target": None}, "layout pairs needs columns.target"),
    ("triples", {"label": "l", "negative": "n"}, r"layout triples has no columns\.label; valid names: "),
    ("captions", {"txet": "a"}, r"layout captions has no columns\.txet; did you mean 'text'"),
    ("quora_qqp", {"source": "a"}, "no columns.source; the files of layout quora_qqp have columns of their own"),
    ("trec", {"split": "a"}, "layout trec has no columns.split"),
    ("labelled", {}, "layout labelled needs columns.label")])
def test_columns_must_be_those_of_the_layout(layout, columns, message):
    with pytest.raises(ValueError, match=message):
        dataset("x", layout, columns)


def test_glue_has_tabs_and_ordinary_quotation_marks(tmp_path):
    lines = ["\t".join(QUORA), '0\t1\t2\tWhat is "a" b?\t"open\t1', '1\t3\t4\tc\td"\t0', "2\t5\t6\tcut off", "",
             "3\t7\t8\te\tf\t1"]
    rows = read(tmp_path, "train.tsv", "\r\n".join(lines) + "\r\n", layout="glue_qqp")
    assert [row.row for row in rows] == [1, 2, 3, 5]
    assert rows[0].content == {"source": 'What is "a" b?', "target": '"open', "label": "1"}
    assert problems(rows) == {3: "broken line: 4 fields instead of 6 in line 4"}
    assert rows[2].raw == "2\t5\t6\tcut off"


def test_the_test_file_of_glue_has_no_labels(tmp_path):
    with pytest.raises(InputError, match=r"test\.tsv: no column 'is_duplicate' \(which files of layout glue_qqp have\)"
                                         r".* come without labels: name the others in the data set's `files`"):
        read(tmp_path, "test.tsv", "id\tquestion1\tquestion2\n0\ta\tb\n", layout="glue_qqp")


@pytest.mark.parametrize(("layout", "name", "delimiter", "quoting"), [
    ("kaggle_qqp", "train.csv", ",", csv.QUOTE_ALL),
    ("quora_qqp", "quora_duplicate_questions.tsv", "\t", csv.QUOTE_MINIMAL)])
def test_kaggle_and_quora_quote_fields_over_several_lines(tmp_path, layout, name, delimiter, quoting):
    table = [["0", "1", "2", 'Is "it", so?', "two\nlines\tof it", "0"], ["1", "3", "4", "a", "", "1"]]
    sheet = io.StringIO()
    csv.writer(sheet, delimiter=delimiter, quoting=quoting).writerows([QUORA, *table])
    rows = read(tmp_path, name, sheet.getvalue(), layout=layout)
    assert contents(rows) == [{"source": row[3], "target": row[4], "label": row[5]} for row in table]
    assert [list(json.loads(row.raw).values()) for row in rows] == table


def coco(annotations, **more):
    return json.dumps({"info": {"year": 2017}, "images": [{"id": 1, "sizes": [1, [2, 3]]}], "licenses": [],
                       **more, "annotations": annotations})


CAPTIONS = [{"image_id": 9, "id": 5, "caption": "A cat."}, {"image_id": 2, "id": 1, "caption": "Un café [x], \"y\"\n"},
            {"image_id": 9, "id": 3, "caption": "A dog."}]


@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_captions_of_mscoco_come_in_the_order_of_the_file(tmp_path, packed):
    content = coco(CAPTIONS).encode()
    rows = read(tmp_path, f"captions_val2017.json{packed}", compressed(content, packed) if packed else content,
                layout="mscoco_captions")
    assert contents(rows) == [{"group": str(item["image_id"]), "text": item["caption"]} for item in CAPTIONS]
    assert [json.loads(row.raw) for row in rows] == CAPTIONS
    assert [row.row for row in rows] == [1, 2, 3]


def test_captions_may_stand_in_a_table_too(tmp_path):
    pd.DataFrame(CAPTIONS).to_parquet(tmp_path / "val.parquet")
    rows = list(read_rows(dataset(tmp_path, "mscoco_captions")))
    assert [row.content["group"] for row in rows] == ["9", "2", "9"]


@pytest.mark.parametrize(("content", "message"), [
    ("[1, 2]", "no list 'annotations', as the captions_.*it is no object"),
    (coco(CAPTIONS)[:-9], "not a JSON object as MSCOCO writes it: Unterminated string.*Fetch it again"),
    (coco(CAPTIONS) + "{}", "Extra data"),
    (coco(CAPTIONS)[:-1] + ', "annotations": []}', "the name 'annotations' occurs twice"),
    ('{"annotations": [{"image_id": 1, "caption": }]}', "Expecting value"),
    ('{"annotation": []}', "no list 'annotations', as the captions_.*did you mean 'annotation'"),
    ('{"annotations": []}', "its list 'annotations' is empty"),
    ('{"annotations": {"a": 1}}', "no list 'annotations'"),
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


@pytest.mark.parametrize(("value", "label"), [(3, "3"), (" x ", "x"), (2.0, "2"), (True, "true"), ("0", "0")])
def test_labels_of_texts_are_names(tmp_path, value, label):
    rows = read(tmp_path, "t.jsonl", json.dumps({"sentence": "a", "class": value}), layout="labelled", columns=LABELLED)
    assert rows[0].content == {"text": "a", "label": label} and not rows[0].problem


@pytest.mark.parametrize(("value", "problem"), [
    ("null", "label: is missing"), ("NaN", "label: is missing"), ('" "', "label: is empty"),
    ("1.5", "label: must be text or a whole number, found 1.5"), ("[1]", r"label: must be .* found \[1\]")])
def test_labels_that_are_none_say_so(tmp_path, value, problem):
    rows = read(tmp_path, "t.jsonl", f'{{"sentence": "a", "class": {value}}}', layout="labelled", columns=LABELLED)
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(rows[0].problem)
    assert json.loads(rows[0].raw)["sentence"] == "a"


def test_splits_come_from_a_column(tmp_path):
    names = ["train", "dev", "val", "valid", "Validation", " test ", "extra", ""]
    content = "sentence,class,part\n" + "".join(f"a,b,{name}\n" for name in names)
    rows = read(tmp_path, "t.csv", content, layout="labelled", columns=LABELLED | {"split": "part"})
    assert [row.split for row in rows] == ["train", *["validation"] * 4, "test", None, None]
    assert [row.content["split"] for row in rows[:2]] == ["train", "validation"]
    assert problems(rows) == {
        7: "split: must be train, validation (or dev, val, valid) or test, found 'extra'",
        8: "split: must be train, validation (or dev, val, valid) or test, found ''"}


def files(folder, *names, content="sentence,class,part\na,b,train\n"):
    for name in names:
        (folder / name).write_text(content)


def test_splits_come_from_files(tmp_path):
    files(tmp_path, "a1.csv", "a2.csv", "b.csv", "other.csv", "unnamed.csv")
    splits = {"test": ["b.csv"], "train": ["a*.csv"]}
    found = dataset(tmp_path, "labelled", LABELLED, files=["other.csv"], splits=splits)
    assert [(row.file, row.split) for row in read_rows(found)] == [
        ("other.csv", None), ("a1.csv", "train"), ("a2.csv", "train"), ("b.csv", "test")]
    alone = dataset(tmp_path / "b.csv", "labelled", LABELLED, splits={"test": ["b.csv"]})
    assert [row.split for row in read_rows(alone)] == ["test"]


def test_a_row_and_its_file_must_be_of_the_same_split(tmp_path):
    files(tmp_path, "a.csv", "b.csv")
    columns = LABELLED | {"split": "part"}
    rows = list(read_rows(dataset(tmp_path, "labelled", columns, splits={"test": ["b.csv"], "train": ["a.csv"]})))
    assert [(row.file, row.split, row.problem) for row in rows] == [
        ("a.csv", "train", ""),
        ("b.csv", "test", "split: the row says train, but its file is named under splits.test")]


@pytest.mark.parametrize(("splits", "message"), [
    ({"train": ["aa.csv"]}, "splits.train: .*aa.csv: no such file; did you mean 'a.csv'"),
    ({"train": ["a.csv"], "test": ["*.csv"]}, "a.csv: is named under splits.train and under splits.test")])
def test_splits_of_files_that_are_wrong(tmp_path, splits, message):
    files(tmp_path, "a.csv", "b.csv")
    with pytest.raises(InputError, match=message):
        list(read_rows(dataset(tmp_path, "labelled", LABELLED, splits=splits)))


# Files


def test_files_are_read_in_the_order_given_and_sorted_within_a_pattern(tmp_path):
    files(tmp_path, "b2.csv", "b1.csv", "a.csv", "[odd].csv", content="q1,q2,dup\nx,y,1\n")
    names = [row.file for row in read_rows(dataset(tmp_path, files=["[odd].csv", "b*.csv", "*.csv"]))]
    assert names == ["[odd].csv", "b1.csv", "b2.csv", "a.csv"]


def test_files_of_other_columns_are_rows_of_one_data_set(tmp_path):
    files(tmp_path, "a.csv", content="q1,q2\nx,y\n")
    files(tmp_path, "b1.tsv", "b2.tsv", content='one\tother\tsame\n"x\tz\t0\n')
    own = {"name": "b*.tsv", "layout": "pairs", "quoting": "none",
           "columns": {"source": "one", "target": "other", "label": "same"}}
    found = dataset(tmp_path, columns={"source": "q1", "target": "q2"}, files=["a.csv", own], splits={
        "test": [own | {"name": "b2.tsv"}]})
    (tmp_path / "params.yaml").write_text(json.dumps({"recipe": "r", "datasets": {"d": found.plain()}}))
    for read in (found, stage_params(read_params(tmp_path / "params.yaml"), "ingest", "d").datasets.d):
        assert [(row.file, row.split, dict(row.content)) for row in read_rows(read)] == [
            ("a.csv", None, {"source": "x", "target": "y"}),
            ("b1.tsv", None, {"source": '"x', "target": "z", "label": "0"}),
            ("b2.tsv", "test", {"source": '"x', "target": "z", "label": "0"})]
    assert [RowCheck(found)(row).label for row in read_rows(found)] == ["1", "0", "0"]  # without one: a paraphrase


@pytest.mark.parametrize(("own", "message"), [
    ({"layout": "labelled", "columns": LABELLED}, "a.csv: its layout labelled gives labelled, but pairs gives pairs"),
    ({"layout": "pares"}, "files.1.layout: no layout is called 'pares'; did you mean 'pairs'"),
    ({"layout": "pairs", "columns": {"sauce": "q1"}}, "files.1: layout pairs has no columns.sauce"),
    ({"layout": "pairs", "columns": PAIRS, "layuot": 1}, "files.1.layuot: unknown name; did you mean 'layout'"),
    ({}, "files.1.layout: missing")])
def test_what_is_wrong_with_files_of_other_columns(own, message):
    with pytest.raises(InputError, match=message):
        parse_params({"recipe": "r", "datasets": {"d": {"source": "x", "columns": PAIRS, "files": [
            "b.csv", {"name": "a.csv", **own}]}}}, "params")


def test_a_folder_is_read_format_by_format(tmp_path):
    files(tmp_path, "z.csv", "a.parquet", "b.jsonl", "c.tsv", "d.csv.gz", "e.jsonl.zst", "notes.txt", "meta.json")
    assert [name for name, _ in data_files(dataset(tmp_path))] == [
        "z.csv", "d.csv.gz", "c.tsv", "b.jsonl", "e.jsonl.zst", "a.parquet"]
    assert "meta.json" in [name for name, _ in data_files(dataset(tmp_path, "mscoco_captions"))]


def test_missing_files_are_named_with_the_nearest(tmp_path):
    files(tmp_path, "train.csv")
    for source, names, message in ((tmp_path / "trian.csv", [], "no such file or folder.*did you mean 'train.csv'"),
                                   (tmp_path, ["tran.csv"], "tran.csv: no such file; did you mean 'train.csv'"),
                                   (tmp_path, ["/etc/*.csv"], "must be a name or pattern inside"),
                                   (tmp_path / "train.csv", ["x.csv"], "is a file, so `files` must be empty")):
        with pytest.raises(InputError, match=message):
            list(read_rows(dataset(source, files=names)))


def test_a_folder_without_data_says_what_is_read(tmp_path):
    files(tmp_path, "notes.txt")
    with pytest.raises(InputError, match=r"holds no \.csv, \.tsv, \.jsonl, \.parquet file, nor one of them as \.gz"):
        list(read_rows(dataset(tmp_path)))


def test_a_file_beside_its_own_archive_is_refused_unless_named(tmp_path):
    files(tmp_path, "t.csv", "t.csv.gz")
    with pytest.raises(InputError, match=r"holds t\.csv and t\.csv\.gz\. Say which is meant"):
        data_files(dataset(tmp_path))
    assert len(data_files(dataset(tmp_path, files=["*.csv"]))) == 1


@pytest.mark.parametrize(("name", "message"), [
    ("t.txt", r"files of type '\.txt' cannot be read.*\.csv, \.json, \.jsonl, \.parquet, \.tsv"),
    ("t.cvs.gz", r"files of type '\.cvs' cannot be read.*did you mean '\.csv'"),
    ("t.json", "one JSON document is read only in layout mscoco_captions. Write one object per line"),
    ("t.csv", r"t\.csv: the file is empty")])
def test_files_of_another_type_and_empty_files_are_named(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, name, "x" if name != "t.csv" else "")


def test_what_is_wrong_with_files_is_said_before_any_work(tmp_path):
    files(tmp_path, "t.csv", "t.txt")
    content = {"recipe": "r", "datasets": {"one": {"source": "gone"}, "two": {"source": ".", "files": ["t.cvs"]},
                                           "three": {"source": ".", "files": ["t.txt"]}, "four": {"source": "."},
                                           "five": {"source": ".", "splits": {"test": ["u.csv"]}}}}
    params = parse_params(content, "params.yaml")
    with pytest.raises(InputError) as error:
        check_sources(params, tmp_path)
    lines = str(error.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["datasets.one.source", "datasets.two", "datasets.three",
                                                      "datasets.five"]
    assert "t.cvs: no such file; did you mean 't.csv'" in lines[1]


# Archives


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_damaged_archives_are_named(tmp_path, ending, form):
    rng = random.Random(1)
    lines = "".join(f"{rng.random()},{rng.random()},1\n" for _ in range(5000))
    data = compressed(("q1,q2,dup\n" + lines).encode(), ending)
    for content, message in ((data[:len(data) // 2], "the archive ends too early. Fetch it again"),
                             (b"q1,q2,dup\na,b,1\n", f"is damaged, or is no {ending} at all"),
                             (data[:4] + b"\xff" * 9 + data[13:], "the archive is damaged"),
                             *([(data + b"more of it", "the archive is damaged")]
                               if ending in (".gz", ".zst") else [])):  # the other two pass over what follows
        with pytest.raises(InputError, match=rf"t\.{form}\{ending}: .*{message}"):
            read(tmp_path, f"t.{form}{ending}", content)


@pytest.mark.parametrize("ending", PACKED)
def test_archives_of_several_members_are_read_to_the_end(tmp_path, ending):
    content = compressed(b"q1,q2,dup\na,b,1\n", ending) + compressed(b"c,d,0\n", ending)
    assert len(read(tmp_path, f"t.csv{ending}", content)) == 2
    with pytest.raises(InputError, match="the file is empty"):
        read(tmp_path, f"e.csv{ending}", compressed(b"", ending))
