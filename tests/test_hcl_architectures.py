"""A model of another architecture, trained on the items of the HCL track, stands in its table like any other row."""

import json
import re

import pytest
import tiny_training
import torch
import yaml
from safetensors.torch import load_file

from keycontrast.errors import InputError
from pipeline.predict import predict
from pipeline.schemas import SCHEMAS
from stages.common.paths import ModelPaths, RunPaths
from stages.common.tables import read_frame
from stages.params import load_params
from stages.tracks.hcl import evaluate, generate, train

PIECES = {"architecture": "transformer", "training": {"epochs": 3},
          "transformer": {"layers": 1, "heads": 2, "width": 16, "feed_forward": 32}}
MODELS = {"hcl": {"dataset": "tiny"}, "pieces": {"dataset": "tiny", "overrides": PIECES}}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_training.write_project(folder, MODELS)
        params = yaml.safe_load((folder / "params.yaml").read_text())
        params["runs"] = {"hcl": {name: {"model": name, "decode": {"min_length": 1}} for name in MODELS}}
        (folder / "params.yaml").write_text(yaml.safe_dump(params))
        for name in MODELS:
            assert train.main([name]) == generate.main([name]) == evaluate.main([name]) == 0
    return folder


@pytest.fixture(autouse=True)
def add_rows(project, monkeypatch):
    """Adds models and runs to ``params.yaml`` for the test."""
    monkeypatch.chdir(project)
    file = project / "params.yaml"
    before = file.read_text()

    def add(models, runs=None):
        params = yaml.safe_load(before)
        params["models"]["hcl"] |= models
        params["runs"]["hcl"] |= runs or {}
        file.write_text(yaml.safe_dump(params))

    yield add
    file.write_text(before)


def test_rows_of_one_table_are_of_the_same_items():
    items = {name: read_frame(ModelPaths(name, 13).items, SCHEMAS["items"]) for name in MODELS}
    assert items["hcl"].equals(items["pieces"])
    predictions = {name: read_frame(RunPaths(name, 13).predictions, SCHEMAS["predictions"]) for name in MODELS}
    for column in ("example_id", "source"):
        assert predictions["hcl"][column].tolist() == predictions["pieces"][column].tolist()
    assert predictions["pieces"]["keyword"].isna().all() and predictions["pieces"]["keyword_known"].all()
    assert not predictions["pieces"]["prediction"].str.contains("[UNK]", regex=False).any()
    metrics = {name: json.loads(RunPaths(name, 13).metrics.read_text()) for name in MODELS}
    assert metrics["hcl"]["run"].keys() == metrics["pieces"]["run"].keys()
    assert metrics["hcl"]["baselines"] == metrics["pieces"]["baselines"]


def test_saved_tokenizers_do_not_cut():
    for name in MODELS:
        tokenizer = json.loads((ModelPaths(name, 13).weights / "tokenizer.json").read_text())
        assert tokenizer["truncation"] is None and tokenizer["padding"] is None
        assert "local_files_only" not in (ModelPaths(name, 13).weights / "tokenizer_config.json").read_text()


def test_new_texts_are_rewritten_without_keywords():
    texts = read_frame(RunPaths("pieces", 13).predictions, SCHEMAS["predictions"])
    lines = list(predict(load_params(), "pieces", texts["source"]))
    assert [(line["source"], line["words"]) for line in lines] == list(zip(texts["source"], texts["prediction"],
                                                                           strict=True))
    assert all(line.keys() == {"source", "prediction", "words"} for line in lines)
    with pytest.raises(InputError, match="--n: run pieces is of the HCL track, whose models draw further outputs"):
        list(predict(load_params(), "pieces", ["x"], n=2))


def test_a_baseline_goes_on_from_one_of_its_kind(add_rows, capsys):
    """At a rate that moves nothing it is the model that it began with, under Group-wise's loss too; else refused."""
    still = {**PIECES, "training": {"epochs": 1, "restart_learning_rate": 1e-12}}
    changes = {"onward": {}, "wider": {"transformer": {**PIECES["transformer"], "feed_forward": 64}}, "group": {
        "architecture": "group_wise", "group_wise": {**PIECES["transformer"], "pretrain_share": 0.0}}}
    add_rows({name: {"dataset": "tiny", "init": "artifacts/models/pieces", "overrides": still | change}
              for name, change in changes.items()})
    assert train.main(["onward"]) == train.main(["group"]) == 0
    assert train.main(["wider"]) == 1
    assert re.search(r"the model in init has other sizes \(.*\); give both rows the same", capsys.readouterr().err)
    first, *others = (load_file(ModelPaths(name, 13).weights / "model.safetensors")
                      for name in ("pieces", "onward", "group"))
    for other in others:
        torch.testing.assert_close(other, first, rtol=0, atol=1e-6)
    loss = {name: json.loads(ModelPaths(name, 13).metrics.read_text())["validation"]["loss"]
            for name in ("pieces", "onward")}
    assert loss["onward"] == pytest.approx(loss["pieces"], rel=1e-4)


@pytest.mark.parametrize(("model", "decode", "message"), [
    ({"init": "artifacts/models/hcl"}, {}, "init: hcl is of architecture hcl; a model of architecture transformer goes "
                                           "on from one of its own"),
    ({}, {"keyword": "random"}, "generate_hcl.keyword is 'random', but this model has no keyword"),
])
def test_what_it_cannot_do_is_refused(add_rows, capsys, model, decode, message):
    add_rows({"pieces": MODELS["pieces"] | model}, {"pieces": {"model": "pieces", "decode": decode}})
    assert (train.main(["pieces"]) if model else generate.main(["pieces"])) == 1
    said = capsys.readouterr().err
    assert re.search(message, said), said
