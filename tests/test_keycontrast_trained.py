"""Trained runs loaded from a project's folder: the answers of ``keycontrast predict``, from anywhere."""

import os
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console
from test_predict_clld import TEXTS, lines, project  # noqa: F401 - a fixture

import keycontrast
from keycontrast import InputError, load, trained
from pipeline.export import export_model
from stages.params import load_params


@pytest.fixture(scope="module")
def model(project):  # noqa: F811
    with load(project, "ct") as found:
        yield found


def test_a_classifier_answers_as_the_command_does(model, project, monkeypatch):  # noqa: F811
    assert (model.track, model.classifies, model.project) == ("CLLD", True, project)
    found = model.predict(TEXTS)
    assert model.classify(TEXTS) == [line["label"] for line in found]
    assert model.predict([]) == []
    monkeypatch.chdir(project)
    assert found == lines("ct")


@pytest.mark.whole
def test_it_works_beside_modules_of_the_same_names(model, project, tmp_path):  # noqa: F811
    (tmp_path / "models.py").write_text("MINE = 1\n")
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text("raise ImportError('not this one')\n")
    (tmp_path / "program.py").write_text(
        "import sys, models\nfrom keycontrast import load\n"
        "print(models.MINE, load(sys.argv[1], 'ct').classify([sys.argv[2]])[0])\n")
    done = subprocess.run([sys.executable, "program.py", str(project), TEXTS[0]], cwd=tmp_path, capture_output=True,
                          text=True, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout.split(maxsplit=1) == ["1", f"{model.classify(TEXTS[:1])[0]}\n"]


def test_what_is_wrong_is_said(model, project, tmp_path):  # noqa: F811
    with pytest.raises(InputError, match=r"no params.yaml there, hence no project"):
        load(tmp_path, "ct")
    with pytest.raises(InputError, match="'tc'"):
        load(project, "tc")
    with pytest.raises(InputError, match="leave it out"):
        load(project, "ct", keyword="dog")
    with pytest.raises(InputError, match="of the CLLD track and classifies texts; call classify"):
        model.paraphrase(TEXTS)
    with pytest.raises(InputError, match=r"put one into a list"):
        model.predict("a text")
    with pytest.raises(InputError, match=r"text 1 is of type int"):
        model.predict(["a text", 3])
    assert len(model.predict(TEXTS[:2])) == 2  # an error of one call does not end the process


@pytest.mark.whole
def test_the_folder_of_a_run_is_enough(model, project, monkeypatch):  # noqa: F811
    with load(project / "artifacts" / "runs" / "ct" / "3") as found:
        assert (found.run, found.project) == ("ct", project) and found.predict(TEXTS) == model.predict(TEXTS)
    asked = []
    monkeypatch.setattr(trained, "Trained", lambda *given: asked.append(given))
    load(project / "artifacts" / "runs" / "ct", n=2)
    ((folder, options),) = asked
    assert folder == project and (options["run"], options["seed"], options["n"]) == ("ct", None, 2)


@pytest.mark.whole
def test_an_exported_classifier_answers_without_its_project(model, project, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(project)
    export_model(load_params(), "ct", tmp_path / "mine", Console(file=StringIO()))
    monkeypatch.chdir(tmp_path)
    texts = [*TEXTS, " ".join(["zebra"] * 40)]  # the last is longer than what is read
    with load("mine") as found:
        assert (found.run, found.classifies) == ("mine", True) and found.predict([]) == []
        for one, other in zip(found.predict(texts), model.predict(texts), strict=True):
            assert (one["text"], one["label"]) == (other["text"], other["label"])
            assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
            assert one["probability"] == one["probabilities"][one["label"]]


@pytest.mark.whole
def test_a_wrong_folder_is_named_with_the_remedy(project, tmp_path):  # noqa: F811
    (tmp_path / "config.json").write_text('{"architectures": ["BartForConditionalGeneration"]}')
    for place, options, message in (
            (tmp_path, {}, "holds BartForConditionalGeneration, no classifier. Load it with that class"),
            (tmp_path, {"n": 2}, "n: .* is an exported model"),
            (project, {}, r"a project; say which run: .* It has computed .*\bct\b"),
            (project / "artifacts", {}, "nor is it artifacts/runs/NAME of one"),
            (project / "artifacts" / "models" / "ct" / "3" / "model", {}, "nor is it artifacts/runs/NAME of one"),
            (project / "artifacts" / "runs" / "ct" / "3", {"seed": 4}, "folder of seed 3; leave one out"),
            (project / "artifacts" / "runs" / "ct", {"run": "words"}, "folder of run ct; leave one out")):
        with pytest.raises(InputError, match=message):
            load(place, **options)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="config.json: damaged .* Export the model again"):
        load(tmp_path)


@pytest.mark.whole
def test_a_closed_run_says_so(project):  # noqa: F811
    found = load(project, "ct")
    found.close()
    with pytest.raises(InputError, match="run ct is closed; load it again"):
        found.predict(TEXTS)


@pytest.mark.whole
def test_a_process_that_dies_is_told(project):  # noqa: F811
    found = load(project, "ct")
    found._process.kill()
    found._process.wait()
    with pytest.raises(InputError, match=r"the process of run ct ended \(status -9\)"):
        found.predict(TEXTS)


def test_it_is_of_the_package():
    assert {"load", "Trained"} <= set(keycontrast.__all__)
