"""A first page: keywords and graph alone, the same bytes whatever else there is of the data set."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from report_artifacts import write_project

from pipeline import first_page
from pipeline.first_page import place_of, write_first_page
from pipeline.running import flows
from stages.common.paths import COMPARISON, MODELS, PREDICTED, RUNS, DatasetPaths
from stages.run.errors import InputError


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_project()  # with methods side by side, models, runs, results


def test_it_shows_keywords_and_graph_and_says_what_it_is(project):
    path = write_first_page("tiny")
    page = path.read_text(encoding="utf-8")
    assert path == Path("artifacts/first_page/tiny.html")
    for words in ("made before anything was trained", 'href="../report/index.html"', "graph-tiny", "belly fat",
                  "1 text has no ranked keyword"):
        assert words in page, words
    for words in ("trained model", "contrast_vanished_keyword", 'id="hcl"', "Paired semantic importance"):
        assert words not in page, words
    assert not list(path.parent.glob(".*"))


def test_what_comes_later_changes_no_byte(project):
    before = write_first_page("tiny").read_bytes()
    paths = DatasetPaths("tiny")
    for later in (paths.table("side_by_side"), paths.metrics("side_by_side")):
        later.unlink()
    for folder in (paths.pos_frequency, MODELS, RUNS, PREDICTED, COMPARISON):
        shutil.rmtree(folder)
    assert write_first_page("tiny").read_bytes() == before


def test_a_graph_that_cannot_be_read_is_named(project):
    DatasetPaths("tiny").table("edges").write_bytes(b"cut off")
    with pytest.raises(InputError, match="edges.parquet"):
        write_first_page("tiny")
    assert not Path("artifacts/first_page/tiny.html").exists()


@pytest.mark.parametrize(("outcome", "there", "made"), [
    ("done", True, True), ("restored", False, True), ("cached", False, True), ("cached", True, False),
    ("failed", False, False), (None, False, False)])
def test_it_is_made_with_the_graph_or_where_it_is_missing(tmp_path, monkeypatch, outcome, there, made):
    monkeypatch.chdir(tmp_path)
    if there:
        place_of("tiny").parent.mkdir(parents=True)
        place_of("tiny").write_text("earlier")
    calls, said = [], []
    monkeypatch.setattr(first_page, "write_first_page", lambda dataset: calls.append(dataset) or place_of(dataset))
    session = SimpleNamespace(outcomes={"graph@tiny": outcome}, display=SimpleNamespace(say=said.append))
    token = flows._SESSION.set(session)
    try:
        flows.make_first_page.fn(SimpleNamespace(name="graph@tiny", key="tiny"))
    finally:
        flows._SESSION.reset(token)
    assert (calls, len(said)) == (["tiny"] * made, made)
