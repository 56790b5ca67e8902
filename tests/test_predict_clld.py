"""Classifying new texts with a run of the CLLD track: texts, tables, standard input; what cannot be done is said."""

from contextlib import chdir

import numpy as np
import pytest
import tiny_classes

from keycontrast.errors import InputError
from pipeline.predict import predict
from pipeline.schemas import SCHEMAS
from stages.common.paths import RunPaths
from stages.common.tables import read_frame
from stages.params import load_params

TEXTS = ["where can you find the school ?", "the dog can eat", "who is the cat ?", "zebra"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a classifier that starts from an encoder, and one of words alone; both are evaluated."""
    folder = tmp_path_factory.mktemp("project")
    with chdir(folder):
        tiny_classes.write_project(folder, {"ct": {"encoder": None}, "words": {}, "untrained": {}})
    tiny_classes.train(folder, "ct", "words", evaluate=True)
    return folder


@pytest.fixture(autouse=True)
def inside(project, monkeypatch):
    monkeypatch.chdir(project)


def lines(run, texts=TEXTS, **options):
    return list(predict(load_params(), run, texts, **options))


@pytest.mark.parametrize("run", ["ct", "words"])
def test_a_text_has_a_label_its_probability_and_that_of_every_class(run):
    found = lines(run)
    assert [line["text"] for line in found] == TEXTS
    for line in found:
        assert list(line) == ["text", "label", "probability", "probabilities"]
        assert list(line["probabilities"]) == tiny_classes.CLASSES
        assert sum(line["probabilities"].values()) == pytest.approx(1)
        assert line["probability"] == max(line["probabilities"].values()) == line["probabilities"][line["label"]]


@pytest.mark.parametrize("run", ["ct", "words"])
def test_predictions_are_those_of_the_evaluated_run(run):
    evaluated = read_frame(RunPaths(run, 13).predictions, SCHEMAS["class_predictions"])
    found = lines(run, evaluated["text"].tolist())
    assert [line["label"] for line in found] == evaluated["predicted"].tolist()
    stored = np.stack(evaluated["probabilities"].to_list())
    assert np.allclose([list(line["probabilities"].values()) for line in found], stored, atol=1e-5)


def test_what_a_classifier_cannot_do_is_said():
    with pytest.raises(InputError, match="--keyword: run ct is of the CLLD track, whose models classify"):
        lines("ct", keyword="dog")
    with pytest.raises(InputError, match=r"models/untrained/13/model: no trained CLLD model .* `keycontrast run`"):
        lines("untrained")
