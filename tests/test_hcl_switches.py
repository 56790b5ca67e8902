"""Settings that decide how HCL is read: what `preset: paper` changes, and that models obey them."""

import pytest
import tiny_hcl
import torch
import yaml

from keycontrast.errors import InputError
from models.hcl.hcl import annealed_by, kl_weight, objective
from stages.params import Params, parse_params
from stages.tracks.hcl.params import TrainHcl

# Settings that the paper's preset changes: dotted name, default, value under the preset.
SWITCHES = [
    ("graph.link_inputs", True, False),
    ("graph.cluster_by", "top", "contains"),
    ("train_hcl.graph.own_edges", "component", "leaking"),
    ("train_hcl.graph.kw_dropout", None, 0.0),
    ("train_hcl.keyword.impostor_weight", "cosine", "linear"),
    ("graph.max_neighbours", 16, None),
    ("graph.max_cluster_outputs", 512, None),
    ("train_hcl.graph.layer_norm", True, False),
    ("train_hcl.latent.free_bits", 5.0, 0.0),
    ("train_hcl.latent.free_bits_for", "posterior", "both"),
    ("train_hcl.latent.annealing_steps", 10_000, 0),
    ("train_hcl.contrasts.added_to", "token", "sentence"),
    ("train_hcl.keyword.unit_scale", True, False),
]
MINIMAL = {"recipe": "r", "datasets": {"d": {"source": "f"}}, "models": {"hcl": {"m": {"dataset": "d"}}},
           **{block: {"datasets": ["d"]} for block in ("keywords", "graph", "node_vectors")}}
PAPER = {**MINIMAL, "train_hcl": {"preset": "paper"}, "graph": {"preset": "paper", "datasets": ["d"]}}


def leaves(block, place=""):
    """Every setting of a block by dotted name."""
    if not isinstance(block, dict):
        return {place: block}
    return {name: value for key, inner in block.items() for name, value in leaves(inner, f"{place}.{key}").items()}


def test_the_paper_changes_these_settings_alone():
    default, paper = (Params.model_validate(content) for content in (MINIMAL, PAPER))
    before, after = ({name.removeprefix("."): value for name, value in leaves({
        "graph": params.graph.model_dump(), "train_hcl": params.train_hcl.model_dump()}).items()}
        for params in (default, paper))
    assert {(name, value, after[name]) for name, value in before.items() if value != after[name]} == {
        *SWITCHES, ("graph.preset", None, "paper"), ("train_hcl.preset", None, "paper")}


def test_a_single_model_may_have_the_preset_although_the_block_is_spelt_out():
    content = Params.model_validate(MINIMAL).model_dump(mode="json", exclude={"runs"})
    content["models"]["hcl"]["m"]["overrides"] = {"preset": "paper", "latent": {"size": 64}}
    row = parse_params(yaml.safe_load(yaml.safe_dump(content)), "params.yaml").model("m")
    assert row == TrainHcl.model_validate({"preset": "paper", "latent": {"size": 64}})
    content["models"]["hcl"]["m"]["overrides"] = {"preset": "paper", "keyword": {"unit_scale": True}}
    with pytest.raises(InputError, match="(?s)models.hcl.m.overrides.*preset paper contradicts 1 of the switches "
                                         "beside it: keyword.unit_scale is True where the preset has False"):
        parse_params(content, "params.yaml")


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


def test_beta_rises_and_stays():
    assert [kl_weight(step, 50) for step in (0, 25, 50, 99)] == [0.0, 0.5, 1.0, 1.0]
    assert kl_weight(0, 0) == 1.0
    assert [annealed_by(10_000, total) for total in (600, 10**6)] == [120, 10_000]
