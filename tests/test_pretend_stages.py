"""Every stage and command that can use a GPU, on the pretend device: what CUDA refuses, it refuses.

A stage that leaves a tensor on the CPU, takes an operation that has no deterministic implementation on CUDA, or reads
a tensor of the device by NumPy, ends in an exception here. Where nothing is drawn, outputs are those of the CPU.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import test_node_vectors
import tiny_bert
import tiny_classes
import tiny_rewriters
import tiny_training
import torch
import yaml
from pretend import DEVICE, workloads
from pretend.project import change_params, stages_on_device
from test_attribution_stage import project as attribution_project  # noqa: F401 - a fixture
from test_attribution_stage import tokenizer  # noqa: F401 - which it asks for
from test_pair_classifier import encoder_folder  # noqa: F401 - likewise
from test_pair_classifier import project as classifier_project  # noqa: F401
from test_predict_pgkpr import TEXTS
from test_predict_pgkpr import project as rewriting_project  # noqa: F401
from test_s_tagger import project as tagger_project  # noqa: F401
from tiny_training import Killed
from transformers import AlbertConfig, AlbertModel

from pipeline.predict import predict
from pipeline.schemas import SCHEMAS
from stages.attribution import attribution, pair_classifier
from stages.common.paths import DatasetPaths, ModelPaths, RunPaths
from stages.common.tables import Provenance, read_frame, write_table
from stages.graph import node_vectors
from stages.params import load_params
from stages.psi import s_tagger
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.clld import confusing_pairs, linear_floor
from stages.tracks.clld import evaluate as evaluate_clld
from stages.tracks.clld import train as train_clld
from stages.tracks.hcl import evaluate as evaluate_hcl
from stages.tracks.hcl import generate as generate_hcl
from stages.tracks.hcl import probe as probe_hcl
from stages.tracks.hcl import train as train_hcl
from stages.tracks.pgkpr import evaluate as evaluate_pgkpr
from stages.tracks.pgkpr import generate as generate_pgkpr
from stages.tracks.pgkpr import train as train_pgkpr

AUTO = {"device": "auto"}
# The HCL models of the results tables, and what else changes the path of a tensor.
HCL = {"hcl": {}, "no-graph": {"graph": {"iterations": 0}}, "no-keyword": {"keyword": {"condition": False}},
       "no-contrasts": {"contrasts": {name: {"weight": 0.0} for name in ("instance", "keyword", "mahalanobis")}},
       "paper": {"preset": "paper"}, "signed": {"graph": {"edge_type": "signed"}, "keyword": {"kw_anchor": "output"}},
       "printed": {"contrasts": {"mahalanobis": {"form": "printed", "sqrt": True}},
                   "keyword": {"imp_weight": "mean"}, "latent": {"word_dropout": 0.3}},
       **{enters: {"latent": {"enters": enters}, "decoder": {"kw_memory": True}}
          for enters in ("bos", "prefix", "output")},
       **{name: {"architecture": name, name: block} for name, block in workloads.BASELINES.items()}}


@pytest.fixture
def record():
    """Stages choose the pretend device; what they do there."""
    with stages_on_device() as record:
        yield record


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(stage, *names):
    for name in names:
        assert stage.main([name]) == 0, f"{stage.__name__} {name}"


def on_cpu(folder):
    change_params(folder, runtime={"device": "cpu"})


def predictions(*runs):
    frames = (read_frame(RunPaths(run, 13).predictions, SCHEMAS["predictions"]) for run in runs)
    return pd.concat(frames, ignore_index=True)


def hcl_project(folder, models, **runs):
    tiny_training.write_project(folder, {name: {"dataset": "tiny", **model} for name, model in models.items()},
                                runtime=AUTO, epochs=1, micro_batch=4)
    change_params(folder, runs={"hcl": runs}, generate_hcl={"max_length": 6, "min_length": 2, "num_beams": 2},
                  evaluation={"resamples": 0, "bertscore": {"encoder": "path:encoder"}}, probe_hcl={"swaps": 2})


@pytest.mark.parametrize("name", HCL)
def test_every_hcl_model_is_trained_and_rewrites_as_on_the_cpu(folder, record, name):
    hcl_project(folder, {name: {"overrides": HCL[name]}}, beam={"model": name})
    ran(train_hcl, name)
    ran(generate_hcl, "beam")
    there = predictions("beam")
    assert record.operations.total() > 500
    on_cpu(folder)
    ran(generate_hcl, "beam")
    pd.testing.assert_frame_equal(there, predictions("beam"))


def test_hcl_from_its_backbone_through_every_stage(folder, record):
    models = {"backbone": {"overrides": {"latent": {"enabled": False}}}, "warm": {"init_from": "backbone"}}
    runs = {"greedy": {"num_beams": 1}, "contrastive": {"search": "contrastive", "top_k": 3},
            "samples": {"z": "sample", "samples": 1, "keyword": "random"}}
    hcl_project(folder, models, backbone={"model": "backbone"},
                **{name: {"model": "warm", "decode": decode} for name, decode in runs.items()})
    change_params(folder, probes={"hcl": {"warm": {"model": "warm"}}})
    ran(train_hcl, "backbone", "warm")
    ran(generate_hcl, "backbone", *runs)
    ran(evaluate_hcl, "greedy")
    ran(probe_hcl, "warm")
    there = predictions("backbone", *runs)
    scores = json.loads(RunPaths("greedy", 13).metrics.read_text())["run"]
    lines = list(predict(load_params(), "greedy", ["how do i find a dog"], "unheard of"))
    on_cpu(folder)
    ran(generate_hcl, "backbone", *runs)
    ran(evaluate_hcl, "greedy")
    pd.testing.assert_frame_equal(there, predictions("backbone", *runs))
    assert json.loads(RunPaths("greedy", 13).metrics.read_text())["run"] == pytest.approx(scores, rel=1e-4)
    assert list(predict(load_params(), "greedy", ["how do i find a dog"], "unheard of")) == lines
    history = pd.read_csv(ModelPaths("warm", 13).history)
    assert np.isfinite(history["train_loss"]).all()


REWRITERS = {"pgkpr": {}, "paper": {"preset": "paper"}, "released": {"preset": "released"},
             "transformer": {"architecture": "transformer"}, "residual_lstm": {"architecture": "residual_lstm"},
             "latent_bow": {"architecture": "latent_bow"}, "ianet": {"architecture": "ianet"},
             "gumbel": {"architecture": "latent_bow", "latent_bow": {"gumbel": True}}}


@pytest.mark.parametrize("name", REWRITERS)
def test_every_rewriter_is_trained_and_rewrites_as_on_the_cpu(folder, record, name):
    runs = {"greedy": {"model": name}, "beam": {"model": name, "decode": {"num_beams": 3, "unknown": "ban"}}}
    tiny_rewriters.write_project(folder, {name: {"dataset": tiny_rewriters.DATASET, "overrides": REWRITERS[name]}},
                                 runs=runs, runtime=AUTO, training={"epochs": 1})
    tiny_bert.save_encoder(folder / "encoder")
    change_params(folder, encoder={"source": "path:encoder"},
                  evaluation={"resamples": 0, "bertscore": {"encoder": "path:encoder"}})
    ran(train_pgkpr, name)
    ran(generate_pgkpr, *runs)
    ran(evaluate_pgkpr, "beam")
    there = predictions(*runs)
    on_cpu(folder)
    ran(generate_pgkpr, *runs)
    pd.testing.assert_frame_equal(there, predictions(*runs))


CLASSIFIERS = {**{f"{name}-cnn": model for name, model in tiny_classes.MODELS.items() if "pairs_of" not in model},
               "bert": {"encoder": "path:encoder", "contrast": "adaptive"},
               "albert": {"encoder": "path:albert", "contrast": "supcl_seq"},
               "mean": {"encoder": "path:encoder", "contrast": "simcse", "overrides": {"pool": "mean"}}}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_is_trained_and_predicts_as_on_the_cpu(folder, record, name):
    tiny_classes.write_project(folder, {name: CLASSIFIERS[name]})
    if name == "albert":
        save_albert(folder / "albert")
    change_params(folder, runtime=AUTO)
    ran(linear_floor, "tiny")
    ran(train_clld, name)
    ran(evaluate_clld, name)
    there = read_frame(RunPaths(name, 13).predictions, SCHEMAS["class_predictions"])
    line, = predict(load_params(), name, ["who is the cat"])
    on_cpu(folder)
    ran(evaluate_clld, name)
    here = read_frame(RunPaths(name, 13).predictions, SCHEMAS["class_predictions"])
    assert here["predicted"].tolist() == there["predicted"].tolist()
    np.testing.assert_allclose(np.stack(here["probabilities"]), np.stack(there["probabilities"]), atol=1e-5)
    assert line["label"] == next(iter(predict(load_params(), name, ["who is the cat"])))["label"]


def save_albert(folder):
    """An ALBERT of width 16 with the word pieces of the tiny BERT."""
    torch.manual_seed(0)
    AlbertModel(AlbertConfig(vocab_size=len(tiny_bert.VOCABULARY), embedding_size=8, hidden_size=16,
                             num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                             max_position_embeddings=64)).save_pretrained(folder)
    tiny_bert.tokenizer(folder).save_pretrained(folder)


def test_a_classifier_taught_by_pairs_that_another_confuses(folder, record):
    tiny_classes.write_project(folder, {name: tiny_classes.MODELS[name] for name in ("ct", "clsled")})
    change_params(folder, runtime=AUTO)
    ran(train_clld, "ct")
    ran(confusing_pairs, "ct")
    ran(train_clld, "clsled")


METHODS = [{"method": "gradient"}, {"method": "gradient", "attr_target": "pos_prob"},
           {"method": "gradient", "attr_target": "logit_diff"}, {"preset": "paper"}, {"preset": "released"},
           {"method": "integrated_gradients", "steps": 4}, {"method": "siamese", "steps": 4}]


@pytest.mark.usefixtures("attribution_project")
@pytest.mark.parametrize("block", METHODS, ids=lambda block: "-".join(map(str, block.values())))
def test_every_method_of_attribution_scores_as_on_the_cpu(tmp_path, record, block):
    tiny_bert.save_encoder(tmp_path / "encoder")
    change_params(tmp_path, encoder={"source": "path:encoder"}, runtime=AUTO, attribution={"batch_size": 4, **block})
    path = DatasetPaths("tiny").table("attribution")
    ran(attribution, "tiny")
    there = read_frame(path, SCHEMAS["attribution"])
    on_cpu(tmp_path)
    ran(attribution, "tiny")
    for one, other in zip(there["score"], read_frame(path, SCHEMAS["attribution"])["score"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert record.operations.total() > 100


@pytest.mark.usefixtures("classifier_project")
def test_the_pair_classifier_is_trained(tmp_path, record):
    change_params(tmp_path, runtime=AUTO)
    ran(pair_classifier, "tiny")
    assert record.operations["_fused_adamw_"] == 4


@pytest.mark.usefixtures("tagger_project")
def test_the_s_tagger_is_trained_and_tags(tmp_path, record):
    change_params(tmp_path, runtime=AUTO)
    ran(s_tagger, "tiny")
    assert record.operations["_cudnn_rnn_backward"] and record.operations["_fused_adam_"]


def test_node_vectors_are_those_of_the_cpu(folder, record):
    tiny_bert.save_encoder(folder / "encoder")
    for kind, rows in zip(("examples", "texts", "keywords", "nodes"), test_node_vectors.tables(), strict=True):
        write_table(DatasetPaths("tiny").table(kind), SCHEMAS[kind], rows, Provenance("test", "0"))
    (folder / "params.yaml").write_text(yaml.safe_dump({
        "recipe": "test", "encoder": {"source": "path:encoder"}, "datasets": {"tiny": {"source": "data.jsonl"}},
        "node_vectors": test_node_vectors.VALUES, "runtime": AUTO}))
    path = DatasetPaths("tiny").table("node_vectors")
    ran(node_vectors, "tiny")
    there = read_frame(path, SCHEMAS["node_vectors"])
    on_cpu(folder)
    ran(node_vectors, "tiny")
    np.testing.assert_allclose(np.stack(there["vector"]), np.stack(read_frame(path, SCHEMAS["node_vectors"])["vector"]),
                               atol=1e-5)
    assert record.operations["scaled_dot_product_attention"] > 0


def test_new_texts_are_rewritten_with_keywords_found_on_the_device(request, monkeypatch):
    monkeypatch.chdir(request.getfixturevalue("rewriting_project"))
    answers = {}
    for wanted in ("cpu", "auto"):
        change_params(Path(), runtime={"device": wanted})
        with stages_on_device() as record:
            answers[wanted] = [list(predict(load_params(), run, TEXTS)) for run in ("xx", "tagged", "plain")]
        assert bool(record.operations) == (wanted == "auto")
    assert answers["cpu"] == answers["auto"]


class Dies(FolderCheckpoints):
    """A store that ends the training after its first checkpoint."""

    def save(self, *state, **more):
        super().save(*state, **more)
        raise Killed


@pytest.mark.parametrize("make", [lambda folder: workloads.hcl(folder, training={"epochs": 2}, decoder={"layers": 1}),
                                  lambda folder: workloads.rewriter("residual_lstm", training={"epochs": 2})],
                         ids=["hcl", "residual_lstm"])
def test_a_killed_training_ends_with_the_same_weights(folder, record, make):
    work = make(folder)
    torch.use_deterministic_algorithms(True)
    whole = work.train(store=FolderCheckpoints(folder / "whole", "a")).model.state_dict()
    with pytest.raises(Killed):
        work.train(store=Dies(folder / "killed", "a"))
    torch.pretend.manual_seed_all(99)  # a new process begins with another state of the device's generator
    resumed = work.train(store=FolderCheckpoints(folder / "killed", "a")).model.state_dict()
    assert list(whole) == list(resumed)
    for name, value in whole.items():
        assert value.device == DEVICE and torch.equal(value.cpu(), resumed[name].cpu()), name
    assert record.operations["native_dropout"] > 0
