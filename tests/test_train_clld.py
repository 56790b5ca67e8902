"""The train_clld stage on two dozen texts of three classes: rows, encoders, resuming, selection, artifacts, errors."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tiny_bert
import tiny_classes
import torch
from safetensors.torch import load_file
from selection import mostly_whole
from tiny_classes import CLASSES, MODELS
from transformers import AutoTokenizer, BertModel

from keycontrast.errors import InputError
from models.clld.clld import ClldModel
from pipeline.schemas import SCHEMAS
from stages.common.encoders import resolve_encoder
from stages.common.paths import ModelPaths
from stages.common.tables import read_frame
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.clld import confusing_pairs
from stages.tracks.clld.tables import LABELS, labelled_texts, matrix_at
from stages.tracks.clld.train import build, chosen_pairs, main, named_pairs, run, with_own_rates

ROWS = {"none": [], "uniform": [], "static_tau_pairs": [(1, 2)], "adaptive": [], "supcl_seq": [], "simcse": []}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return resolve_encoder(f"path:{tiny_bert.save_encoder(tmp_path_factory.mktemp('bert') / 'encoder')}")


def built(row="none", encoder=None, texts=("what is it",), **blocks):
    kind = "textcnn" if encoder is None else "bert"
    return build(tiny_classes.settings(kind, **blocks), row, ROWS[row], CLASSES, encoder, texts, seed=5)


@pytest.mark.parametrize(("change", "message"), [
    (lambda e, t: (e, t[3:]), "text 100 of example 0 is missing, and 2 more"),
    (lambda e, t: (e[e["split"] != "validation"], t), "the validation split is empty"),
    (lambda e, t: (e.assign(label="one"), t), "the training texts have no class but 'one'")])
def test_texts_that_cannot_be_learned_from_are_refused(change, message):
    found = tiny_classes.tables()
    with pytest.raises(InputError, match=message):
        labelled_texts(*change(found["labelled_examples"], found["texts"]))


@pytest.mark.parametrize("contrast", ROWS)
def test_every_row_has_its_contrast_and_its_matrix(contrast):
    model = built(contrast)[0]
    config, ldm = model.config, getattr(model, "ldm", None)
    kind = {"none": "none", "supcl_seq": "supervised", "simcse": "twin"}.get(contrast, "label_distance")
    assert config.contrast.kind == kind
    assert config.views == {"none": 1, "supcl_seq": 4}.get(contrast, 2)
    assert (model.head is None) is (contrast in ("none", "supcl_seq"))
    off = {"uniform": (1, 1), "adaptive": (1, 1), "static_tau_pairs": (1, 5)}.get(contrast)
    assert (ldm is None) is (off is None)
    if off:
        assert (float(ldm[0, 1]), float(ldm[1, 2])) == off and ldm.diagonal().tolist() == [1, 1, 1]


def test_all_rows_of_a_table_begin_with_the_same_weights(encoder):
    for source in (None, encoder):
        models = [built(contrast, source)[0].state_dict() for contrast in ROWS]
        for name, value in models[0].items():
            assert all(torch.equal(value, other[name]) for other in models[1:]), name


def test_the_vocabulary_is_of_the_training_texts_alone(encoder):
    tokenizer = built(texts=["Who is the dog", "the cat"])[1]
    assert tokenizer.get_vocab() == {"[PAD]": 0, "[UNK]": 1, "the": 2, "cat": 3, "dog": 4, "is": 5, "who": 6}
    assert built(encoder=encoder)[1].get_vocab() == AutoTokenizer.from_pretrained(encoder.location).get_vocab()


def test_an_encoder_starts_from_its_weights_or_from_none(encoder):
    with pytest.raises(InputError, match="65 tokens are more than the 64 that the encoder can"):
        built(encoder=encoder, max_length=65)
    weights = BertModel.from_pretrained(encoder.location).state_dict()
    taken = built(encoder=encoder)[0].encoder.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in taken.items())
    fresh = built(encoder=replace(encoder, pretrained=False))[0].encoder.state_dict()
    assert not torch.equal(fresh["encoder.layer.0.output.dense.weight"],
                           taken["encoder.layer.0.output.dense.weight"])


def test_rates_are_the_encoders_own_unless_they_are_given():
    names = ("learning_rate", "weight_decay", "schedule", "warmup")

    def rates(kind, **given):
        training = with_own_rates({"training": {"learning_rate": None, "schedule": None} | given}, kind)["training"]
        return tuple(training[name] for name in names)

    assert rates("textcnn") == (1e-3, 0.0, "constant", 0.0)
    assert rates("hub:albert-base-v2") == (2e-5, 0.1, "linear", 0.1)
    for named in ("constant", "linear"):  # it has no warm-up of ours
        assert rates("bundled", schedule=named)[2:4] == (named, 0.0)
    assert rates("bundled", learning_rate=0.5)[0] == 0.5


def train(folder, row="none", items=None, encoder=None, store=FolderCheckpoints, key="a", **blocks):
    torch.use_deterministic_algorithms(True)
    kind = "textcnn" if encoder is None else "bert"
    values = tiny_classes.settings(kind, **blocks)
    return run(tiny_classes.items() if items is None else items, values, row, ROWS[row], encoder, 13,
               store(folder, key))


@pytest.mark.parametrize("contrast", mostly_whole(ROWS, "none", "adaptive"))
def test_every_row_learns(tmp_path, contrast):
    trained = train(tmp_path, contrast, training={"epochs": 40, "patience": None})
    rows = trained.history.rows
    assert rows[-1]["train_ce"] < 0.7 * rows[0]["train_ce"]
    assert trained.history.best["accuracy"] > 0.6 > 0.34
    assert ("train_contrast" in rows[0]) is (contrast != "none")
    if contrast != "none":
        assert all(row["train_loss"] == pytest.approx(0.5 * (row["train_ce"] + row["train_contrast"])) for row in rows)
    assert trained.confusion.sum(1).tolist() == [3, 3, 3]
    assert trained.confusion.trace() / 9 == trained.history.best["accuracy"]
    assert trained.distances.empty is (contrast in ("none", "supcl_seq", "simcse"))
    assert bool(trained.updates) is (contrast == "adaptive")
    assert all(update["step"] < rows[trained.history.best_epoch - 1]["step"] for update in trained.updates[:1])


def test_an_adaptive_matrix_that_would_never_move_is_refused_before_any_step(tmp_path):
    with pytest.raises(InputError, match="would not move before the training ends"):
        train(tmp_path, "adaptive", training={"epochs": 2})


def same_weights(one, other):
    first, second = one.model.state_dict(), other.model.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_test_split_is_never_looked_at(tmp_path):
    items = tiny_classes.items()
    other = items.copy()
    test = other["split"] == "test"
    other.loc[test, "text"] = "where school"
    other.loc[test, "label"] = "person"
    assert same_weights(train(tmp_path / "one", "adaptive"), train(tmp_path / "two", "adaptive", items=other))


def test_a_class_of_one_text_or_of_test_texts_alone_is_a_class(tmp_path):
    items = tiny_classes.items()
    items.loc[0, "label"], items.loc[items["split"] == "test", "label"] = "alone", "zz unseen"
    trained = train(tmp_path, "adaptive", items=items)
    assert trained.model.config.classes == ["alone", *CLASSES, "zz unseen"] and trained.confusion.shape == (5, 5)
    assert trained.confusion[0].sum() == trained.confusion[4].sum() == 0


def test_pairs_are_named_by_classes_and_patterns():
    assert named_pairs([["place", "number"]], CLASSES, "pairs") == [(0, 2)]
    assert named_pairs([["p*"], ["number", "p*"], ["person", "place"]], CLASSES, "pairs") == [(0, 1), (0, 2), (1, 2)]
    with pytest.raises(InputError, match=r"models.clld.m.pairs: no class fits 'plaec'; did you mean 'place'"):
        named_pairs([["person", "plaec"]], CLASSES, "models.clld.m.pairs")
    with pytest.raises(InputError, match=r"pairs: \['num\*'\] is one class, and a group needs two"):
        named_pairs([["num*"]], CLASSES, "pairs")
    table = pd.DataFrame({"class": ["person", "number"], "other": ["place", "place"], "chosen": [True, False]})
    assert chosen_pairs(table, CLASSES, "ct") == [(1, 2)]
    with pytest.raises(InputError, match="model 'ct' confuses no two classes"):
        chosen_pairs(table[:0], CLASSES, "ct")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a model of every row, and one with an encoder."""
    folder = tmp_path_factory.mktemp("project")
    models = {**MODELS, "bert": {"encoder": None, "seeds": [7], "contrast": "adaptive"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_classes.write_project(folder, models)
        assert main(["ct"]) == 0 and confusing_pairs.main(["ct"]) == 0
        for name in models:
            assert name == "ct" or main([name]) == 0
    return folder


@pytest.fixture
def trained(project, monkeypatch):
    monkeypatch.chdir(project)
    return {**{name: ModelPaths(name, 13) for name in MODELS}, "bert": ModelPaths("bert", 7)}


TABLES = {"items.parquet", "validation_confusion.parquet", "label_distance.parquet"}


@pytest.mark.parametrize("name", ["ct", "clald", "bert"])
def test_stage_writes_what_a_run_and_a_report_need(trained, name):
    paths = trained[name]
    assert {path.name for path in paths.folder.iterdir()} == {"model", "history.csv", "metrics.json"} | TABLES
    inside = {"config.json", "digests.json", "model.safetensors", "trained_on.json", "README.md", "tokenizer.json",
              "tokenizer_config.json"}
    assert {path.name for path in paths.weights.iterdir()} == inside
    history, metrics = pd.read_csv(paths.history), json.loads(paths.metrics.read_text())
    assert metrics["epochs"] == len(history) == 4
    kept = history if name == "ct" else history.tail(1)  # the first that the adaptive matrix's first update reaches
    best = kept.sort_values(["validation_accuracy", "validation_loss", "epoch"], ascending=[False, True, True]).iloc[0]
    assert metrics["best_epoch"] == best["epoch"]
    for part, value in metrics["validation"].items():
        assert value == pytest.approx(best[f"validation_{part}"], rel=1e-6), part
    model = ClldModel.from_pretrained(paths.weights)
    assert metrics["parameters"] == sum(p.numel() for p in model.parameters()) and model.config.classes == CLASSES
    contrast = {**MODELS, "bert": MODELS["clald"]}[name].get("contrast", "none")
    assert metrics["contrast"] == contrast and metrics["row"] == LABELS[contrast]
    assert metrics["texts"] == tiny_classes.COUNTS and sum(metrics["training_texts"].values()) == 24
    counts = read_frame(paths.table("validation_confusion"), SCHEMAS["validation_confusion"])
    right = counts.loc[counts["label"] == counts["predicted"], "texts"].sum()
    assert right / counts["texts"].sum() == metrics["validation"]["accuracy"] and len(counts) == 9


def test_label_distances_are_those_of_the_row(trained):
    def table(name):
        return read_frame(trained[name].table("label_distance"), SCHEMAS["label_distance"])

    assert table("ct").empty and table("supcl").empty and table("simcse").empty
    for name in ("cl", "clsled", "named"):
        assert set(table(name)["evaluation"]) == {0} and len(table(name)) == 9
    assert set(table("cl")["distance"]) == {1.0}
    matrix, classes = matrix_at(table("named"))
    assert classes == CLASSES and matrix.tolist() == [[1, 5, 5], [5, 1, 5], [5, 5, 1]]
    chosen = read_frame(trained["ct"].confusing_pairs, SCHEMAS["confusing_pairs"]).query("chosen")
    apart = table("clsled").query("distance == 5")
    pairs = list(zip(chosen["class"], chosen["other"], strict=True))
    assert set(zip(apart["class"], apart["other"], strict=True)) == {*pairs, *((b, a) for a, b in pairs)}
    assert json.loads(trained["clsled"].metrics.read_text())["pairs"] == [list(pair) for pair in sorted(pairs)]
    moved = table("clald")
    assert moved["evaluation"].max() == 10 and moved["strength"].isna().sum() == 9
    saved = load_file(trained["clald"].weights / "model.safetensors")["ldm"].numpy()
    assert saved.max() > 1 and np.allclose(saved, matrix_at(moved, 10)[0])


def test_a_second_training_has_the_same_bytes(trained, monkeypatch):
    files = [path for name in ("clald", "bert") for path in sorted(trained[name].folder.rglob("*"))
             if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    for name in ("clald", "bert"):
        assert main([name]) == 0
    assert [path for path in files if path.read_bytes() != before[path]] == []
