"""Settings that decide how HCL is read: default, value under `preset: paper`, and that models obey them."""

import pytest
import tiny_hcl
import torch
import yaml
from pydantic import ValidationError

from keycontrast.errors import InputError
from models.hcl.hcl import annealed_by, kl_weight, objective
from stages.graph.params import Graph
from stages.params import Params, parse_params
from stages.tracks.hcl.params import TrainHcl

# Dotted setting; default; value under the paper's preset (the default where the text is silent).
SWITCHES = [
    ("ingest.qqp_rule", "undirected_one", "undirected_one"),
    ("ingest.douban_neg", "scored", "scored"),
    ("ingest.roc_neg", "bm25", "bm25"),
    ("ingest.roc_mode", "ending", "ending"),
    ("graph.link_inputs", True, False),
    ("train_hcl.keyword.imp_weight", "cosine", "linear"),
    ("train_hcl.graph.iterations", 2, 2),
    ("train_hcl.latent.size", 200, 200),
    ("train_hcl.contrasts.instance.temperature", 0.1, 0.1),
    ("train_hcl.contrasts.keyword.temperature", 0.1, 0.1),
    ("train_hcl.contrasts.mahalanobis.temperature", 0.5, 0.5),
    ("train_hcl.contrasts.instance.weight", 1.0, 1.0),
    ("train_hcl.contrasts.keyword.weight", 1.0, 1.0),
    ("train_hcl.contrasts.mahalanobis.weight", 1.0, 1.0),
    ("train_hcl.decoder.layers", 6, 6),
    ("train_hcl.training.encoder_rate", 5e-5, 5e-5),
    ("train_hcl.training.learning_rate", 2e-4, 2e-4),
    ("ingest.neg_source", "labelled", "labelled"),
    ("ingest.neg_pick", "hardest", "hardest"),
    ("ingest.split_by", "component", "component"),
    ("textrank.method", "pytextrank", "pytextrank"),
    ("keywords.kw_lemma", False, False),
    ("graph.max_nbr", 16, None),
    ("graph.max_cluster_outputs", 512, None),
    ("node_vectors.pooling", "mean", "mean"),
    ("train_hcl.graph.layer_norm", True, False),
    ("train_hcl.keyword.condition", True, True),
    ("train_hcl.latent.free_bits", 5.0, 0.0),
    ("train_hcl.latent.free_bits_by", "total", "dimension"),
    ("train_hcl.latent.free_bits_for", "posterior", "both"),
    ("train_hcl.latent.posterior", "absolute", "absolute"),
    ("train_hcl.latent.prior_share", 0.0, 0.0),
    ("train_hcl.latent.annealing_steps", 10_000, 0),
    ("train_hcl.latent.bow_loss", False, False),
    ("ingest.neg_encoder", "bundled", "bundled"),
    ("ingest.neg_ceiling", 0.8, 0.8),
    ("train_hcl.contrasts.added_to", "token", "sentence"),
    ("train_hcl.keyword.unit_scale", True, False),
    ("train_hcl.decoder.kw_memory", False, False),
    ("train_hcl.decoder.source_dropout", 0.0, 0.0),
    ("generate_hcl.z", "mean", "mean"),
    ("train_hcl.training.batch_size", 256, 256),
    ("train_hcl.training.warmup", 0.1, 0.1),
    ("train_hcl.training.clip", 1.0, 1.0),
    ("train_hcl.training.epochs", 30, 30),
    ("train_hcl.training.patience", 3, 3),
    ("train_hcl.training.max_source", 20, 20),
    ("generate_hcl.num_beams", 4, 4),
    ("generate_hcl.min_length", 5, 5),
    ("generate_hcl.max_length", 20, 20),
    ("generate_hcl.length_penalty", 1.0, 1.0),
    ("models.hcl.m.init", "data/start/none", "data/start/none"),
    ("train_hcl.latent.enabled", True, True),
]
MINIMAL = {"recipe": "r", "datasets": {"d": {"source": "f"}}, "models": {"hcl": {"m": {"dataset": "d"}}},
           **{block: {"datasets": ["d"]} for block in ("keywords", "graph", "node_vectors")}}
PAPER = {**MINIMAL, "train_hcl": {"preset": "paper"}, "graph": {"preset": "paper", "datasets": ["d"]}}


def value(params, place):
    found = params
    for name in place.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    return found


@pytest.mark.parametrize(("content", "column"), [(MINIMAL, 1), (PAPER, 2)], ids=["default", "paper"])
def test_every_switch_has_its_value(content, column):
    params = Params.model_validate(content)
    found = {switch[0]: value(params, switch[0]) for switch in SWITCHES}
    assert found == {switch[0]: switch[column] for switch in SWITCHES}


def test_a_preset_spelt_out_in_full_is_the_preset():
    for block in (TrainHcl, Graph):
        paper = block(preset="paper").model_dump()
        assert block.model_validate(paper).model_dump() == paper
        assert paper != {**block().model_dump(), "preset": "paper"}


@pytest.mark.parametrize("overrides", [{"keyword": {"condition": False}}, {"latent": {"enabled": False}},
                                       {"graph": {"iterations": 0}}, {"contrasts": {"mahalanobis": {"weight": 0.0}}}],
                         ids=str)
def test_ablations_stand_beside_a_preset(overrides):
    params = Params.model_validate({**PAPER, "models": {"hcl": {"m": {"dataset": "d", "overrides": overrides}}}})
    (group, changes), = overrides.items()
    row = params.model("m").model_dump()
    for name, expected in changes.items():
        assert row[group][name] == expected or expected.items() <= row[group][name].items()
    assert row["contrasts"]["added_to"] == "sentence"


def test_a_single_model_may_have_the_preset_although_the_block_is_spelt_out():
    content = Params.model_validate(MINIMAL).model_dump(mode="json", exclude={"runs"})
    content["models"]["hcl"]["m"]["overrides"] = {"preset": "paper", "latent": {"size": 64}}
    row = parse_params(yaml.safe_load(yaml.safe_dump(content)), "params.yaml").model("m")
    assert row == TrainHcl.model_validate({"preset": "paper", "latent": {"size": 64}})
    content["models"]["hcl"]["m"]["overrides"] = {"preset": "paper", "keyword": {"unit_scale": True}}
    with pytest.raises(InputError, match="(?s)models.hcl.m.overrides.*preset paper contradicts 1 of the switches "
                                         "beside it: keyword.unit_scale is True where the preset has False"):
        parse_params(content, "params.yaml")


def test_clashes_name_every_switch():
    with pytest.raises(ValidationError, match="contradicts 2 of the switches beside it: graph.layer_norm is True where "
                                              "the preset has False; contrasts.added_to is 'token' where the preset "
                                              "has 'sentence'. Take these out, or set preset to null"):
        TrainHcl.model_validate({"preset": "paper", "graph": {"layer_norm": True}, "contrasts": {"added_to": "token"}})
    with pytest.raises(ValidationError, match="max_nbr is 16 where the preset has None"):
        Graph(preset="paper", max_nbr=16)
    with pytest.raises(ValidationError, match="Input should be 'paper'"):
        TrainHcl.model_validate({"preset": "papr"})
    with pytest.raises(ValidationError, match="valid dictionary"):
        TrainHcl.model_validate({"preset": "paper", "graph": 3})


def test_a_model_of_the_paper_trains():
    block = TrainHcl.model_validate({"preset": "paper", "latent": {"size": 4}, "decoder": {"layers": 2}}).model_dump()
    model = tiny_hcl.model(**{name: block[name] for name in ("graph", "keyword", "latent", "contrasts", "decoder")})
    output = model(tiny_hcl.batch())
    loss, parts = objective(output, model.config, 1.0)
    assert set(parts) == {"loss", "reconstruction", "kl", "instance", "keyword", "mahalanobis"}
    loss.backward()
    assert model.impostor.W.weight.grad.any()
    assert not isinstance(model.attention.norm, torch.nn.LayerNorm)


def test_a_keyword_condition_is_on_off_or_the_oracle():
    for condition, used in ((True, True), (False, False), ("target", True)):
        row = TrainHcl.model_validate({"keyword": {"condition": condition}})
        assert row.keyword.condition == condition
        assert tiny_hcl.config(keyword=row.keyword.model_dump()).uses_keyword is used
    with pytest.raises(ValueError, match="keyword.condition is 'source', expected one of False, True, target"):
        tiny_hcl.config(keyword={"condition": "source"})


def test_beta_rises_and_stays():
    assert [kl_weight(step, 50) for step in (0, 25, 50, 99)] == [0.0, 0.5, 1.0, 1.0]
    assert kl_weight(0, 0) == 1.0
    assert [annealed_by(10_000, total) for total in (600, 10**6)] == [120, 10_000]
