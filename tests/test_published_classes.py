"""Files of classified texts as their publishers laid them out."""

import pytest

from keycontrast.errors import InputError
from stages.ingest.files import read_rows
from stages.ingest.params import Dataset


def rows_of(folder, layout, **more):
    return list(read_rows(Dataset(source=str(folder), layout=layout, **more)))


def seen(rows):
    return [(row.file, row.row, row.content["label"], row.content["text"], row.split) for row in rows]


def written(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def bydate(folder):
    return written(folder, {
        "20news-bydate-train/sci.space/60100": "From: a\n\nA later post.",
        "20news-bydate-train/sci.space/9000": "Early.",
        "20news-bydate-train/alt.atheism/51": "caf\u00e9".encode(), "20news-bydate-train/.DS_Store": "x",
        "20news-bydate-test/alt.atheism/77": "caf\u00e9".encode("latin-1")})


def test_posts_of_newsgroups_are_read_folder_by_folder_in_any_encoding(tmp_path):
    assert seen(rows_of(bydate(tmp_path), "newsgroups")) == [
        ("20news-bydate-train/alt.atheism", 51, "alt.atheism", "caf\u00e9", "train"),
        ("20news-bydate-train/sci.space", 9000, "sci.space", "Early.", "train"),
        ("20news-bydate-train/sci.space", 60100, "sci.space", "From: a\n\nA later post.", "train"),
        ("20news-bydate-test/alt.atheism", 77, "alt.atheism", "caf\u00e9", "test")]
    latin = rows_of(tmp_path, "newsgroups", encoding="latin-1")
    assert latin[0].content["text"] == "caf\u00c3\u00a9"


def test_other_editions_of_newsgroups_have_no_split_unless_it_is_named(tmp_path):
    written(tmp_path, {"20_newsgroups/sci.med/1": "One.", "20_newsgroups/rec.autos/2": "Two."})
    folder = tmp_path / "20_newsgroups"
    assert [(row.file, row.split) for row in rows_of(folder, "newsgroups")] == [("rec.autos", None), ("sci.med", None)]
    named = rows_of(tmp_path, "newsgroups", splits={"test": ["20_newsgroups/sci.med"]},
                    files=["20_newsgroups/rec.autos"])
    assert [(row.file, row.split) for row in named] == [
        ("20_newsgroups/rec.autos", None), ("20_newsgroups/sci.med", "test")]


@pytest.mark.parametrize(("files", "message"), [
    ({"20news-bydate-train/a/1": "x"}, r"20news-bydate-test: no such file"),
    ({"20news-bydate-train/a/notes.txt": "x", "20news-bydate-test/a/1": "x"},
     r"a/notes\.txt: is no post; .* named by their number, one folder per group\. Take it out"),
    ({"20news-bydate-train/a/.x": "x", "20news-bydate-test/a/1": "x"}, r"a: holds no posts")])
def test_what_is_wrong_with_folders_of_newsgroups_is_named(tmp_path, files, message):
    with pytest.raises(InputError, match=message):
        rows_of(written(tmp_path, files), "newsgroups")
    written(tmp_path, {"20news-bydate.tar.gz": b"\x1f\x8b"})
    with pytest.raises(InputError, match="reads folders. Unpack the archive"):
        rows_of(tmp_path / "20news-bydate.tar.gz", "newsgroups")


TREC = {"train_5500.label": "DESC:manner How did it end ?\nABBR:exp What is BUFX\u00f0 ?\n".encode("latin-1"),
        "TREC_10.label": "NUM:dist How far is it ?\n"}


def test_label_files_of_trec_give_the_coarse_class(tmp_path):
    rows = rows_of(written(tmp_path, TREC), "trec")
    assert seen(rows) == [
        ("train_5500.label", 1, "DESC", "How did it end ?", "train"),
        ("train_5500.label", 2, "ABBR", "What is BUFX\u00f0 ?", "train"),
        ("TREC_10.label", 1, "NUM", "How far is it ?", "test")]
    assert '"kind": "manner"' in rows[0].raw
    alone = rows_of(tmp_path / "TREC_10.label", "trec")
    assert [row.split for row in alone] == [None]


def test_broken_lines_of_trec_are_named(tmp_path):
    written(tmp_path, {"x.label": "LOC:city What city ?\nLOC What city ?\nLOC:city\n"})
    rows = rows_of(tmp_path, "trec", files=["x.label"])
    assert [row.problem.partition(":")[0] for row in rows] == ["", "broken line", "broken line"]
    assert "must read CLASS:kind, a space and the question" in rows[1].problem and "line 2" in rows[1].problem
    with pytest.raises(InputError, match=r"train_5500\.label\*: no such file"):
        rows_of(tmp_path, "trec")
    written(tmp_path, {"x.csv": "a"})
    with pytest.raises(InputError, match=r"x\.csv: files of layout trec are text files named \.label.*labelled"):
        rows_of(tmp_path, "trec", files=["x.csv"])


def test_all_terms_files_have_a_class_before_the_tab(tmp_path):
    written(tmp_path, {"r8-train-all-terms.txt": "earn\tnet profit rose\n\nacq\tbuys\tshares\n",
                       "r8-test-all-terms.txt": "earn\tloss\nno tab here\n"})
    rows = rows_of(tmp_path, "all_terms")
    assert seen(rows[:3]) == [
        ("r8-train-all-terms.txt", 1, "earn", "net profit rose", "train"),
        ("r8-train-all-terms.txt", 3, "acq", "buys\tshares", "train"),
        ("r8-test-all-terms.txt", 1, "earn", "loss", "test")]
    assert rows[3].problem == "broken line: must read class, tab, text; it has no tab, in line 2"
    written(tmp_path, {"r52-train-all-terms.txt": "earn\tx\n"})
    with pytest.raises(InputError, match=r"holds r52-train.* and r8-train.*Say which is meant, in the data set's `spl"):
        rows_of(tmp_path, "all_terms")


GCN = {"mr.txt": "0\ttrain\t1\n1\ttrain\t0\n2\ttest\t1", "corpus/mr.txt": b"fine \x97 really\ndull\nlovely\n",
       "R8.txt": "0\ttest\tearn\n", "corpus/R8.txt": "x\n"}


def test_an_index_of_text_gcn_gives_split_and_class_to_the_lines_of_its_corpus(tmp_path):
    written(tmp_path, GCN)
    assert seen(rows_of(tmp_path, "text_gcn", files=["mr.txt"])) == [
        ("mr.txt", 1, "1", "fine \u2014 really", "train"), ("mr.txt", 2, "0", "dull", "train"),
        ("mr.txt", 3, "1", "lovely", "test")]
    folders = written(tmp_path, {"ng.txt": "data/x/53366\t20news-bydate-train\talt.atheism\n",
                                 "corpus/ng.txt": "text\n"})
    assert seen(rows_of(folders, "text_gcn", files=["ng.txt"])) == [("ng.txt", 1, "alt.atheism", "text", "train")]


@pytest.mark.parametrize(("files", "named", "message"), [
    ({}, [], r"holds the indices R8\.txt, mr\.txt\. Name the one that is meant in the data set's `files`"),
    ({"mr.txt": "0\ttrain\t1\n"}, ["mr.txt"], r"mr\.txt: has nothing in line 2, but .*corpus/mr\.txt has"),
    ({"corpus/mr.txt": "a\nb\n"}, ["mr.txt"], r"corpus/mr\.txt: has nothing in line 3, but .*mr\.txt has"),
    ({"x.txt": "0\ttrain\t1\n"}, ["x.txt"], r"x\.txt: its texts are missing; .*corpus/x\.txt")])
def test_an_index_without_its_corpus_is_refused(tmp_path, files, named, message):
    with pytest.raises(InputError, match=message):
        rows_of(written(tmp_path, GCN | files), "text_gcn", files=named)
    with pytest.raises(InputError, match="`source` must be the folder that holds both"):
        rows_of(tmp_path / "mr.txt", "text_gcn")
