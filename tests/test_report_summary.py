"""The top of the report: the answer of each table, and the corpus."""

import re
import shutil

import pandas as pd
import pytest
from report_artifacts import (
    ATTACK,
    metrics_of,
    over_seeds,
    provenance,
    write_dataset,
    write_params,
    write_project,
)
from report_outline import assert_sound, part, rows

import stages.results.page.context
from pipeline.schemas import SCHEMAS
from stages.common.paths import REPORT_PAGE, DatasetPaths
from stages.common.tables import write_table
from stages.results.gather import blocks_of
from stages.results.model import Run
from stages.results.page.answers import answer
from stages.results.page.corpus import read_tops, size_of, top_table
from stages.results.report import main
from stages.results.tracks.hcl import HCL


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder without a page; curves are left out of it, because drawing takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stages.results.page.context, "curve_groups", lambda *_: [])
    return tmp_path


def made():
    assert main([]) == 0
    text = REPORT_PAGE.read_text(encoding="utf-8")
    assert_sound(text)
    return text


# -- the answer -------------------------------------------------------------------------------------------------

def block(verdicts, seeds=2):
    """A block of ``full``, an ablation, a baseline and a floor; each is so far from ``full``."""
    settings = {"full": {}, "cut": {"graph": {"iterations": 0}}, "other": {"architecture": "seq2seq"}}
    runs = [Run(name, "hcl", name, "d", 1, HCL.row(own, {}),
                {"run": metrics_of(0.5, 0.1), "floors": {"copy": metrics_of(0.9, 1.0)}, "counts": {"examples": 64},
                 "settings": {"split": "test"}}) for name, own in settings.items()]
    groups = {name: {"runs": [name] if name in settings else [], "bleu_1": {"mean": 0.5}}
              for name in (*settings, "floor copy")}
    paired = pd.DataFrame(over_seeds([{"dataset": "d/test", "metric": "bleu_1", "first": name, "second": "full",
                            "items": 64, "first_value": 0.5 + far, "second_value": 0.5, "difference": far,
                            "low": far - 0.05, "high": far + 0.05, "p_value": 0.01} for name, far in verdicts.items()],
                                     seeds))
    found, = blocks_of(HCL, runs, {}, {"d/test": {"groups": groups}}, paired, pd.DataFrame())
    return answer(found)


@pytest.mark.parametrize(("cut", "other", "copy", "said"), [
    (-0.1, 0.1, -0.1, "the graph helps; it is better than copy; it is worse than other"),
    (0.1, -0.1, 0.1, "the graph hurts; it is better than other; it is worse than copy"),
    (0.01, -0.1, 0.0, "the graph has no clear effect; it is better than other; it is not clearly different from copy"),
])
def test_each_table_is_answered_in_a_sentence(cut, other, copy, said):
    assert block({"cut": cut, "other": other, "floor copy": copy}).sentence == (
        f"full reaches 0.500 in BLEU-1, order alone, on 64 items; {said}.")


def test_each_row_says_what_its_difference_means():
    found = block({"cut": -0.1, "other": 0.01, "floor copy": 0.2})
    assert [(system.name, row.said, row.interval, row.verdict) for system, row in found.differences] == [
        ("copy", "better", "+0.150 to +0.250", "better-text"),
        ("cut", "the graph: helps", "\u22120.150 to \u22120.050", "worse-text"),
        ("other", "cannot be told", "\u22120.040 to +0.060", "")]
    assert block({}).differences == [] and block({}).sentence.endswith("on 64 items.")


def test_a_row_of_one_seed_gets_no_verdict():
    found = block({"cut": -0.1, "other": 0.1, "floor copy": 0.2}, seeds=1)
    assert {(row.said, row.verdict) for _, row in found.differences} == {("", "")}
    # Floors are compared as this training ended.
    assert found.sentence.endswith("on 64 items; it is worse than copy.") and found.one_seed


def test_one_seed_is_said_once_on_the_page(project):
    write_project()
    text = made()
    assert text.count("ne seed: no verdict") == 1
    order = [text.index(f'<h2 id="{name}"') for name in ("answer", "examples", "corpus", "results", "training", "ran")]
    assert order == sorted(order)


# -- the corpus -------------------------------------------------------------------------------------------------

def test_top_keywords_stand_by_method_the_most_frequent_first(project):
    write_project()
    corpus = part(made(), "corpus")
    table = rows(corpus[corpus.index('<table class="tops">'):])
    assert table[0] == ["TextRank", "attribution", "PSI", "YAKE", "IDF"]
    assert table[1] == ["belly fat (3)", f"{ATTACK} (1)", "lose (1)", "belly (6)", "first (6)"]
    assert table[4][:2] == ["reads (1)", ""]
    assert corpus.index("6 phrases") < corpus.index('class="explorer"') < corpus.index('class="tops"')


def test_without_methods_side_by_side_the_chosen_keywords_stand_alone(project):
    write_dataset()
    paths = DatasetPaths("tiny")
    shutil.rmtree(paths.table("side_by_side"))
    keywords = pd.DataFrame({"keyword": ["b", "a", "<nokw>", "a"]})
    assert top_table(read_tops(paths, keywords, True)) == (["keyword"], [["a (2)"], ["b (1)"]])
    assert read_tops(paths, None, True) == {} and size_of(0, {}) == ""


def test_keywords_alone_make_a_page_without_empty_sections(project):
    write_params(models={"hcl": {}}, runs={"hcl": {}}, probes={"hcl": {}})
    write_table(DatasetPaths("tiny").table("keywords"), SCHEMAS["keywords"], pd.DataFrame({
        "text_id": [0, 1], "keyword": ["god", ATTACK], "method": "textrank", "score": 0.5}), provenance("keywords@x"))
    text = made()
    assert re.findall(r'<section aria-labelledby="([^"]+)"', text) == ["corpus", "ran"]
    assert "2 texts</p>" in text and "god (1)" in text and 'class="explorer"' not in text and ATTACK not in text
