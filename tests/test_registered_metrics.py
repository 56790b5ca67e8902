"""A metric is registered once, and from there goes into scores, comparison, page, document and terminal."""

import json
from pathlib import Path

import numpy as np
import pytest
from report_artifacts import metrics_of, write_project
from rich.console import Console
from test_compare import SETTINGS, evaluated, rewriting
from test_metric_systems import table_of
from test_metrics import random_items

from pipeline.results import results_tables
from stages.common.paths import REPORT_PAGE, RunPaths
from stages.common.tables import write_json
from stages.metrics import registered
from stages.metrics.bleu import chrf_statistic
from stages.metrics.registered import FAMILIES, METRICS, Metric, metric
from stages.metrics.resampling import intervals, mean_statistic
from stages.metrics.systems import ScoredItems, score_system
from stages.params import load_params
from stages.results.compare import run
from stages.results.report import main
from stages.results.tracks import TRACKS

WORDS = ["café", "Bar", "foo", "你好", "a", "?"]


def test_every_metric_has_a_family_with_a_heading_and_every_family_metrics():
    assert {one.family for one in METRICS.values()} == set(FAMILIES)
    assert len({one.name for one in METRICS.values() if not one.key.startswith("released")}) > 40
    assert metric("not there").direction == 0 and metric("a_b").label == "a b"
    shown = {key: {column.key for table in track.layouts for column in table.columns} for key, track in TRACKS.items()}
    assert set().union(*shown.values()) == set(METRICS)
    for key, track in TRACKS.items():
        assert set(track.reported) <= shown[key] and len({one.short for one in track.headlines}) == len(track.headlines)


@pytest.mark.parametrize("seed", [1, 2])
def test_chrf_is_sacrebleu_s_whatever_the_spaces_and_follows_from_sums(seed):
    from sacrebleu.metrics import CHRF

    outputs, references = random_items(seed, 40, WORDS)
    streams = [[item[place] if place < len(item) else None for item in references] for place in range(3)]
    found = chrf_statistic(outputs, references)
    assert found.value() == pytest.approx(CHRF(lowercase=True).corpus_score(outputs, streams).score, abs=1e-9)
    cut = chrf_statistic([text.split() for text in outputs], [[text.split() for text in item] for item in references])
    np.testing.assert_array_equal(found.items, cut.items)
    half = found.of_sums(np.stack([found.items[:20].sum(0), found.items.sum(0)]))
    assert half[0] == pytest.approx(chrf_statistic(outputs[:20], references[:20]).value())
    assert chrf_statistic(["ABC"], [["abc"]]).value() == 100 and chrf_statistic([""], [["abc"]]).value() == 0


@pytest.fixture
def brevity(monkeypatch):
    """A metric that a user adds: the length of outputs in letters, less being better."""
    made = Metric("letters", "letters", "sacrebleu", "Mean number of letters.", -1, 1, short="lettr",
                  statistic=lambda outputs, _: mean_statistic(np.array([float(len(str(text))) for text in outputs])))
    monkeypatch.setattr(registered, "_ALL", [*registered._ALL, made])
    monkeypatch.setitem(METRICS, "letters", made)
    return made


@pytest.mark.parametrize("key", ["chrf", "letters"])
def test_a_registered_metric_is_scored_with_an_interval_and_compared(brevity, key):
    outputs, references = random_items(3, 40, WORDS)
    items = ScoredItems([item[0] for item in references], references, [None] * 40, [None] * 40)
    system = score_system(outputs, items, table_of(WORDS))
    low, high = intervals(system.statistics, 20, 0.9, 1)[key]
    assert low <= system.values[key] <= high
    for kind in (evaluated, rewriting):
        found = run([kind("one"), kind("two", 0.3)], *SETTINGS)
        assert key in set(found.paired["metric"]) and "interval" not in found.metrics["data/test"]["groups"]["one"][key]


def test_a_metric_is_shown_on_page_and_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_project()
    for paths, value in ((RunPaths("full", 13), 44.444), (RunPaths("plain", 99), 55.556)):
        content = json.loads(paths.metrics.read_text())
        write_json(paths.metrics, {**content, "run": metrics_of(0.5, 0.1, chrf=value)})
    assert main([]) == 0
    page = REPORT_PAGE.read_text(encoding="utf-8")
    assert "chrF <span" in page and '<td>55.56' in page and "F2 of the runs" in page
    params = load_params(Path("params.yaml"))
    narrow, wide = (results_tables(params, {"full"}, width=width)[0] for width in (80, 100))
    headings = [[column.header for column in table.columns] for table in (narrow, wide)]
    assert "chrF" not in headings[0] and headings[1][-1] == "chrF"
    assert Console(width=200).measure(narrow).maximum <= 80
