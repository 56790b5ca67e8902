"""The evaluate_clld stage: predictions, metrics against scikit-learn, baselines, calibration by hand, artifacts."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny_classes
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss
from tiny_classes import CLASSES
from transformers import AutoTokenizer

from keycontrast.errors import InputError
from models.clld.clld import ClldModel
from pipeline.schemas import SCHEMAS
from stages.common.device import computed_in
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.tables import read_frame, read_metadata
from stages.tracks.clld import linear_baseline
from stages.tracks.clld import train as train_clld
from stages.tracks.clld.evaluate import (
    baseline_systems,
    brier,
    calibration_table,
    main,
    nll,
    run,
)
from stages.tracks.clld.export import TrainedOn
from stages.tracks.common.evaluation import Resampling

ON = TrainedOn("tiny", "none", "textcnn", 12, {"number": 5, "person": 8, "place": 8})


def held_out():
    items = tiny_classes.items()
    return items[items["split"] == "test"].reset_index(drop=True)


def drawn(seed=0, count=9, classes=3):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), count)


def evaluate(items=None, probabilities=None, resamples=100, level=0.95, **baselines):
    items = held_out() if items is None else items
    found = drawn(0, len(items)) if probabilities is None else probabilities
    return run(items, found, baselines, CLASSES, Resampling(resamples, level, 13))


def test_metrics_are_those_of_scikit_learn():
    items, probabilities = held_out(), drawn()
    metrics = evaluate(probabilities=probabilities)[1]["run"]
    labels = items["label"].map(CLASSES.index)
    said = probabilities.argmax(1)
    assert metrics["accuracy"] == accuracy_score(labels, said)
    assert metrics["macro_f1"] == pytest.approx(f1_score(labels, said, average="macro"))
    assert metrics["weighted_f1"] == pytest.approx(f1_score(labels, said, average="weighted"))
    assert metrics["nll"] == pytest.approx(log_loss(labels, probabilities))
    right = np.eye(3)[labels]
    assert metrics["brier"] == pytest.approx(((right - probabilities)**2).sum(1).mean())


def test_surprise_and_distance_of_a_text_by_hand():
    found = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    labels = np.array([0, 2])
    assert nll(labels, found) == pytest.approx([np.log(2), 708.4], abs=0.1)  # not infinite
    assert brier(labels, found) == pytest.approx([0.25 + 2 / 16, 2])


def test_calibration_by_hand():
    probability = np.array([0.25, 0.3, 0.5, 0.51, 0.75, 1.0])
    table = calibration_table(probability, np.array([True, False, True, True, True, False]), 4)
    assert table["texts"].tolist() == [1, 2, 2, 1]  # the upper end of a bin is in it
    assert table["confidence"].tolist() == pytest.approx([0.25, 0.4, 0.63, 1.0])
    assert table["accuracy"].tolist() == [1.0, 0.5, 1.0, 0.0]
    assert table[["from", "to"]].to_numpy().tolist() == [[0, .25], [.25, .5], [.5, .75], [.75, 1]]
    empty = calibration_table(np.array([0.9]), np.array([True]), 2)
    assert empty["texts"].tolist() == [0, 1] and empty[["confidence", "accuracy"]].isna().iloc[0].all()


def test_baselines_stand_beside_the_run_on_the_same_texts():
    items = held_out()
    linear = pd.DataFrame({"example_id": items["example_id"], "label": items["label"],
                           "probabilities": list(drawn(1))})
    baselines = baseline_systems(items, ON, linear.sample(frac=1, random_state=0))
    tables, metrics = evaluate(**baselines)
    assert set(metrics["baselines"]) == {"majority", "linear"}
    majority = {"accuracy": 1 / 3, "macro_f1": 1 / 6, "weighted_f1": 1 / 6}
    assert metrics["baselines"]["majority"] == pytest.approx(majority)
    expected = evaluate(probabilities=drawn(1))[1]
    assert metrics["baselines"]["linear"] == expected["run"]
    assert metrics["intervals"]["baselines"]["linear"] == expected["intervals"]["run"]
    scores = tables["class_scores"]
    assert scores["system"].value_counts().to_dict() == {"run": 9, "majority": 9, "linear": 9}
    majority = scores[scores["system"] == "majority"]
    assert set(majority["predicted"]) == {"person"} and majority[["probability", "nll", "brier"]].isna().all(axis=None)


@pytest.mark.parametrize(("change", "message"), [
    (lambda t: t[2:], "example 33 was evaluated and is missing there, and 1 more. Run linear_baseline again"),
    (lambda t: t.assign(probabilities=[row[:2] for row in t["probabilities"]]), "not those of the model, which knows"),
    (lambda t: t.assign(label="place"), "its classes or labels are not those")])
def test_a_baseline_of_other_texts_is_refused(change, message):
    items = held_out()
    table = pd.DataFrame({"example_id": items["example_id"], "label": items["label"], "probabilities": list(drawn(1))})
    with pytest.raises(InputError, match=message):
        baseline_systems(items, ON, change(table))


@pytest.fixture(scope="module")
def trained_project(tmp_path_factory):
    """A project with a trained TextCNN, a trained BERT and the linear baseline."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_classes.write_project(folder, {
            "ct": {}, "bert": {"encoder": "path", "path": "encoder", "contrast": "uniform"}})
        assert train_clld.main(["ct"]) == train_clld.main(["bert"]) == linear_baseline.main(["tiny"]) == 0
    return folder


@pytest.fixture
def project(trained_project, monkeypatch):
    monkeypatch.chdir(trained_project)
    return trained_project


@pytest.mark.parametrize("name", ["ct", "bert"])
def test_stage_writes_everything_with_the_same_bytes(project, name):
    assert main([name]) == 0
    paths = RunPaths(name, 13)
    files = [*sorted(paths.folder.iterdir()), paths.predictions]
    assert {path.name for path in files} == {"predictions.parquet", "scores.parquet", "classes.parquet",
                                             "confusion.parquet", "calibration.parquet", "metrics.json"}
    before = [path.read_bytes() for path in files]
    assert main([name]) == 0 and [path.read_bytes() for path in files] == before
    metrics = json.loads(paths.metrics.read_text())
    assert metrics["settings"] | {"split": "test", "model": name, "dataset": "tiny", "bins": 15, "level": 0.95,
                                  "contrast": "none" if name == "ct" else "uniform"} == metrics["settings"]
    assert metrics["settings"]["row"] == ("CT" if name == "ct" else "CT+CL")
    scores = read_frame(paths.scores, SCHEMAS["class_scores"])
    for system, values in {"run": metrics["run"], **metrics["baselines"]}.items():
        own = scores[scores["system"] == system]
        assert values["accuracy"] == pytest.approx(own["correct"].mean(), abs=1e-6), system
    assert metrics["baselines"]["linear"]["accuracy"] == pytest.approx(
        json.loads(DatasetPaths("tiny").metrics("linear_baseline").read_text())["test"]["accuracy"])
    assert metrics["counts"]["examples"] == 9 == read_metadata(paths.scores)["counts"]["examples"]
    assert read_metadata(paths.predictions)["precision"] == computed_in("fp32", False)


def test_probabilities_are_those_of_the_saved_model_text_by_text(project):
    assert main(["bert"]) == 0
    rows = read_frame(RunPaths("bert", 13).predictions, SCHEMAS["class_predictions"])
    folder = ModelPaths("bert", 13).weights
    model, tokenizer = ClldModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for row in rows.itertuples():
        encoded = tokenizer(row.text, return_tensors="pt", truncation=True, max_length=12)
        with torch.no_grad():
            expected = model(encoded["input_ids"], encoded["attention_mask"]).double().softmax(-1)[0]
        assert np.allclose(row.probabilities, expected, atol=1e-6)
        assert row.probability == max(row.probabilities) and row.predicted == CLASSES[int(expected.argmax())]
