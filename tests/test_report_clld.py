"""The CLLD track of the report: its tables, steps, published rows, classes and pictures; and other tracks beside it."""

import contextlib
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from classifier_artifacts import ATTACK, CLASSES, provenance, write_classifiers
from report_outline import assert_sound, part, rows, track

import stages.results.page.classes
import stages.results.page.context
from pipeline.schemas import SCHEMAS
from stages.common.figures import Plot, file_name
from stages.common.paths import REPORT_PAGE, RunPaths
from stages.common.tables import write_table
from stages.params import load_params
from stages.results.gather import read_results
from stages.results.model import Classifier
from stages.results.page.answers import steps
from stages.results.page.classes import confusion_plot
from stages.results.report import main
from stages.tracks.clld.tables import confusion_table


@pytest.fixture(scope="module")
def alone(made_report):
    """A project folder with the report of a recipe of CLLD alone, made once and only read."""
    return made_report("clld")


@pytest.fixture
def page(alone):
    return (alone / REPORT_PAGE).read_text(encoding="utf-8")


@pytest.fixture
def plain(tmp_path, monkeypatch):
    """A project without its report; curves are left out of it, because drawing takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stages.results.page.context, "curve_groups", lambda *_: [])
    write_classifiers()
    return tmp_path


@pytest.fixture
def project(plain, monkeypatch):
    """The same with pictures that nobody has drawn, of 30,000 bytes each."""
    for kind in ("confusion", "distance"):
        monkeypatch.setattr(stages.results.page.classes, f"{kind}_plot", lambda run, *_, kind=kind: Plot(
            file_name(kind, run), kind, "", f'<svg viewBox="0 0 9 9"><desc>{"x" * 30_000}</desc></svg>', b""))
    return plain


def results_of(folder):
    with contextlib.chdir(folder):
        return read_results(load_params())


def test_the_page_is_sound_and_has_nothing_of_other_tracks(page):
    assert_sound(page)
    assert ATTACK not in page and "<img" not in page and "&lt;script&gt;alert(" in track(page, "clld")
    assert track(page, "hcl") == track(page, "pgkpr") == ""
    assert 'id="corpus"' not in page and 'class="explorer"' not in page


def test_the_results_have_baselines_runs_intervals_and_seeds(page, alone):
    results = part(page, "clld-results")
    found = {row[0]: row[1:] for row in rows(results) if row}
    assert found["system"] == ["accuracy ↑", "macro F1 ↑", "weighted F1 ↑", "NLL ↓", "Brier ↓", "ECE ↓"]
    assert found["majority"][3:] == ["–"] * 3 and found["majority"][0] == "0.2500"
    own = results_of(alone).runs[0].metrics["run"]["accuracy"]
    assert found["ct/13"][0] == f"{own:.4f}{own - 0.05:.4f} to {own + 0.05:.4f}"
    assert found["ct (2 seeds)mean ± sd over seeds"][:2] == ["0.7123± 0.0123"] * 2
    assert 'class="best"' not in results        # no row is better than every other beyond chance
    assert "60 texts: differences of a few hundredths are within chance" in results
    assert "<em>Majority</em>" in results and "<em>Copy</em>" not in results


def test_each_step_says_whether_it_helps(page):
    results = part(page, "clld-results")
    table = results[results.index('class="forest steps"'):]
    found = [row for row in rows(table, "<tbody>") if row]
    assert [row[0] for row in found if len(row) == 1] == [
        "Does the contrast help?", "Does the label distance help beyond it?", "Do both together help?"]
    shown = {row[0]: row[1:] for row in found if len(row) > 1}
    help_ = shown["CT+CL − CTTextCNN: cl (2 seeds) − ct (2 seeds)"]
    assert help_[:2] == ["helps", "+0.0500+0.0200 to +0.0800"]
    assert help_[3:] == ["0.010", "+0.0500+0.0200 to +0.0800"]
    assert shown["CT+CL − CTbundled encoder: mini-cl − mini"][0] == "no difference seen"
    assert shown["CT+CLALD − CT+CLTextCNN: clald − cl (2 seeds)"][0] == "hurts"
    assert len(shown) == 6


ROWS = {"ct": ("none", "first", {}), "two": ("two_views", "both", {}), "cl": ("uniform", "first", {"t": 1}),
        "sharp": ("uniform", "first", {"t": 0.05}), "both": ("uniform", "both", {"t": 1}),
        "ald": ("adaptive", "first", {"t": 1}), "sim": ("simcse", "first", {"t": 0.05}),
        "short-ct": ("none", "first", {}, 32), "short-ald": ("adaptive", "first", {"t": 1}, 32),
        "bert-cl": ("uniform", "first", {"t": 1}, 128, "bundled")}


def test_steps_compare_like_with_like():
    systems = [SimpleNamespace(name=name, settings={
        "kind": kind, "row": name, "ce_views": views, "contrast": contrast, "distance": {},
        "max_length": further[0] if further else 128, "encoder": further[1] if further[1:] else "textcnn"})
        for name, (kind, views, contrast, *further) in ROWS.items()]
    block = SimpleNamespace(systems=systems)
    found = {}
    for question, system, base in steps(block):
        found.setdefault(question, []).append((system.name, base.name))
    assert found == {
        "Does the contrast help?": [("cl", "ct"), ("sharp", "ct")],
        "Does the label distance help beyond it?": [("ald", "cl")],
        "Do both together help?": [("ald", "ct"), ("short-ald", "short-ct")],
        "Does another contrast help?": [("sim", "ct")],
        "Does a second view help without a contrast?": [("two", "ct")],
        "Does the contrast help beyond a second view?": [("cl", "two"), ("sharp", "two"), ("both", "two")],
        "Do both together help beyond a second view?": [("ald", "two")]}


def texts_in(plot):
    return ["".join(one.itertext()) for one in ElementTree.fromstring(plot.svg).iter() if one.tag.endswith("text")]


def test_confusions_say_themselves_the_most_frequent_first():
    names = ["alt.atheism", ATTACK, "\u05e2\u05d1\u05e8\u05d9\u05ea & \x00\x1b control", "",
             "a.class.whose.name.has.no.end.at.all"]
    counts = np.diag([8, 5, 3, 0, 10])
    counts[0, 4], counts[4, 0], counts[1, 2] = 6, 2, 1
    plot = confusion_plot("run", Classifier(pd.DataFrame({"class": names}), counts, pd.DataFrame()))
    assert plot.description.startswith(f"74.3\u00a0% right; most confused: {names[0]} and {names[4]} (6 + 2 texts); ")
    texts = texts_in(plot)
    assert [text for text in texts if text.isdigit()] == ["8", "6", "5", "1", "3", "2", "10"]
    assert {"(blank)", "a.class.whose.name.has.no\u2026"} <= set(texts) and any("\ufffd" in text for text in texts)
    assert "<script" not in plot.inline


def test_tables_of_other_classes_are_refused(project, capsys):
    table = confusion_table(np.eye(len(CLASSES), dtype=int), CLASSES).replace("alt.atheism", "alt.theism")
    write_table(RunPaths("cl", 13).table("confusion"), SCHEMAS["confusion"], table, provenance("x"))
    assert main([]) == 1
    assert "of other classes than classes.parquet" in capsys.readouterr().err
