"""The PGKPR track of the report: its tables, published rows, examples; and HCL beside it."""

import re

import pytest
from report_artifacts import REWRITERS, write_rewriting
from report_outline import Outline, part, rows, track

import stages.results.page.context
from stages.common.paths import REPORT_PAGE
from stages.results.report import main

RUNS = [run if "seeds" not in block else f"{run}/{seed}" for block, runs in REWRITERS.values()
        for seed in block.get("seeds", [13]) for run in runs]


@pytest.fixture(scope="module")
def both(made_report):
    """A project folder with the report of a recipe of both tracks, made once and only read."""
    return made_report("hcl", "pgkpr")


@pytest.fixture
def page(both):
    return (both / REPORT_PAGE).read_text(encoding="utf-8")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of PGKPR alone, without its report; curves are left out of it, because drawing takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stages.results.page.context, "curve_groups", lambda *_: [])
    write_rewriting()
    return tmp_path


def test_a_recipe_of_pgkpr_alone_has_no_empty_track_of_hcl(project):
    assert main([]) == 0
    text = REPORT_PAGE.read_text(encoding="utf-8")
    Outline(text)
    assert track(text, "hcl") == "" and 'href="#hcl-' not in text
    assert re.findall('<section aria-labelledby="([^"]+)"', text) == [
        "answer", "pgkpr-examples", "pgkpr-results", "pgkpr-training", "ran"]


def test_the_leading_table_has_released_values_with_raw_ones_beside_them(page):
    results = part(page, "pgkpr-results")
    first = results[results.index("<table"):results.index("</table>") + len("</table>")]
    headings = re.findall(r'<th class="group starts"[^>]*>([^<]+)</th>', first)
    assert headings == ["Corpus BLEU, released", "Corpus BLEU, raw", "ROUGE of py-rouge, released",
                        "ROUGE of py-rouge, raw", "ROUGE of rouge_score, raw", "Rewriting", "Keywords kept"]
    found = {row[0]: row[1:] for row in rows(first) if row}
    assert found["pgkpr/13"][:5] == ["0.6100.550 to 0.650", "0.310", "0.210", "0.160", "0.600"]
    assert found["copy"][:5] == ["0.710", "0.360", "0.243", "0.185", "0.700"]
    assert found["pgkpr/13"][-4:] == ["0.300", "0.400", "0.100", "0.750"]
    # Seeds stand below the runs, with what the comparison knows of them, or else their runs.
    assert found["pgkpr (2 seeds)mean ± sd over seeds"][:2] == ["0.543± 0.012", "0.285± 0.035"]
    assert 'class="best"' not in first      # nobody compared the first run with every other
    ours = [name for name in found if not name.startswith("paper")]
    assert ours[-len(RUNS) - 2:] == ["copy", *RUNS, "pgkpr (2 seeds)mean ± sd over seeds"]
    assert found["paper, Table 3a: w/o L_con"][0] == "0.5863"       # in our unit


def test_examples_mark_every_keyword_of_the_source(page):
    examples = part(page, "pgkpr-examples")
    assert "keywords <strong>are good workouts lose belly fat</strong>" in examples
    assert "what <mark>are</mark> <mark>good</mark> <mark>workouts</mark> to <mark>lose</mark>" in examples
    # The first rows, and markup that stays text.
    assert re.findall('class="output"><dt lang="en">(.*?)</dt>', examples)[:4] == [
        "pgkpr/13", "pgkpr-ref", "w-o-con", "psi-s"]
    assert "&lt;script&gt;alert(" in examples
