"""The rows of the ablation table (HCL Table 2): each leaves all other terms as they are, and reads less."""

import pytest
import tiny_hcl
import torch

from models.hcl.hcl import objective

OFF = {"weight": 0.0}
TERMS = {"reconstruction", "kl", "bow", "instance", "keyword", "mahalanobis"}
# What is switched off, and the terms that stay the same to the bit. Without graph or keyword the prior is another one,
# and with it the KL and the contrasts that look at it.
ROWS = {
    "full": ({}, TERMS),
    "w/o graph": ({"graph": {"iterations": 0}}, {"reconstruction", "bow"}),
    "w/o keyword": ({"keyword": {"condition": False}}, {"reconstruction", "bow"}),
    "w/o keyword contrast": ({"contrasts": {"keyword": OFF}}, TERMS - {"keyword"}),
    "w/o Mahalanobis": ({"contrasts": {"mahalanobis": OFF}}, TERMS - {"mahalanobis"}),
    "w/o instance": ({"contrasts": {"instance": OFF}}, TERMS - {"instance"}),
    "w/o bag of words": ({"latent": {"bow_loss": False}}, TERMS - {"bow"}),
    "plain CVAE": ({"keyword": {"condition": False}, "contrasts": {"instance": OFF}}, {"reconstruction", "bow"}),
    "deterministic": ({"latent": {"enabled": False}}, set()),
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
    assert {term for term in set(row) - {"loss"} if torch.equal(full[term], row[term])} == ROWS[name][1]


def test_without_keyword_the_graph_is_not_read():
    model, batch = tiny_hcl.model(**ROWS["w/o keyword"][0]), batch_of()
    output = model(batch)
    assert output.keyword is None and set(output.contrasts) == {"instance"}
    changed = model({**batch, "kx": (batch["kx"] + 1) % 6, "ky": batch["ky"] + 1, "kneg": batch["kneg"] * 0})
    assert torch.equal(objective(changed, model.config, 1.0)[0], objective(output, model.config, 1.0)[0])


def test_without_graph_keywords_are_their_initial_vectors():
    model, batch = tiny_hcl.model(**ROWS["w/o graph"][0]), tiny_hcl.batch()
    batch["ky"], batch["kneg"] = torch.tensor([0, 1, 2, 3]), torch.tensor([4, 4, 4, 3])
    keyword = model(batch).keyword
    assert torch.equal(keyword.u_in, model.graph.h0[batch["kx"]])
    assert torch.equal(keyword.u_out, model.graph.h0[batch["ky"]])
    torch.testing.assert_close(keyword.u_imp[:3], model.graph.h0[[4, 4, 4]])  # no neighbour takes part
    assert keyword.mask.tolist() == [True, True, True, False]


def test_the_backbone_reads_source_and_target_alone():
    model, batch = tiny_hcl.model(**ROWS["deterministic"][0]), batch_of()
    output = model(batch)
    assert (output.latent, output.keyword, output.contrasts) == (None, None, {})
    texts = ("x_ids", "x_mask", "y_in", "y_in_mask", "y_out")
    assert torch.equal(model({name: batch[name] for name in texts}).reconstruction, output.reconstruction)
