"""Under autocast every loss, KL and distance stays in float32, and near what it is without."""

import pytest
import tiny_hcl
import torch

from models.common.losses import (
    bow_loss,
    gaussian_kl,
    masked_mean,
)
from models.hcl.hcl import Contrasted, free_bits_kl, mahalanobis, objective, validation_loss


@pytest.fixture
def half():
    with torch.autocast("cpu", torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        yield


def vectors(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


EVERY = torch.ones(5, dtype=torch.bool)
LOSSES = {
    "kl": lambda x: gaussian_kl(*x[:4]),
    "free bits": lambda x: free_bits_kl(x[0].abs(), 0.5),
    "mahalanobis": lambda x: mahalanobis(*x[:3]),
    "distances": lambda x: Contrasted.of_distances(x[0][:, 0], x[1][:, 0], 0.01, EVERY).loss,
    "similarities": lambda x: Contrasted.of_similarities(x[0][:, 0], x[1][:, 0], 0.01, EVERY).loss,
    "bag of words": lambda x: bow_loss(x[0] * 16, torch.tensor([[0, 1]] * 5), torch.ones(5, 2).bool()),
    "mean": lambda x: masked_mean(x[0][:, 0], torch.tensor([True] * 4 + [False])),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_ignore_autocast_and_raise_half_precision(half, name):
    inputs = vectors(4, 5, 8).bfloat16()
    found = LOSSES[name](inputs)
    assert found.dtype == torch.float32
    with torch.autocast("cpu", enabled=False):
        assert torch.equal(found, LOSSES[name](inputs.float()))


def test_a_contrast_survives_distances_that_half_precision_cannot_tell_apart(half):
    d_pos = torch.tensor([1000.0])
    assert d_pos.bfloat16() == (d_pos + 1.0).bfloat16()
    assert Contrasted.of_distances(d_pos, d_pos + 1.0, 0.1, torch.tensor([True])).loss < 1e-4


@pytest.mark.parametrize("groups", [{}, {"keyword": {"imp_weight": "linear"}}, {"latent": {"enters": "layers"}}],
                         ids=str)
def test_every_part_of_a_training_pass_is_float32_and_near_the_full_pass(groups):
    # Differences of KLs of some hundred nats: a temperature of 0.1 would show their rounding ten times as large.
    contrasts = {"instance": {"temperature": 1.0}}
    model, batch = tiny_hcl.model(**groups, contrasts=contrasts), tiny_hcl.batch()
    full = objective(model(batch), model.config, 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(batch)
        loss, parts = objective(output, model.config, 1.0)
        selecting = validation_loss(output, model.config)
    tensors = {"loss": loss, "selecting": selecting, "reconstruction": output.reconstruction,
               **{name: getattr(output.latent, name) for name in ("kl_dims", "d_pos", "d_neg", "bow")},
               **{name: getattr(output.keyword, name) for name in ("u_in", "u_imp")},
               **{f"{name} {part}": getattr(found, part) for name, found in output.contrasts.items()
                  for part in ("right", "wrong", "loss")},
               "points": output.contrasts["mahalanobis"].points,
               "mu": output.latent.posterior.mu, "logvar": output.latent.prior.logvar, **parts}
    assert {name: tensor.dtype for name, tensor in tensors.items() if tensor.dtype != torch.float32} == {}
    assert loss.item() == pytest.approx(full[0].item(), rel=0.05)
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_gaussians_are_computed_in_full_from_what_the_encoder_gives(half):
    model = tiny_hcl.model()
    h_x, h_y = vectors(3, tiny_hcl.WIDTH), vectors(3, tiny_hcl.WIDTH, seed=1)
    found = model.posterior(h_x, h_y)
    with torch.autocast("cpu", enabled=False):
        expected = model.posterior(h_x, h_y)
    assert torch.equal(found.mu, expected.mu)
    assert torch.equal(found.logvar, expected.logvar)


def test_unseen_keywords_and_validation_work_under_autocast(half):
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    batch["kx"][1] = -1
    batch["unseen_vectors"] = vectors(4, tiny_hcl.WIDTH)
    u_in = model(batch).keyword.u_in
    assert u_in.dtype == torch.float32
    with torch.no_grad():
        whole = model(batch).keyword.u_in
    with torch.autocast("cpu", enabled=False), torch.no_grad():
        torch.testing.assert_close(whole[[0, 2, 3]], model.attention.all_vectors(model.graph)[batch["kx"][[0, 2, 3]]])
