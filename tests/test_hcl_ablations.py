"""The rows of the ablation table (HCL Table 2): each removes exactly its own terms, and still trains and saves."""

from dataclasses import dataclass, field

import pytest
import tiny_hcl
import torch

from models.hcl.hcl import objective

OFF = {"weight": 0.0}
TERMS = {"reconstruction", "kl", "bow", "instance", "keyword", "mahalanobis"}
KEYWORD_MODULES = ("attention", "impostor", "keyword_points", "prior.of_condition")
LATENT_MODULES = ("prior", "posterior", "latent_entry", "bow_hidden", "bow_scores", "keyword_points", "attention",
                  "impostor")


@dataclass(frozen=True)
class Row:
    """What is switched off, the terms that go, those that stay the same to the bit, and the modules left idle."""

    groups: dict
    gone: set = field(default_factory=set)
    same: set = field(default_factory=set)
    idle: tuple = ()


# Without graph or keyword the prior is another one, and with it the KL and the contrasts that look at it.
ROWS = {
    "full": Row({}, same=TERMS),
    "w/o graph": Row({"graph": {"iterations": 0}}, same={"reconstruction", "bow"},
                     idle=("attention", "impostor")),  # one candidate each: nothing to weigh
    "w/o keyword": Row({"keyword": {"condition": False}}, {"keyword", "mahalanobis"}, {"reconstruction", "bow"},
                       KEYWORD_MODULES),
    "w/o keyword contrast": Row({"contrasts": {"keyword": OFF}}, {"keyword"}, TERMS - {"keyword"}),
    "w/o Mahalanobis": Row({"contrasts": {"mahalanobis": OFF}}, {"mahalanobis"}, TERMS - {"mahalanobis"},
                           ("keyword_points",)),
    "w/o instance": Row({"contrasts": {"instance": OFF}}, {"instance"}, TERMS - {"instance"}),
    "w/o bag of words": Row({"latent": {"bow_loss": False}}, {"bow"}, TERMS - {"bow"}, ("bow_hidden", "bow_scores")),
    "plain CVAE": Row({"keyword": {"condition": False}, "contrasts": {"instance": OFF}},
                      {"instance", "keyword", "mahalanobis"}, {"reconstruction", "bow"}, KEYWORD_MODULES),
    "deterministic": Row({"latent": {"enabled": False}}, TERMS - {"reconstruction"}, idle=LATENT_MODULES),
}
ALWAYS_IDLE = ("keyword_slot",)  # only decoder.kw_memory uses it


def batch_of(size=4, **options):
    """A batch whose output keyword has two negative neighbours, so that weighing them matters."""
    batch = tiny_hcl.batch(size, **options)
    batch["ky"] = torch.zeros(size, dtype=torch.int64)
    return batch


def gradients(model, batch):
    """Gradient by parameter name; None where the objective does not reach."""
    model.zero_grad()
    objective(model(batch), model.config, 1.0)[0].backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def idle(grads):
    return {name for name, grad in grads.items() if grad is None or not grad.any()}


def parts(groups, training=False):
    model = tiny_hcl.model(**groups).train(training)
    torch.manual_seed(5)  # dropout
    return objective(model(batch_of()), model.config, 1.0)[1]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_lacks_exactly_its_terms(name):
    assert set(parts(ROWS[name].groups)) == {"loss"} | (TERMS - ROWS[name].gone)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_all_other_terms_are_those_of_the_full_model_to_the_bit(name, training):
    full, row = parts({}, training), parts(ROWS[name].groups, training)
    assert {term for term in set(row) - {"loss"} if torch.equal(full[term], row[term])} == ROWS[name].same


@pytest.mark.parametrize("name", ROWS)
def test_exactly_the_parameters_of_what_is_gone_get_no_gradient(name):
    grads = gradients(tiny_hcl.model(**ROWS[name].groups), batch_of())
    modules = (*ALWAYS_IDLE, *ROWS[name].idle)
    assert idle(grads) == {parameter for parameter in grads if parameter.startswith(tuple(f"{m}." for m in modules))}


def test_without_keyword_the_graph_is_not_read():
    model, batch = tiny_hcl.model(**ROWS["w/o keyword"].groups), batch_of()
    output = model(batch)
    assert output.keyword is None and set(output.contrasts) == {"instance"}
    changed = model({**batch, "kx": (batch["kx"] + 1) % 6, "ky": batch["ky"] + 1, "kneg": batch["kneg"] * 0})
    assert torch.equal(objective(changed, model.config, 1.0)[0], objective(output, model.config, 1.0)[0])


def test_without_graph_keywords_are_their_initial_vectors():
    model, batch = tiny_hcl.model(**ROWS["w/o graph"].groups), tiny_hcl.batch()
    batch["ky"], batch["kneg"] = torch.tensor([0, 1, 2, 3]), torch.tensor([4, 4, 4, 3])
    keyword = model(batch).keyword
    assert torch.equal(keyword.u_in, model.graph.h0[batch["kx"]])
    assert torch.equal(keyword.u_out, model.graph.h0[batch["ky"]])
    torch.testing.assert_close(keyword.u_imp[:3], model.graph.h0[[4, 4, 4]])  # no neighbour takes part
    assert keyword.mask.tolist() == [True, True, True, False]


def test_the_backbone_reads_source_and_target_alone():
    model, batch = tiny_hcl.model(**ROWS["deterministic"].groups), batch_of()
    output = model(batch)
    assert (output.latent, output.keyword, output.contrasts) == (None, None, {})
    texts = ("x_ids", "x_mask", "y_in", "y_in_mask", "y_out")
    assert torch.equal(model({name: batch[name] for name in texts}).reconstruction, output.reconstruction)
