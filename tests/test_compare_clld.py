"""The stage compare for classifiers: metrics on resampled texts, McNemar's test, seeds and baselines."""

import json
from math import comb

import numpy as np
import pandas as pd
import pytest
from classifier_artifacts import (
    BINS,
    answers,
    class_predictions,
    class_scores,
    majority_scores,
    metrics_of,
    texts_of,
    write_classifiers,
)
from test_compare import run_paths
from test_resampling import paired_bootstrap

from pipeline.schemas import SCHEMAS
from stages.common.paths import COMPARISON
from stages.common.seeds import derived_seed
from stages.common.tables import as_table, read_frame
from stages.metrics.resampling import mean_statistic
from stages.results.compare import main, run
from stages.results.comparison import EvaluatedRun, mcnemar
from stages.results.tracks.clld import CLLD

SETTINGS = (200, 0.95, 1)  # resamples, level, seed
METRICS = {"accuracy", "macro_f1", "weighted_f1", "nll", "brier", "ece"}


def classifier(name, right=0.7, split="test", count=60):
    labels, texts = texts_of(count)
    found = answers(sum(map(ord, name)), right, labels)
    scores = pd.concat([class_scores("run", labels, found), majority_scores(labels)], ignore_index=True)
    return EvaluatedRun(name, "20ng", split, run_paths(name), class_predictions(labels, texts, found), scores, CLLD,
                        {"bins": BINS})


def pair(result, metric, first, second):
    found = result.paired.query("metric == @metric and first == @first and second == @second")
    assert len(found) == 1
    return found.iloc[0]


def correct(one):
    return one.scores.query("system == 'run'").sort_values("example_id")["correct"].to_numpy(bool)


def test_every_metric_is_compared_with_its_bootstrap():
    one, two = classifier("one"), classifier("two", 0.4)
    result = run([one, two], *SETTINGS)
    assert set(result.paired["metric"]) == METRICS
    # The baseline has no probabilities.
    of_majority = result.paired.query("second == 'baseline majority'")
    assert set(of_majority["metric"]) == {"accuracy", "macro_f1", "weighted_f1"}
    expected = paired_bootstrap(*(mean_statistic(correct(each).astype(float)) for each in (one, two)), resamples=200,
                                seed=derived_seed(1, "compare"))
    row = pair(result, "accuracy", "one", "two")
    assert row[["first_value", "second_value", "low", "high", "p_value"]].tolist() == pytest.approx(
        [expected.first, expected.second, expected.low, expected.high, expected.p_value], abs=1e-6)
    assert row["low"] > 0
    groups = result.metrics["20ng/test"]["groups"]
    for each in (one, two):
        known = metrics_of(each.scores.query("system == 'run'"))
        for metric in ("macro_f1", "weighted_f1", "nll", "brier"):
            assert groups[each.name][metric]["mean"] == pytest.approx(known[metric], abs=1e-6)
    assert as_table(SCHEMAS["paired"], result.paired).num_rows == len(result.paired)


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (0, 5), (3, 3), (2, 11), (700, 812)])
def test_mcnemar_by_hand(b, c):
    first = np.array([True] * b + [False] * c + [True, False])
    second = np.array([False] * b + [True] * c + [True, False])
    found = mcnemar(first, second)
    assert (found["both_right"], found["first_only"], found["second_only"], found["both_wrong"]) == (1, b, c, 1)
    tail = sum(comb(b + c, k) for k in range(min(b, c) + 1)) * 2 / 2**(b + c)
    assert found["p_value"] == pytest.approx(min(1.0, tail))
    assert mcnemar(second, first)["p_value"] == found["p_value"]


# -- the stage ------------------------------------------------------------------------------------------------

@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_classifiers(compare={"resamples": 100})
    return tmp_path


def test_stage_compares_classifiers_and_gives_the_same_bytes(project):
    assert main([]) == 0
    paths = [COMPARISON / name for name in ("paired.parquet", "mcnemar.parquet", "metrics.json")]
    before = [path.read_bytes() for path in paths]
    groups = json.loads(before[2])["20ng/test"]["groups"]
    assert groups["ct (2 seeds)"]["seeds"] == groups["cl (2 seeds)"]["seeds"] == [13, 99]
    assert set(groups["baseline linear"]) == {"runs", "seeds", *METRICS}
    exact = read_frame(paths[1], SCHEMAS["mcnemar"])
    assert len(exact) == 11 * 10 / 2
    assert main([]) == 0
    assert [path.read_bytes() for path in paths] == before
