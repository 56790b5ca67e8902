"""The rows of the ablation table (HCL Table 2): what each leaves out, and what it copies from another as a start."""

import pytest
import tiny_hcl
import torch

from models.hcl.hcl import objective
from models.hcl.model import HclModel, init_from, untrained_modules

OFF = {"weight": 0.0}
TERMS = {"reconstruction", "kl", "instance", "keyword", "mahalanobis"}
# What is switched off, and the terms that stay the same to the bit. Without graph or keyword the prior is another one,
# and with it the KL and the contrasts that look at it.
ROWS = {
    "full": ({}, TERMS),
    "w/o graph": ({"graph": {"iterations": 0}}, {"reconstruction"}),
    "w/o keyword": ({"keyword": {"condition": False}}, {"reconstruction"}),
    "w/o keyword contrast": ({"contrasts": {"keyword": OFF}}, TERMS - {"keyword"}),
    "w/o Mahalanobis": ({"contrasts": {"mahalanobis": OFF}}, TERMS - {"mahalanobis"}),
    "w/o instance": ({"contrasts": {"instance": OFF}}, TERMS - {"instance"}),
    "plain CVAE": ({"keyword": {"condition": False}, "contrasts": {"instance": OFF}}, {"reconstruction"}),
    "deterministic": ({"latent": {"enabled": False}}, set()),
}
GONE = {"w/o keyword": {"keyword", "mahalanobis"}, "w/o keyword contrast": {"keyword"},
        "w/o Mahalanobis": {"mahalanobis"}, "w/o instance": {"instance"},
        "plain CVAE": {"instance", "keyword", "mahalanobis"}, "deterministic": TERMS - {"reconstruction"}}
# Further models that rows start from, or that have other parts.
STARTS = {
    **{name: groups for name, (groups, _) in ROWS.items()},
    "backbone with keyword": {"latent": {"enabled": False}, "decoder": {"kw_memory": True}},
    "no keyword contrasts": {"contrasts": {"mahalanobis": OFF, "keyword": OFF}},
}


def batch_of(size=4, **options):
    """A batch whose output keyword has two negative neighbours, so that weighing them matters."""
    batch = tiny_hcl.batch(size, **options)
    batch["ky"] = torch.zeros(size, dtype=torch.int64)
    return batch


def parts(groups, training=False):
    model = tiny_hcl.model(**groups).train(training)
    torch.manual_seed(5)  # dropout
    return objective(model(batch_of()), model.config, 1.0)[1]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_all_other_terms_are_those_of_the_full_model_to_the_bit(name, training):
    full, row = parts({}, training), parts(ROWS[name][0], training)
    assert set(row) - {"loss"} == TERMS - GONE.get(name, set())
    assert {term for term in set(row) - {"loss"} if torch.equal(full[term], row[term])} == ROWS[name][1]


def test_without_keyword_the_graph_is_not_read():
    model, batch = tiny_hcl.model(**STARTS["w/o keyword"]), batch_of()
    output = model(batch)
    assert output.keyword is None and set(output.contrasts) == {"instance"}
    changed = model({**batch, "kx": (batch["kx"] + 1) % 6, "ky": batch["ky"] + 1, "kneg": batch["kneg"] * 0})
    assert torch.equal(objective(changed, model.config, 1.0)[0], objective(output, model.config, 1.0)[0])


def test_without_graph_keywords_are_their_initial_vectors():
    model, batch = tiny_hcl.model(**STARTS["w/o graph"]), tiny_hcl.batch()
    batch["ky"], batch["kneg"] = torch.tensor([0, 1, 2, 3]), torch.tensor([4, 4, 4, 3])
    keyword = model(batch).keyword
    assert torch.equal(keyword.u_in, model.graph.h0[batch["kx"]])
    assert torch.equal(keyword.u_out, model.graph.h0[batch["ky"]])
    torch.testing.assert_close(keyword.u_imp[:3], model.graph.h0[[4, 4, 4]])  # no neighbour takes part
    assert keyword.mask.tolist() == [True, True, True, False]


def test_the_backbone_reads_source_and_target_alone():
    model, batch = tiny_hcl.model(**STARTS["deterministic"]), batch_of()
    output = model(batch)
    assert (output.latent, output.keyword, output.contrasts) == (None, None, {})
    texts = ("x_ids", "x_mask", "y_in", "y_in_mask", "y_out")
    assert torch.equal(model({name: batch[name] for name in texts}).reconstruction, output.reconstruction)


def fresh(seed=0, **groups):
    torch.manual_seed(seed)
    return HclModel.from_parts(tiny_hcl.config(**groups), graph=tiny_hcl.keyword_graph(seed))


def modules(names):
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("name", STARTS)
def test_untrained_modules_are_exactly_those_without_gradient(name):
    model = tiny_hcl.model(**STARTS[name])
    objective(model(batch_of()), model.config, 1.0)[0].backward()
    untrained = untrained_modules(model.config)
    for parameter, value in model.named_parameters():
        is_untrained = any(parameter.startswith(f"{module}.") for module in untrained)
        assert (value.grad is None or not value.grad.any()) is is_untrained, parameter


@pytest.mark.parametrize(("row", "start"), [("full", "deterministic"), ("full", "w/o graph"), ("w/o keyword", "full"),
                                            ("full", "backbone with keyword")])
def test_what_was_trained_is_copied_and_nothing_else(row, start):
    model, other = fresh(1, **STARTS[row]), fresh(2, **STARTS[start])
    before, theirs = ({name: value.clone() for name, value in one.named_parameters()} for one in (model, other))
    graph = model.graph.h0.clone()
    report = init_from(model, other)
    for name, value in model.named_parameters():
        assert torch.equal(value, theirs[name] if name in report.copied else before[name]), name
    assert sorted((*report.copied, *report.left)) == sorted(before)
    assert torch.equal(model.graph.h0, graph)
    assert not torch.equal(other.graph.h0, graph)
    assert {"decoder.transform.weight", "encoder.embeddings.word_embeddings.weight"} <= set(report.copied)
    assert ("posterior.output.weight" in report.left) == (start in ("deterministic", "backbone with keyword"))


def test_a_deterministic_backbone_leaves_the_latent_modules_as_they_were_drawn_and_scaled():
    linear = {"keyword": {"impostor_weight": "linear"}}
    model = fresh(1, **linear)
    scaled = model.latent_entry.embedding.weight.clone()
    report = init_from(model, fresh(2, **linear, **STARTS["deterministic"]))
    assert torch.equal(model.latent_entry.embedding.weight, scaled)
    assert modules(report.left) == {"prior", "posterior", "latent_entry", "keyword_points", "keyword_slot",
                                    "attention", "impostor"}
    assert modules(report.copied) == {"encoder", "decoder", "word_scores"}


def test_what_has_another_shape_or_name_is_left_and_other_widths_or_vocabularies_are_refused():
    report = init_from(fresh(1, latent={"size": 7}, decoder={"layers": 3}), fresh(2))
    assert {"prior.output.weight", "posterior.output.bias", "decoder.layers.2.widen.weight"} <= set(report.left)
    assert "decoder.layers.1.widen.weight" in report.copied
    encoder = tiny_hcl.encoder_config(hidden_size=8)
    encoder.vocab_size = 31
    with pytest.raises(ValueError, match="init: the models do not fit each other: width 16 here and 8 there, "
                                         "vocabulary 30 here and 31 there; both need the same encoder"):
        init_from(fresh(), HclModel(tiny_hcl.config(encoder)))
