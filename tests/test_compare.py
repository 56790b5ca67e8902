"""The stage compare: paired tests between runs on the same items, and groups of seeds."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import yaml
from nltk.translate.bleu_score import corpus_bleu
from scipy.stats import ttest_rel
from test_metrics import bleu
from test_resampling import paired_bootstrap

from pipeline.schemas import SCHEMAS
from stages.common.paths import COMPARISON, RunPaths, row_name
from stages.common.seeds import derived_seed
from stages.common.tables import Provenance, as_table, read_frame, read_metadata, write_json, write_table
from stages.metrics.bleu import sacrebleu
from stages.metrics.registered import METRICS, standing_alone
from stages.metrics.resampling import mean_statistic
from stages.results.compare import main, run
from stages.results.comparison import EvaluatedRun
from stages.results.tracks import TRACKS

ITEMS = 30
SETTINGS = (200, 0.95, 1)  # resamples, level, seed
MEANS, PGKPR_MEANS = ([name for name, *_ in SCHEMAS[kind].fields if name in METRICS]
                      for kind in ("scores", "paraphrase_scores"))
REFERENCES = [[f"what is the best way to learn thing {number} ?", f"how do i learn thing {number} quickly ?"]
              for number in range(ITEMS)]
SOURCES = [f"how can thing {number} be learned ?" for number in range(ITEMS)]


def predictions_frame(outputs, references=REFERENCES):
    return pd.DataFrame({"example_id": range(len(outputs)), "sample": 0, "source": SOURCES[:len(outputs)],
                         "keyword": "thing", "keyword_known": True, "prediction": outputs,
                         "references": references[:len(outputs)]})


def scores_frame(outputs, gain, draw):
    """Scores of the run around ``gain``, and of a baseline that copies."""
    def frame(system, texts, values):
        columns = {name: values for name in MEANS if name != "keyword_kept"}
        return pd.DataFrame({"system": system, "example_id": range(len(texts)), "output": texts, **columns,
                             "keyword_kept": [None, *[value > 0.5 for value in values[1:]]],
                             "cluster": [number % 5 for number in range(len(texts))],
                             "known": [number % 5 > 0 for number in range(len(texts))]})

    noise = draw.normal(scale=0.1, size=len(outputs))
    return pd.concat([frame("run", outputs, 0.5 + gain + noise),
                      frame("copy", SOURCES[:len(outputs)], np.full(len(outputs), 0.4))], ignore_index=True)


def run_paths(name):
    """The place of a run that results call ``name``, such as ``hcl/2``."""
    return RunPaths(row_name(name), int(name.partition("/")[2] or 1))


def evaluated(name, gain=0.0, items=ITEMS, split="test", dataset="data", references=REFERENCES):
    draw = np.random.default_rng(sum(map(ord, name)))
    outputs = [f"{references[number][0]} {name if draw.random() > gain else ''}" for number in range(items)]
    return EvaluatedRun(name, dataset, split, run_paths(name), predictions_frame(outputs, references),
                        scores_frame(outputs, gain, draw), TRACKS["hcl"])


def row_of(result, metric, first, second):
    found = result.paired.query("metric == @metric and first == @first and second == @second")
    assert len(found) == 1
    return found.iloc[0]


def test_every_pair_of_runs_and_baselines_stands_in_the_table_once():
    result = run([evaluated("one"), evaluated("two", 0.3), evaluated("three", 0.1)], *SETTINGS)
    names = ["one", "two", "three", "baseline copy"]
    for metric, rows in result.paired.groupby("metric"):
        assert list(zip(rows["first"], rows["second"], strict=True)) == list(combinations(names, 2)), metric
    assert set(result.paired["metric"]) == {*MEANS, "corpus_bleu_4", "source_bleu", "ibleu", *standing_alone()}
    assert set(result.paired["dataset"]) == {"data/test"} and set(result.paired["items"]) == {ITEMS}
    table = as_table(SCHEMAS["paired"], result.paired).to_pandas()
    np.testing.assert_allclose(table["difference"], table["first_value"] - table["second_value"], atol=2e-6)
    assert (table["low"] <= table["high"]).all() and table["p_value"].between(0, 1).all()


def test_differences_are_those_of_the_paired_bootstrap():
    one, two = evaluated("one"), evaluated("two", 0.3)
    result = run([one, two], *SETTINGS)
    values = [mean_statistic(each.scores.query("system == 'run'")["bleu_2"].to_numpy()) for each in (one, two)]
    expected = paired_bootstrap(*values, resamples=200, seed=derived_seed(1, "compare"))
    row = row_of(result, "bleu_2", "one", "two")
    assert row[["first_value", "second_value", "low", "high", "p_value"]].tolist() == pytest.approx(
        [expected.first, expected.second, expected.low, expected.high, expected.p_value], abs=1e-6)
    assert row["p_value"] == pytest.approx(2 / 201, abs=1e-6) and row["high"] < 0
    outputs, references = one.predictions["prediction"].tolist(), REFERENCES
    assert row_of(result, "sacrebleu", "one", "two")["first_value"] == pytest.approx(
        sacrebleu(outputs, references)[0], abs=1e-6)
    kept = one.scores.query("system == 'run'")["keyword_kept"].dropna().astype(float)
    assert row_of(result, "keyword_kept", "one", "two")["first_value"] == pytest.approx(kept.mean(), abs=1e-6)


def test_the_seeds_of_a_row_are_taken_together():
    runs = [evaluated("hcl/1", 0.2), evaluated("hcl/2", 0.3), evaluated("hcl/3", 0.1), evaluated("plain", 0.0)]
    result = run(runs, *SETTINGS)
    groups = result.metrics["data/test"]["groups"]
    assert list(groups) == ["hcl (3 seeds)", "hcl/1", "hcl/2", "hcl/3", "plain", "baseline copy"]
    together = groups["hcl (3 seeds)"]
    assert together["runs"] == ["hcl/1", "hcl/2", "hcl/3"] and together["seeds"] == [1, 2, 3]
    single = [groups[name]["bleu_1"]["mean"] for name in together["runs"]]
    assert together["bleu_1"]["mean"] == pytest.approx(np.mean(single), abs=2e-6)
    assert together["bleu_1"]["sd"] == pytest.approx(np.std(single, ddof=1), abs=2e-6)
    assert groups["plain"]["bleu_1"]["sd"] is None
    assert groups["baseline copy"]["runs"] == groups["baseline copy"]["seeds"] == []
    pairs = set(zip(result.paired["first"], result.paired["second"], strict=True))
    assert ("hcl (3 seeds)", "plain") in pairs and ("hcl/1", "hcl/2") in pairs
    assert not [pair for pair in pairs if pair[0] == "hcl (3 seeds)" and pair[1].startswith("hcl/")]


def test_a_verdict_takes_several_seeds():
    runs = [*(evaluated(f"hcl/{seed}", 0.2) for seed in (1, 2, 3)), *(evaluated(f"flat/{seed}") for seed in (1, 2, 3)),
            evaluated("plain")]
    found = run(runs, 200, 0.95, 7).paired
    found = found[found["metric"] == "bleu_1"].set_index(["first", "second"])
    whole = found.loc[("hcl (3 seeds)", "flat (3 seeds)")]
    means = [[one.scored("run")["bleu_1"].mean() for one in runs[start:start + 3]] for start in (0, 3)]
    assert whole["p_seeds"] == pytest.approx(ttest_rel(*means).pvalue, abs=1e-6)
    assert whole["seeds"] == 3 and whole["low_seeds"] <= whole["difference"] <= whole["high_seeds"]
    assert whole["verdict"] == int(whole["low_seeds"] > 0 and whole["p_seeds"] < 0.05)
    against_baseline = found.loc[("hcl (3 seeds)", "baseline copy")]
    assert against_baseline["seeds"] == 3 and against_baseline["verdict"] == 1
    single = found.loc[("hcl (3 seeds)", "plain")]
    assert single["seeds"] == 1 and single[["low_seeds", "high_seeds", "p_seeds", "detectable", "verdict"]].isna().all()


def test_shared_seeds_decide_the_difference_and_below_three_there_is_no_verdict():
    """A difference of all seeds beside an interval of some would lie outside it."""
    runs = [evaluated(name, gain) for name, gain in (("hcl/1", 0.2), ("hcl/2", 0.4), ("hcl/3", 0.6), ("flat/2", 0.0),
                                                     ("flat/3", 0.0), ("flat/4", 0.0))]
    row = row_of(run(runs, 200, 0.95, 7), "bleu_1", "hcl (3 seeds)", "flat (3 seeds)")
    means = [np.mean([one.scored("run")["bleu_1"].mean() for one in both]) for both in (runs[1:3], runs[3:5])]
    assert row[["first_value", "second_value"]].tolist() == pytest.approx(means, abs=1e-6)
    assert row["seeds"] == 2 and np.isnan(row["verdict"]) and row["low_seeds"] <= row["difference"] <= row["high_seeds"]


def test_only_runs_on_the_same_items_are_compared():
    others = [[f"another reference {number}"] for number in range(ITEMS)]
    runs = [evaluated("one"), evaluated("two"), evaluated("short", items=10),
            evaluated("valid", split="validation"), evaluated("else", dataset="other"),
            evaluated("refs", references=others)]
    result = run(runs, *SETTINGS)
    runs_of = {label: [name for name in found["groups"] if not name.startswith("baseline")]
               for label, found in result.metrics.items()}
    assert runs_of == {"data/test": ["one", "two"], "data/test (as short)": ["short"], "data/validation": ["valid"],
                       "other/test": ["else"], "data/test (as refs)": ["refs"]}
    assert result.metrics["data/test (as short)"]["items"] == 10
    pairs = result.paired.query("dataset == 'data/test' and metric == 'bleu_1'")
    assert list(zip(pairs["first"], pairs["second"], strict=True)) == [
        ("one", "two"), ("one", "baseline copy"), ("two", "baseline copy")]


def test_a_metric_that_one_run_lacks_is_left_out_of_its_pairs_only():
    one, two, three = evaluated("one"), evaluated("two"), evaluated("three")
    three.scores["bertscore"] = None
    result = run([one, two, three], *SETTINGS)
    pairs = result.paired.query("metric == 'bertscore'")
    assert list(zip(pairs["first"], pairs["second"], strict=True)) == [
        ("one", "two"), ("one", "baseline copy"), ("two", "baseline copy")]
    assert "bertscore" not in result.metrics["data/test"]["groups"]["three"]


# -- the PGKPR track ------------------------------------------------------------------------------------------

def rewriting(name, gain=0.0):
    """A run of the PGKPR track on the items of :func:`evaluated`; references are cut to four words where released."""
    one = evaluated(name, gain)
    scores = one.scores.assign(released_output=[" ".join(text.split()[:4]) for text in one.scores["output"]],
                               released_references=[[" ".join(text.split()[:4]) for text in texts]
                                                    for texts in REFERENCES] * 2)
    further = {column: 0.5 for column in PGKPR_MEANS if column not in MEANS}
    scores = scores.assign(**further).drop(columns=["token_nll", "cluster", "known"])
    return replace(one, scores=scores, track=TRACKS["pgkpr"])


def test_runs_of_the_pgkpr_track_are_compared_word_by_word_and_under_both_norms():
    one, two = rewriting("one"), rewriting("two", 0.3)
    result = run([one, two], *SETTINGS)
    corpus = {f"{kind}_bleu_{order}" for kind in ("released", "corpus") for order in range(1, 5)}
    assert set(result.paired["metric"]) == {*PGKPR_MEANS, *corpus, "source_bleu", "ibleu", *standing_alone()}
    outputs = [text.split() for text in one.predictions["prediction"]]
    references = [[text.split() for text in texts] for texts in REFERENCES]
    for order in (1, 3, 4):
        row = row_of(result, f"corpus_bleu_{order}", "one", "two")
        assert row["first_value"] == pytest.approx(bleu(outputs, references, "corpus")[order - 1], abs=1e-6)
    cut = [[words[:4] for words in item] for item in references]
    assert row_of(result, "released_bleu_3", "one", "two")["first_value"] == pytest.approx(
        corpus_bleu(cut, [words[:4] for words in outputs], (.33, .33, .34)), abs=1e-6)


def test_tracks_are_compared_apart_on_the_same_items():
    result = run([evaluated("hcl"), rewriting("pgkpr"), rewriting("ianet"),
                  replace(rewriting("short"), split="validation")], *SETTINGS)
    runs_of = {label: [name for name in found["groups"] if not name.startswith("baseline")]
               for label, found in result.metrics.items()}
    assert runs_of == {"data/test": ["hcl"], "data/test (PGKPR)": ["pgkpr", "ianet"], "data/validation": ["short"]}
    assert "released_bleu_1" not in result.metrics["data/test"]["groups"]["hcl"]


def test_strata_are_compared_as_if_there_were_no_other_items():
    both = [evaluated("hcl/1", 0.3), evaluated("hcl/2", 0.2), evaluated("flat")]
    whole = run(both, *SETTINGS)
    chosen = [number for number in range(ITEMS) if number % 5 >= 3]
    alone = run([replace(one, predictions=one.predictions.iloc[chosen],
                         scores=one.scores[one.scores["example_id"].isin(chosen)]) for one in both], *SETTINGS)
    part = whole.by_stratum[whole.by_stratum["stratum"] == "cluster3"].drop(columns="stratum")
    pd.testing.assert_frame_equal(part.reset_index(drop=True), alone.paired)
    found = whole.metrics["data/test"]["strata"]
    assert {name: one["items"] for name, one in found.items()} == {"cluster3": len(chosen), "known": 24}
    assert found["cluster3"]["groups"] == alone.metrics["data/test"]["groups"]
    assert list(alone.metrics["data/test"]["strata"]) == ["cluster3", "known"]
    as_table(SCHEMAS["by_stratum"], whole.by_stratum)
    assert "strata" not in run([rewriting("pgkpr")], *SETTINGS).metrics["data/test"]


# -- the stage ------------------------------------------------------------------------------------------------

PARAMS = {"recipe": "tiny", "datasets": {"data": {"source": "data.tsv"}, "other": {"source": "other.tsv"}},
          **{block: {"datasets": ["data"]} for block in ("keywords", "attribution", "graph", "node_vectors")},
          "paraphrase_items": {"datasets": {"data": {}}}, "compare": {"resamples": 100},
          "models": {"hcl": {"hcl": {"dataset": "data", "seeds": [13, 2]},
                             "plain": {"dataset": "data", "overrides": {"graph": {"iterations": 0}}}}},
          "runs": {"hcl": {"hcl": {"model": "hcl"}, "plain": {"model": "plain"}}}}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    for name, gain in (("hcl/13", 0.2), ("hcl/2", 0.3), ("plain/13", 0.0)):
        one, paths = evaluated(name, gain), run_paths(name)
        made = (Provenance(f"{stage}_hcl@{paths.name}", "0") for stage in ("generate", "evaluate"))
        write_table(paths.predictions, SCHEMAS["predictions"], one.predictions, next(made))
        write_table(paths.scores, SCHEMAS["scores"], one.scores, next(made))
        write_json(paths.metrics, {"run": {}, "settings": {"split": "test"}})
    return tmp_path


def test_stage_writes_pairs_and_groups_with_the_same_bytes(project):
    assert main([]) == 0
    paths = COMPARISON / "paired.parquet", COMPARISON / "metrics.json"
    first = [path.read_bytes() for path in paths]
    groups = json.loads(first[1])["data/test"]["groups"]
    assert groups["hcl (2 seeds)"]["seeds"] == [13, 2]
    assert {"mean", "sd", "low", "high"} == set(groups["hcl (2 seeds)"]["sacrebleu"])
    paired = read_frame(paths[0], SCHEMAS["paired"])
    assert ("hcl (2 seeds)", "plain") in set(zip(paired["first"], paired["second"], strict=True))
    assert "not adjusted" in read_metadata(paths[0])["models"]["test"]
    assert main([]) == 0
    assert [path.read_bytes() for path in paths] == first


def test_stage_refuses_scores_of_other_predictions(project, capsys):
    paths = RunPaths("plain", 13)
    predictions = read_frame(paths.predictions, SCHEMAS["predictions"])
    predictions["prediction"] = "other"
    write_table(paths.predictions, SCHEMAS["predictions"], predictions, Provenance("x", "0"))
    assert main([]) == 1
    assert "scores are not those of the run's predictions" in capsys.readouterr().err
