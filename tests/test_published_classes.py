"""Files of classified texts as their publishers laid them out."""

import pytest

from keycontrast.errors import InputError
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset

POSTS = {"20news-bydate-train/sci.space/60100": "From: a\n\nA later post.",
         "20news-bydate-train/sci.space/9000": "Early.",
         "20news-bydate-train/alt.atheism/51": "caf\u00e9".encode(), "20news-bydate-train/.DS_Store": "x",
         "20news-bydate-test/alt.atheism/77": "caf\u00e9".encode("latin-1")}
TREC = {"train_5500.label": "DESC:manner How did it end ?\nABBR:exp What is BUFX\u00f0 ?\n".encode("latin-1"),
        "TREC_10.label": "NUM:dist How far is it ?\n"}
R8 = {"r8-train-all-terms.txt": "earn\tnet profit rose\n\nacq\tbuys\tshares\n",
      "r8-test-all-terms.txt": "earn\tloss\nno tab here\n"}
GCN = {"mr.txt": "0\ttrain\t1\n1\ttrain\t0\n2\ttest\t1", "corpus/mr.txt": b"fine \x97 really\ndull\nlovely\n",
       "R8.txt": "0\ttest\tearn\n", "corpus/R8.txt": "x\n"}


def rows_of(folder, layout, **more):
    return list(read_rows(Dataset(source=str(folder), layout=layout, **more)))


def seen(rows):
    return [(row.file, row.row, row.content["label"], row.content["text"], row.split)
            for row in rows if not row.problem]


def written(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize(("layout", "files", "more", "expected"), [
    ("newsgroups", POSTS, {}, [
        ("20news-bydate-train/alt.atheism", 51, "alt.atheism", "caf\u00e9", "train"),
        ("20news-bydate-train/sci.space", 9000, "sci.space", "Early.", "train"),
        ("20news-bydate-train/sci.space", 60100, "sci.space", "From: a\n\nA later post.", "train"),
        ("20news-bydate-test/alt.atheism", 77, "alt.atheism", "caf\u00e9", "test")]),
    # Other editions have no split unless the params name one.
    ("newsgroups", {"sci.med/1": "One.", "rec.autos/2": "Two."}, {}, [
        ("rec.autos", 2, "rec.autos", "Two.", None), ("sci.med", 1, "sci.med", "One.", None)]),
    ("newsgroups", {"20_newsgroups/sci.med/1": "One.", "20_newsgroups/rec.autos/2": "Two."},
     {"splits": {"test": ["20_newsgroups/sci.med"]}, "files": ["20_newsgroups/rec.autos"]}, [
        ("20_newsgroups/rec.autos", 2, "rec.autos", "Two.", None),
        ("20_newsgroups/sci.med", 1, "sci.med", "One.", "test")]),
    ("trec", TREC, {}, [
        ("train_5500.label", 1, "DESC", "How did it end ?", "train"),
        ("train_5500.label", 2, "ABBR", "What is BUFX\u00f0 ?", "train"),
        ("TREC_10.label", 1, "NUM", "How far is it ?", "test")]),
    ("all_terms", R8, {}, [
        ("r8-train-all-terms.txt", 1, "earn", "net profit rose", "train"),
        ("r8-train-all-terms.txt", 3, "acq", "buys\tshares", "train"),
        ("r8-test-all-terms.txt", 1, "earn", "loss", "test")]),
    ("rt_polarity", {"rt-polarity.pos": b"a joy \x96 truly\n", "rt-polarity.neg": "a bore\n"}, {}, [
        ("rt-polarity.pos", 1, "pos", "a joy \u2013 truly", None), ("rt-polarity.neg", 1, "neg", "a bore", None)]),
    ("text_gcn", GCN, {"files": ["mr.txt"]}, [
        ("mr.txt", 1, "1", "fine \u2014 really", "train"), ("mr.txt", 2, "0", "dull", "train"),
        ("mr.txt", 3, "1", "lovely", "test")]),
    ("text_gcn", {"ng.txt": "data/x/53366\t20news-bydate-train\talt.atheism\n", "corpus/ng.txt": "text\n"}, {}, [
        ("ng.txt", 1, "alt.atheism", "text", "train")])])
def test_published_files_give_classes_texts_and_splits(tmp_path, layout, files, more, expected):
    assert seen(rows_of(written(tmp_path, files), layout, **more)) == expected


@pytest.mark.parametrize(("layout", "files", "problems"), [
    ("trec", {"train_5500.label": "LOC:city What city ?\nLOC What city ?\n", "TREC_10.label": "LOC:city\n"}, [
        "", "broken line: must read CLASS:kind, a space and the question, as in 'LOC:city What city ...', in line 2",
        "broken line: must read CLASS:kind, a space and the question, as in 'LOC:city What city ...', in line 1"]),
    ("all_terms", R8, ["", "", "", "broken line: must read class, tab, text; it has no tab, in line 2"]),
    ("text_gcn", {"x.txt": "0\ttrain\n1\tlater\t1\n", "corpus/x.txt": "one\ntwo\n"}, [
        "broken line: the index must read name, tab, split, tab, class, in line 1",
        "broken line: the index must name the split, train or test, behind the first tab; found 'later', in line 2"])])
def test_broken_lines_are_named(tmp_path, layout, files, problems):
    assert [row.problem for row in rows_of(written(tmp_path, files), layout)] == problems


@pytest.mark.parametrize(("layout", "files", "named", "message"), [
    ("newsgroups", {"20news-bydate-train/a/1": "x"}, [], r"20news-bydate-test: no such file"),
    ("newsgroups", {"20news-bydate-train/a/notes.txt": "x", "20news-bydate-test/a/1": "x"}, [],
     r"a/notes\.txt: is no post; .* named by their number, one folder per group\. Take it out"),
    ("newsgroups", {"20news-bydate-train/a/.x": "x", "20news-bydate-test/a/1": "x"}, [], r"a: holds no posts"),
    ("trec", {"x.csv": "a"}, ["x.csv"], r"x\.csv: files of layout trec are text files named \.label.*labelled"),
    ("trec", {"x.label": "a"}, [], r"train_5500\.label\*: no such file"),
    ("all_terms", R8 | {"r52-train-all-terms.txt": "earn\tx\n"}, [],
     r"holds r52-train.* and r8-train.*Say which is meant, in the data set's `spl"),
    ("text_gcn", GCN, [], r"holds the indices R8\.txt, mr\.txt\. Name the one that is meant in the data set's `files`"),
    ("text_gcn", GCN | {"mr.txt": "0\ttrain\t1\n"}, ["mr.txt"], r"has nothing in line 2, but .*corpus/mr\.txt has"),
    ("text_gcn", GCN | {"corpus/mr.txt": "a\nb\n"}, ["mr.txt"], r"corpus/mr\.txt: has nothing in line 3, but "),
    ("text_gcn", {"x.txt": "0\ttrain\t1\n"}, ["x.txt"], r"x\.txt: its texts are missing; .*corpus/x\.txt")])
def test_files_that_cannot_be_used_are_named(tmp_path, layout, files, named, message):
    with pytest.raises(InputError, match=message):
        rows_of(written(tmp_path, files), layout, files=named)


@pytest.mark.parametrize(("layout", "files", "message"), [
    ("text_gcn", GCN, "`source` must be the folder that holds both"),
    ("newsgroups", {"mr.txt": "x"}, "reads folders. Unpack the archive")])
def test_a_file_where_a_folder_is_needed_is_refused(tmp_path, layout, files, message):
    with pytest.raises(InputError, match=message):
        rows_of(written(tmp_path, files) / "mr.txt", layout)
