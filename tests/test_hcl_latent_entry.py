"""How z enters the decoder: each way alone reaches the output, and nothing else changes."""

import pytest
import tiny_hcl
import torch

from models.common.encoders import load_encoder
from models.hcl.model import HclModel

MAPS = {"memory+embed": {"slot", "embedding"}, "layers": {"inputs"}}

ENTERS = pytest.mark.parametrize("enters", ["memory+embed", "layers"])


def model_of(enters, **groups):
    return tiny_hcl.model(latent={"enters": enters}, **groups)


def states(model, batch, z):
    hidden = model.encode(batch["x_ids"], batch["x_mask"])
    memory, mask = model.memory(hidden, batch["x_mask"], None, z)
    return model.decode(batch["y_in"], memory, mask, z), memory, mask


@ENTERS
def test_z_changes_the_scores_of_every_token(enters):
    model, batch = model_of(enters), tiny_hcl.batch()
    z = torch.zeros(4, tiny_hcl.LATENT)
    before, after = (model.score(states(model, batch, value)[0]) for value in (z, z + 1.0))
    real = batch["y_in_mask"]
    assert ((before - after).abs().amax(-1)[real] > 1e-4).all()


@ENTERS
def test_gradients_reach_the_maps_in_use_and_the_posterior(enters):
    model, batch = model_of(enters), tiny_hcl.batch()
    model(batch).reconstruction.sum().backward()
    touched = {name for name, part in model.latent_entry.named_children()
               if part.weight.grad is not None and part.weight.grad.any()}
    assert touched == MAPS[enters]
    assert model.posterior.output.weight.grad.any()


def test_each_layer_has_a_map_of_its_own():
    model, batch = model_of("layers"), tiny_hcl.batch()
    z, seen = torch.randn(4, tiny_hcl.LATENT), []
    for layer in model.decoder.layers:
        layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        layer.register_forward_hook(lambda _, given, out: seen.append(out))
    states(model, batch, z)
    weights = model.latent_entry.inputs.weight.view(2, tiny_hcl.WIDTH, tiny_hcl.LATENT)
    first, after_first, second, _ = seen
    torch.testing.assert_close(second, after_first + (z @ weights[1].T).unsqueeze(1))
    seen.clear()
    states(model, batch, 0.0 * z)
    torch.testing.assert_close(first, seen[0] + (z @ weights[0].T).unsqueeze(1))


@pytest.mark.parametrize(("enters", "place"), [("memory+embed", "embedding"), ("layers", "inputs")])
def test_at_the_start_noise_is_short_beside_what_it_joins(enters, place):
    encoder, _ = load_encoder(None, tiny_hcl.encoder_config())
    torch.manual_seed(0)
    model = HclModel.from_parts(tiny_hcl.config(latent={"enters": enters, "size": 64}), encoder,
                                tiny_hcl.keyword_graph())
    spread = getattr(model.latent_entry, place)(torch.randn(4000, 64)).std()
    joined = 1.0 if enters == "layers" else float(model.get_input_embeddings().weight.detach().std())
    assert spread.item() == pytest.approx(0.15 * joined, rel=0.1)
