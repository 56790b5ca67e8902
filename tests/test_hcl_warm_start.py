"""init_from: what one model takes over from another, and what it must not."""

import pytest
import tiny_hcl
import torch

from models.hcl.hcl import objective
from models.hcl.model import HclModel, init_from, untrained_modules

BACKBONE = {"latent": {"enabled": False}}
ROWS = {
    "full": {},
    "backbone": BACKBONE,
    "backbone with keyword": {"latent": {"enabled": False}, "decoder": {"kw_memory": True}},
    "no graph": {"graph": {"iterations": 0}},
    "no keyword": {"keyword": {"condition": False}},
    "no mahalanobis": {"contrasts": {"mahalanobis": {"weight": 0.0}}},
    "no keyword contrasts": {"contrasts": {"mahalanobis": {"weight": 0.0}, "keyword": {"weight": 0.0}}},
    "no bag of words": {"latent": {"bow_loss": False}},
    "layers": {"latent": {"enters": "layers"}},
    # spreads of prior and posterior multiply: far from the usual temperature, where the contrast's gradient is 0
    "relative": {"latent": {"posterior": "relative"}, "contrasts": {"mahalanobis": {"temperature": 1e4}}},
    "normalised": {"latent": {"batch_norm": 0.5}},
}


def fresh(seed=0, **groups):
    torch.manual_seed(seed)
    return HclModel.from_parts(tiny_hcl.config(**groups), graph=tiny_hcl.keyword_graph(seed))


def snapshot(model):
    return {name: value.clone() for name, value in model.named_parameters()}


@pytest.mark.parametrize("name", ROWS)
def test_untrained_modules_are_exactly_those_without_gradient(name):
    model, batch = tiny_hcl.model(**ROWS[name]), tiny_hcl.batch()
    batch["ky"] = torch.zeros(4, dtype=torch.int64)  # has two candidates, so that their weights matter
    objective(model(batch), model.config, 1.0)[0].backward()
    idle = untrained_modules(model.config)
    for parameter, value in model.named_parameters():
        is_idle = any(parameter.startswith(f"{module}.") for module in idle)
        assert (value.grad is None or not value.grad.any()) is is_idle, parameter


@pytest.mark.parametrize(("row", "start"), [
    ("full", "backbone"), ("full", "no graph"), ("no keyword", "full"), ("layers", "backbone with keyword"),
    ("relative", "normalised"), ("full", "relative")])
def test_what_was_trained_is_copied_and_nothing_else(row, start):
    model, other = fresh(1, **ROWS[row]), fresh(2, **ROWS[start])
    before, theirs, graph = snapshot(model), snapshot(other), model.graph.h0.clone()
    report = init_from(model, other)
    for name, value in model.named_parameters():
        assert torch.equal(value, theirs[name] if name in report.copied else before[name]), name
    assert sorted((*report.copied, *report.left)) == sorted(before)
    assert torch.equal(model.graph.h0, graph)
    assert not torch.equal(other.graph.h0, graph)
    assert "decoder.transform.weight" in report.copied
    assert "encoder.embeddings.word_embeddings.weight" in report.copied


def test_a_deterministic_backbone_leaves_the_latent_modules_as_they_were_drawn_and_scaled():
    linear = {"keyword": {"imp_weight": "linear"}}
    model = fresh(1, **linear)
    scaled = model.latent_entry.embedding.weight.clone()
    report = init_from(model, fresh(2, **{**linear, **BACKBONE}))
    assert torch.equal(model.latent_entry.embedding.weight, scaled)
    left = {name.partition(".")[0] for name in report.left}
    assert left == {"prior", "posterior", "latent_entry", "keyword_points", "keyword_slot", "bow_hidden", "bow_scores",
                    "attention", "impostor"}
    assert {name.partition(".")[0] for name in report.copied} == {"encoder", "decoder", "word_scores"}


def test_statistics_of_a_batch_normalisation_are_taken_over_with_its_parameters():
    normalised = {"latent": {"batch_norm": 0.5}}
    model, other = fresh(1, **normalised), fresh(2, **normalised)
    other.eval().calibrate([tiny_hcl.batch()])
    report = init_from(model, other)
    assert "posterior.shift" in report.copied
    assert torch.equal(model.posterior.mean, other.posterior.mean) and model.posterior.mean.any()
    assert torch.equal(model.posterior.variance, other.posterior.variance)
    relative = fresh(1, latent={"batch_norm": 0.5, "posterior": "relative"})
    assert set(init_from(relative, other).left) >= {name for name, _ in relative.named_parameters()
                                                         if name.startswith("posterior.")}
    assert not relative.posterior.mean.any()


def test_what_has_another_shape_or_name_is_left():
    model = fresh(1, latent={"size": 7, "enters": "layers"}, decoder={"layers": 3})
    report = init_from(model, fresh(2))
    assert {"prior.output.weight", "posterior.output.bias", "latent_entry.inputs.weight",
            "decoder.layers.2.widen.weight"} <= set(report.left)
    assert "decoder.layers.1.widen.weight" in report.copied


def test_other_widths_and_vocabularies_are_refused_by_both_numbers():
    narrow = HclModel(tiny_hcl.config(tiny_hcl.encoder_config(hidden_size=8)))
    with pytest.raises(ValueError, match="init: the models do not fit each other: width 16 here and 8 there"):
        init_from(fresh(), narrow)
    encoder = tiny_hcl.encoder_config()
    encoder.vocab_size = 31
    with pytest.raises(ValueError, match="vocabulary 30 here and 31 there; both need the same encoder"):
        init_from(fresh(), HclModel(tiny_hcl.config(encoder)))
