"""Starts from elsewhere: what an HCL model has trained beside its encoder, exported, and rows that begin with it."""

import json
import re
from io import StringIO

import pandas as pd
import pytest
import tiny_training
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from tiny_project import rows_added, weights

from keycontrast.errors import InputError
from pipeline.export import export_model
from stages.common.paths import ModelPaths
from stages.params import load_params
from stages.tracks.hcl import generate, train

FROZEN = {"training": {"epochs": 2, "freeze_layers": 2}}
MODELS = {"first": {"dataset": "tiny", "overrides": FROZEN}, "loose": {"dataset": "tiny"},
          "pieces": {"dataset": "tiny", "overrides": {"architecture": "transformer"}}}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_training.write_project(folder, MODELS)
        assert train.main(["first"]) == train.main(["loose"]) == 0
        said = StringIO()
        export_model(load_params(), "first", folder / "given", Console(file=said))
        assert "models.hcl.NAME.init: " in said.getvalue()
    return folder


@pytest.fixture()
def inside(project, monkeypatch):
    yield from rows_added(project, monkeypatch, "hcl", train.main, {"decode": {"min_length": 1}})


def test_a_start_holds_what_was_trained_beside_the_encoder_in_half_precision(project):
    tensors, whole = load_file(project / "given" / "start.safetensors"), None
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        whole = weights("first")
    assert {value.dtype for value in tensors.values()} == {torch.float16}
    assert not any(name.startswith(("encoder.", "graph.")) for name in tensors)
    assert any(name.startswith("decoder.") for name in tensors) and tensors.keys() <= whole.keys()
    for name, value in tensors.items():
        torch.testing.assert_close(value, whole[name].to(torch.float16), rtol=0, atol=0)


def test_a_row_of_no_epoch_is_the_start_itself(inside, project):
    assert inside("still", init="given", overrides={"training": {"epochs": 0}}) == 0
    tensors, found = load_file(project / "given" / "start.safetensors"), weights("still")
    for name, value in tensors.items():
        torch.testing.assert_close(found[name], value.float(), rtol=0, atol=0, msg=name)
    history = pd.read_csv(ModelPaths("still", 13).history)
    assert history["epoch"].tolist() == [0] and history["validation_reconstruction"].notna().all()
    metrics = json.loads(ModelPaths("still", 13).metrics.read_text())
    first = json.loads(ModelPaths("first", 13).metrics.read_text())
    assert metrics["validation"]["reconstruction"] == pytest.approx(first["validation"]["reconstruction"], rel=1e-2)
    assert generate.main(["still"]) == 0


def test_a_start_of_another_encoder_or_a_damaged_one_is_refused(inside, project, tmp_path, capsys):
    given = project / "given" / "start.safetensors"
    facts = project / "given" / "start.json"
    whole, known = given.read_bytes(), facts.read_text()
    tensors = load_file(given)

    def refused(match):
        assert inside("odd", init="given") == 1
        assert re.search(match, capsys.readouterr().err)

    try:
        given.write_bytes(whole[:-40])
        refused("given: the start is damaged")
        save_file({name: value for name, value in tensors.items() if name != sorted(tensors)[0]}, given)
        refused(rf"given: the start is damaged \({re.escape(sorted(tensors)[0])} is missing")
        given.unlink()
        refused(r"init is given, and .*start.safetensors is not there")
        given.write_bytes(whole)
        facts.write_text(json.dumps({**json.loads(known), "encoder": {"name": "another", "sha256": "0"}}))
        refused("given: this start was trained over the encoder another, and encoder.source is")
    finally:
        given.write_bytes(whole)
        facts.write_text(known)


def test_what_cannot_be_a_start_is_said(project, monkeypatch, tmp_path):
    monkeypatch.chdir(project)
    for name, message in (("loose", "its encoder was trained too .* Freeze it whole"),
                          ("pieces", "pieces is of architecture transformer; only those of architecture hcl")):
        with pytest.raises(InputError, match=message):
            export_model(load_params(), name, tmp_path / "out", Console(file=StringIO()))
    assert not (tmp_path / "out").exists()
