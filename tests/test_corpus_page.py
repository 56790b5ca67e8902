"""The page of a corpus: keywords and graph alone, the same bytes whatever else there is of the data set."""

import shutil

import pytest
from report_artifacts import write_project

from stages.common.paths import COMPARISON, MODELS, PREDICTED, RUNS, DatasetPaths, corpus_page
from stages.results.corpus_page import main


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_project()  # with methods side by side, models, runs, results


def test_it_shows_keywords_and_graph_and_says_what_it_is(project):
    assert main(["tiny"]) == 0
    path = corpus_page("tiny")
    page = path.read_text(encoding="utf-8")
    for words in ("made before anything was trained", 'href="../report/index.html"', "graph-tiny", "belly fat"):
        assert words in page, words
    for words in ("trained model", "contrast_vanished_keyword", 'id="hcl"', "Paired semantic importance"):
        assert words not in page, words
    assert not list(path.parent.glob(".*"))


def test_what_comes_later_changes_no_byte(project):
    assert main(["tiny"]) == 0
    before = corpus_page("tiny").read_bytes()
    for folder in (DatasetPaths("tiny").table("side_by_side"), MODELS, RUNS, PREDICTED, COMPARISON):
        shutil.rmtree(folder)
    assert main(["tiny"]) == 0 and corpus_page("tiny").read_bytes() == before


def test_a_graph_that_cannot_be_read_is_named(project, capsys):
    (DatasetPaths("tiny").table("phrase_edges") / "part-00000.parquet").write_bytes(b"cut off")
    assert main(["tiny"]) == 1 and "phrase_edges/part-00000.parquet" in capsys.readouterr().err
    assert not corpus_page("tiny").exists()
