"""The latent variable's settings against its being left unused: free bits, what they apply to, training from
the prior's mean, the keyword in the decoder, dropout of source attention."""

import pytest
import tiny_hcl
import torch

from models.hcl.hcl import objective
from models.hcl.model import Encoded
from models.hcl.settings import LatentSettings

DEFAULT = {name: getattr(LatentSettings(), name) for name in ("free_bits", "free_bits_for")}
NO_CONTRAST = {"contrasts": {name: {"weight": 0.0} for name in ("instance", "keyword", "mahalanobis")}}
KEYWORD_SIDE = ("prior.of_condition.weight", "attention.ffn0.0.first.weight")


def gradients(model, beta=1.0, train=False):
    """Gradients by name of the objective of one batch, those that are zero left out."""
    model.train(train)
    model.zero_grad()
    loss, parts = objective(model(tiny_hcl.batch()), model.config, beta)
    loss.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()
             if parameter.grad is not None and parameter.grad.any()}
    return found, parts


def latent_model(**latent):
    return tiny_hcl.model(latent=latent, **NO_CONTRAST)


def test_the_instance_contrast_teaches_the_keyword():
    model, batch = tiny_hcl.model(latent=DEFAULT), tiny_hcl.batch()
    with torch.no_grad():  # where the contrast is neither saturated nor flat
        for network in (model.prior, model.posterior):
            for weight in (parameter for parameter in network.parameters() if parameter.dim() > 1):
                weight.mul_(0.5)
    output = model(batch)
    (gradient,) = torch.autograd.grad(output.contrasts["instance"].loss.mean(), output.keyword.u_in)
    assert float(gradient.abs().max()) > 1e-3


def test_below_the_floor_no_gradient_reaches_prior_keyword_and_graph():
    found, parts = gradients(latent_model(free_bits=1e4))
    assert float(parts["loss"]) == pytest.approx((float(parts["reconstruction"]) + 1e4) / 6.0)
    assert not any(name.startswith(("prior.", "attention.")) for name in found)
    assert "posterior.output.weight" in found  # from the reconstruction


def test_a_floor_for_the_posterior_alone_leaves_the_prior_the_whole_gradient_from_the_first_step():
    held, held_parts = gradients(latent_model(free_bits=1e4, free_bits_for="posterior"), beta=0.0)
    free, _ = gradients(latent_model(free_bits=0.0), beta=1.0)
    for name in ("prior.of_text.weight", "prior.output.weight", *KEYWORD_SIDE):
        torch.testing.assert_close(held[name], free[name])
    only_reconstruction, parts = gradients(latent_model(free_bits=1e4), beta=0.0)
    for name in ("posterior.of_condition.weight", "posterior.output.weight"):
        torch.testing.assert_close(held[name], only_reconstruction[name])
    assert not set(KEYWORD_SIDE) & set(only_reconstruction)
    torch.testing.assert_close(held_parts["loss"], parts["loss"])  # the pull has a gradient and no value


def test_a_share_of_the_items_is_reconstructed_from_the_priors_mean():
    model = tiny_hcl.model(latent={"prior_share": 0.3})
    texts = {name: Encoded(torch.empty(0), torch.randn(2000, tiny_hcl.WIDTH)) for name in "xy"}
    batch = {"eps": torch.randn(2000, tiny_hcl.LATENT)}
    latent, z = model.latent(texts, None, batch)
    assert torch.equal(z, latent.posterior.sample(batch["eps"]))  # in validation
    torch.manual_seed(0)
    latent, z = model.train().latent(texts, None, batch)
    chosen = (z == latent.prior.mu).all(1)
    assert torch.equal(z[~chosen], latent.posterior.sample(batch["eps"])[~chosen])
    assert 0.27 < float(chosen.float().mean()) < 0.33


def test_from_the_priors_mean_reconstruction_teaches_prior_keyword_and_graph():
    torch.manual_seed(0)
    found, _ = gradients(latent_model(free_bits=1e4, prior_share=0.5), beta=0.0, train=True)
    assert set(KEYWORD_SIDE) <= set(found)
    assert not set(KEYWORD_SIDE) & set(gradients(latent_model(free_bits=1e4), beta=0.0, train=True)[0])


@pytest.mark.parametrize("latent", [{}, {"enabled": False}], ids=str)
def test_as_a_slot_of_the_memory_the_keyword_is_taught_by_reconstruction_and_used_in_decoding(latent):
    groups = {"latent": latent, "decoder": {"kw_memory": True}, **NO_CONTRAST}
    model, batch = tiny_hcl.model(**groups), tiny_hcl.batch()
    graph_side = {"keyword_slot.weight", "attention.Wv.weight", "attention.ffn0.0.first.weight"}
    assert graph_side <= set(gradients(model, beta=0.0)[0])
    assert not graph_side & set(gradients(tiny_hcl.model(**{**groups, "decoder": {}}), beta=0.0)[0])
    model.eval()
    given, other = (model.conditions(batch["x_ids"], batch["x_mask"], nodes)
                    for nodes in (batch["kx"], (batch["kx"] + 1) % 6))
    z = given.mean  # the same for both: the slot alone differs
    first, second = (model.generate_from(one, z, num_beams=1, min_length=1, max_length=6) for one in (given, other))
    scores = [model.score(model.decode(batch["y_in"], *model.memory(one.hidden, one.mask, one.u_in, z), z))
              for one in (given, other)]
    assert not torch.allclose(*scores)
    assert first.shape != second.shape or not torch.equal(first, second)


def test_source_dropout_hides_states_of_the_source_in_training_alone():
    model = tiny_hcl.model(decoder={"source_dropout": 0.5, "kw_memory": True})
    memory, states = torch.ones(200, 12, dtype=torch.bool), 10  # slots of z and keyword, then ten states
    memory[:, -1] = False
    assert torch.equal(model._source_dropout(memory, states), memory)
    torch.manual_seed(0)
    seen = model.train()._source_dropout(memory, states)
    assert seen[:, :2].all() and not seen[:, -1].any()
    assert 0.45 < float(seen[:, 2:-1].float().mean()) < 0.55
    assert not torch.equal(seen[0], seen[1])  # item by item
