"""Starts of rewriters: a model of the track, or one that was exported, whose words are found by their spelling."""

import json
import re
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
import tiny_rewriters
import torch
from rich.console import Console
from safetensors.torch import load_file
from tiny_project import rows_added, weights

from pipeline.export import export_model
from pipeline.schemas import SCHEMAS
from stages.common.paths import DatasetPaths, ModelPaths
from stages.common.tables import Provenance, write_table
from stages.params import load_params
from stages.tracks.pgkpr import generate, train

FIRST = {"first": {"dataset": "tiny"}, "lstm": {"dataset": "tiny", "overrides": {"architecture": "residual_lstm"}}}
BY_TOKEN = ("embedder.words.weight", "generator.weight", "generator.bias", "reconstruction.output.weight",
            "reconstruction.output.bias")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_rewriters.write_project(folder, FIRST, training={"learning_rate": None})
        assert train.main(["first"]) == train.main(["lstm"]) == 0
        said = StringIO()
        export_model(load_params(), "first", folder / "given", Console(file=said))
        assert "models.pgkpr.NAME.init: " in said.getvalue()
    return folder


@pytest.fixture()
def inside(project, monkeypatch):
    yield from rows_added(project, monkeypatch, "pgkpr", train.main, {})


def test_a_row_of_no_epoch_is_the_start_itself(inside):
    assert inside("still", init="given", overrides={"training": {"epochs": 0}}) == 0
    given, found = load_file("given/model.safetensors"), weights("still")
    assert given.keys() == found.keys() and {value.dtype for value in given.values()} == {torch.float16}
    for name, value in given.items():
        torch.testing.assert_close(found[name], value.float(), rtol=0, atol=0, msg=name)
    history = pd.read_csv(ModelPaths("still", 13).history)
    assert history["epoch"].tolist() == [0] and history["validation_generation"].notna().all()
    metrics = json.loads(ModelPaths("still", 13).metrics.read_text())
    first = json.loads(ModelPaths("first", 13).metrics.read_text())
    assert metrics["validation"]["generation"] == pytest.approx(first["validation"]["generation"], rel=1e-2)
    assert "Weights at the start: those of given" in (ModelPaths("still", 13).weights / "README.md").read_text()
    assert generate.main(["still"]) == 0


def test_a_row_goes_on_from_another_model_and_the_plain_transformer_takes_what_it_shares(inside):
    slow = {"training": {"epochs": 1, "learning_rate": 1e-9}}
    assert inside("onward", init="artifacts/models/first", overrides=slow) == 0
    still = {"architecture": "transformer", "training": {"epochs": 0}}
    assert inside("plain", init="given", overrides=still) == 0
    given = load_file("given/model.safetensors")
    for name, value in weights("first").items():
        torch.testing.assert_close(weights("onward")[name], value, rtol=0, atol=1e-6)
    for name, value in weights("plain").items():
        torch.testing.assert_close(value, given[name].float(), rtol=0, atol=0)


def test_words_are_found_by_their_spelling(inside):
    path, whole = DatasetPaths("tiny").table("vocabulary"), tiny_rewriters.vocabulary_frame()
    own = pd.concat([whole[whole["kind"] != "word"], whole[whole["kind"] == "word"][:0:-1]])  # other order, one less
    own = own.assign(token_id=range(len(own))).astype({"token_id": "int32"})
    own.loc[own.index[-1], "token"] = "walrus"
    try:
        write_table(path, SCHEMAS["vocabulary"], own, Provenance("test", "0"))
        assert inside("other", init="given", overrides={"training": {"epochs": 0}}) == 0
    finally:
        write_table(path, SCHEMAS["vocabulary"], whole, Provenance("test", "0"))
    given, found = load_file("given/model.safetensors"), weights("other")
    numbers = {token: number for number, token in enumerate(whole["token"])}
    for name in BY_TOKEN:
        assert found[name].isfinite().all()
        for number, token in enumerate(own["token"]):
            if token != "walrus":
                torch.testing.assert_close(found[name][number], given[name][numbers[token]].float(), rtol=0, atol=0)
    assert not torch.equal(found["embedder.words.weight"][-1], torch.zeros(16))


def test_a_model_of_other_sizes_has_nothing(inside, capsys):
    narrow = {"sizes": {"width": 8}}
    for name, overrides in (("narrow", narrow), ("lstm2", {"architecture": "residual_lstm"})):
        assert inside(name, init="given", overrides=overrides) == 1
        assert re.search(r"init is given, and a model of architecture pgkpr cannot start one of (pgkpr: \S+ has "
                         r"another shape|residual_lstm: no weights have the same name)", capsys.readouterr().err)


def test_a_damaged_start_is_refused(inside, capsys):
    file = Path("given/model.safetensors")
    whole = file.read_bytes()
    try:
        file.write_bytes(whole[:-40])
        assert inside("odd", init="given") == 1
        assert "given/model.safetensors: has changed since" in capsys.readouterr().err
        file.unlink()
        Path("given/digests.json").rename("given/kept")
        assert inside("odd", init="given") == 1
        assert "init is given, and given/model.safetensors is not there" in capsys.readouterr().err
    finally:
        file.write_bytes(whole)
        Path("given/kept").rename("given/digests.json")
