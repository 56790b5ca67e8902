"""Classifying new texts with a run, and `keycontrast export --model` for AutoModelForSequenceClassification."""

import json
import os
import re
import subprocess
import sys
from contextlib import chdir
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import tiny_classes
import torch
from huggingface_hub import ModelCard
from rich.console import Console

from keycontrast.errors import InputError
from models.clld.export import load_exported
from pipeline.export import export_model
from pipeline.predict import predict
from pipeline.schemas import SCHEMAS
from stages.common.paths import RunPaths
from stages.common.settings import stage_hash
from stages.common.tables import read_frame
from stages.params import load_params
from stages.tracks.clld import export

OWN = {"encoder": None}    # the project's encoder
MODELS = {"ct": OWN, "contrasted": {**OWN, "contrast": "uniform"}, "mean": {**OWN, "overrides": {"pool": "mean"}},
          "words": {}, "untrained": {**OWN, "seeds": [9]}}
TEXTS = ["where can you find the school ?", "the dog can eat", "who is the cat ?"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    with chdir(folder):
        tiny_classes.write_project(folder, MODELS)
    tiny_classes.train(folder, "ct", "words", evaluate=True)
    tiny_classes.train(folder, "contrasted", "mean")
    return folder


@pytest.fixture(autouse=True)
def inside(project, monkeypatch):
    monkeypatch.chdir(project)


def exported(name, folder):
    said = StringIO()
    export_model(load_params(), name, folder, Console(file=said, width=300))
    return said.getvalue()


def code_of_the_card(folder):
    """The Python in the card of an exported model, which names only files that are there."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`([^`\s]+\.(?:json|md|py|safetensors))`", card)
    assert "config.json" in named and all((folder / name).is_file() for name in named)
    assert 'pipeline("text-classification"' in card and "ClldModel" not in card
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    return code


@pytest.mark.whole
def test_a_mean_over_tokens_brings_its_class_along(tmp_path):
    """Loaded in another process, where the project cannot be imported, as its user will."""
    said = exported("mean", tmp_path / "out")
    assert "MeanPooledForSequenceClassification, 3 classes" in said and "trust_remote_code=True" in said
    program = (f"import json, sys\nsys.modules['models'] = None\n{code_of_the_card(tmp_path / 'out')}"
               "print(json.dumps(classify(sys.argv[1:], batch_size=2)))")
    done = subprocess.run([sys.executable, "-c", program, *TEXTS], cwd=tmp_path / "out", text=True,
                          env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "cache")}, capture_output=True)
    assert done.returncode == 0, done.stderr
    for found, own in zip(json.loads(done.stdout.splitlines()[-1]), predict(load_params(), "mean", TEXTS), strict=True):
        assert {one["label"]: one["score"] for one in found} == pytest.approx(own["probabilities"], abs=1e-5)


def test_what_an_exported_mean_was_trained_for_is_a_mean_cross_entropy(tmp_path):
    exported("mean", tmp_path / "out")
    model = load_exported(tmp_path / "out")
    ids, labels = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]]), torch.tensor([0, 2])
    with torch.no_grad():
        found = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels)
        short = model(input_ids=ids[1:, :3])    # without padding or mask
    assert torch.allclose(found.loss, torch.nn.functional.cross_entropy(found.logits, labels))
    assert torch.allclose(short.logits, found.logits[1:], atol=1e-5)


def test_its_card_is_one_of_the_hub(project, tmp_path):
    """Figures are those of its evaluated runs, by the hub's own reader."""
    exported("contrasted", tmp_path / "before")
    before = ModelCard.load(tmp_path / "before" / "README.md")
    assert before.data.eval_results is None and "No licence is stated" in before.text
    export_model(load_params(), "ct", tmp_path / "after", Console(file=StringIO()), licence="mit")
    card = ModelCard.load(tmp_path / "after" / "README.md")
    accuracy = json.loads(RunPaths("ct", 13).metrics.read_text(encoding="utf-8"))["run"]["accuracy"]
    (result,) = [result for result in card.data.eval_results if result.metric_type == "accuracy"]
    assert (result.metric_value, result.dataset_name) == (accuracy, "tiny")
    assert (card.data.pipeline_tag, card.data.library_name, card.data.language) == ("text-classification",
                                                                                   "transformers", "en")
    assert stage_hash(load_params().plain(), "train_clld", "ct", 13) in card.text and "`number`" in card.text
    assert "keycontrast" in card.data.tags and card.data.license == "mit" and "No licence" not in card.text


def test_the_card_names_what_is_there_and_its_code_runs(tmp_path):
    exported("ct", tmp_path / "out")
    scope = {}
    with chdir(tmp_path / "out"):
        exec(code_of_the_card(Path()), scope)
    (found,) = scope["classify"](["the dog can eat " * 20])
    expected = next(predict(load_params(), "ct", ["the dog can eat " * 20]))["probabilities"]
    assert {one["label"]: one["score"] for one in found} == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("name", "message"), [
    ("words", r"words: transformers has no class for a TextCNN\. Use it as it is: `keycontrast predict words TEXT`, "
              r"or models\.clld\.clld\.ClldModel\.from_pretrained\(.*\)\. Of this recipe contrasted, ct, mean, "
              "untrained can be"),
    ("untrained", "models/untrained/9/model: no trained CLLD model"),
    ("contrastd", "no model is called 'contrastd'; did you mean 'contrasted'")])
def test_what_cannot_be_exported_is_said_with_what_to_do(name, message, tmp_path):
    with pytest.raises(InputError, match=message):
        exported(name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        exported("ct", tmp_path)


def test_an_export_with_other_logits_is_not_left(monkeypatch, tmp_path):
    def other(folder):
        model = load_exported(folder)
        torch.nn.init.zeros_(model.classifier.weight)
        return model

    monkeypatch.setattr(export, "load_exported", other)
    with pytest.raises(InputError, match="differ by .* so nothing was written"):
        exported("ct", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def lines(run, texts=TEXTS, **options):
    return list(predict(load_params(), run, texts, **options))


@pytest.mark.parametrize("run", ["ct", "words"])
def test_predictions_are_those_of_the_evaluated_run(run):
    evaluated = read_frame(RunPaths(run, 13).predictions, SCHEMAS["class_predictions"])
    found = lines(run, evaluated["text"].tolist())
    assert [line["text"] for line in found] == evaluated["text"].tolist()
    assert [line["label"] for line in found] == evaluated["predicted"].tolist()
    for line in found:
        assert list(line) == ["text", "label", "probability", "probabilities"]
        assert list(line["probabilities"]) == tiny_classes.CLASSES
        assert line["probability"] == max(line["probabilities"].values()) == line["probabilities"][line["label"]]
    stored = np.stack(evaluated["probabilities"].to_list())
    assert np.allclose([list(line["probabilities"].values()) for line in found], stored, atol=1e-5)


def test_what_a_classifier_cannot_do_is_said():
    with pytest.raises(InputError, match="--keyword: run ct is of the CLLD track, whose models classify"):
        lines("ct", keyword="dog")
