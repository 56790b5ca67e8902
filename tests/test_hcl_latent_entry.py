"""How z enters the decoder: each way alone reaches the output, and nothing else changes (METHODS A.7, A-D5)."""

import pytest
import tiny_hcl
import torch

from models.common.attention import DecoderStep, Heads
from models.common.encoders import load_encoder
from models.hcl import HclModel
from models.hcl.latent import ENTERS

MAPS = {"memory": {"slot"}, "embed": {"embedding"}, "memory+embed": {"slot", "embedding"}, "bos": {"start"},
        "prefix": {"prefix"}, "layers": {"inputs"}, "output": {"state"}}


def model_of(enters, **groups):
    return tiny_hcl.model(latent={"enters": enters}, **groups)


def states(model, batch, z):
    hidden = model.encode(batch["x_ids"], batch["x_mask"])
    memory, mask = model.memory(hidden, batch["x_mask"], None, z)
    return model.decode(batch["y_in"], memory, mask, z), memory, mask


@pytest.mark.parametrize("enters", ENTERS)
def test_z_changes_the_scores_of_every_token(enters):
    model, batch = model_of(enters), tiny_hcl.batch()
    z = torch.zeros(4, tiny_hcl.LATENT)
    before, after = (model.score(states(model, batch, value)[0]) for value in (z, z + 1.0))
    real = batch["y_in_mask"]
    assert ((before - after).abs().amax(-1)[real] > 1e-4).all()


@pytest.mark.parametrize("enters", ENTERS)
def test_gradients_reach_the_maps_in_use_and_the_posterior(enters):
    model, batch = model_of(enters), tiny_hcl.batch()
    model(batch).reconstruction.sum().backward()
    touched = {name for name, part in model.latent_entry.named_children()
               if part.weight.grad is not None and part.weight.grad.any()}
    assert touched == MAPS[enters]
    assert model.posterior.output.weight.grad.any()


def test_the_start_is_replaced_and_nothing_else():
    model, batch = model_of("bos"), tiny_hcl.batch()
    z, words = torch.randn(4, tiny_hcl.LATENT), model.get_input_embeddings()
    embedded = words(batch["y_in"])
    changed = model.latent_entry.embedded(embedded, z, past=0)
    torch.testing.assert_close(changed[:, 0], model.latent_entry.start(z))
    assert torch.equal(changed[:, 1:], embedded[:, 1:])
    assert torch.equal(model.latent_entry.embedded(embedded, z, past=3), embedded)
    other = batch["y_in"].clone()
    other[:, 0] = 9  # whatever token begins, z stands in its place
    assert torch.equal(states(model, batch, z)[0], states(model, {**batch, "y_in": other}, z)[0])


def test_a_prefix_is_one_more_key_and_value_in_every_layer():
    model, z = model_of("prefix"), torch.randn(4, tiny_hcl.LATENT)
    prefixes = model.latent_entry.prefixes(z)
    assert len(prefixes) == 2
    layer = model.decoder.layers[0]
    hidden = torch.randn(4, 3, tiny_hcl.WIDTH)
    mask = torch.ones(3, 4, dtype=torch.bool).tril(1)  # each token sees the prefix, itself and those before
    step = DecoderStep(Heads(2), [None, None], mask, [], [], model.decoder.dropout, prefixes=prefixes)
    found = step.own(0, layer.self_attention, hidden)
    heads, width = 2, tiny_hcl.WIDTH // 2
    for b in range(4):
        all_keys = torch.cat([prefixes[0][0][[b]], layer.self_attention.key(hidden[b])])
        all_values = torch.cat([prefixes[0][1][[b]], layer.self_attention.value(hidden[b])])
        for t in range(3):
            query = layer.self_attention.query(hidden[b, t])
            parts = []
            for head in range(heads):
                chosen = slice(head * width, (head + 1) * width)
                scores = all_keys[: t + 2, chosen] @ query[chosen] / width**0.5
                parts.append(torch.softmax(scores, 0) @ all_values[: t + 2, chosen])
            expected = layer.self_attention.output(torch.cat(parts))
            torch.testing.assert_close(found[b, t], expected, atol=1e-5, rtol=1e-5)


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


def test_at_the_output_z_is_concatenated_to_the_state():
    model, batch = model_of("output"), tiny_hcl.batch()
    z = torch.randn(4, tiny_hcl.LATENT)
    with_z, memory, mask = states(model, batch, z)
    plain = model.decoder(model.get_input_embeddings()(batch["y_in"]), memory, mask)
    joined = torch.cat([plain, z.unsqueeze(1).expand(-1, plain.shape[1], -1)], -1)
    weight = torch.cat([torch.eye(tiny_hcl.WIDTH), model.latent_entry.state.weight], 1)
    torch.testing.assert_close(with_z, joined @ weight.T, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("enters", ENTERS)
def test_padding_and_saving_change_nothing(enters, tmp_path):
    model = model_of(enters)
    short, long = (model(tiny_hcl.batch(extra=extra)).reconstruction for extra in (0, 5))
    torch.testing.assert_close(short, long, atol=1e-5, rtol=1e-5)
    model.save_pretrained(tmp_path)
    assert torch.equal(HclModel.from_pretrained(tmp_path)(tiny_hcl.batch()).reconstruction, short)


@pytest.mark.parametrize("enters", ENTERS)
def test_rows_that_differ_in_this_alone_start_from_the_same_weights(enters):
    torch.manual_seed(3)
    default = HclModel(tiny_hcl.config()).state_dict()
    torch.manual_seed(3)
    row = HclModel(tiny_hcl.config(latent={"enters": enters})).state_dict()
    assert set(default) <= set(row)
    assert all(torch.equal(default[name], row[name]) for name in default)


def test_other_switches_leave_the_weights_that_rows_share_alone():
    rows = {}
    for name, groups in {"full": {}, "signed": {"graph": {"edge_type": "signed"}}, "deep": {"decoder": {"layers": 3}},
                         "mean": {"keyword": {"imp_weight": "mean"}}, "other": {}}.items():
        torch.manual_seed(4 if name == "other" else 3)
        rows[name] = HclModel(tiny_hcl.config(**groups)).state_dict()
    learned = [name for name, value in rows["full"].items() if value.dim() > 1 and not name.startswith("graph.")]
    for row in ("signed", "deep", "mean"):
        assert all(torch.equal(rows["full"][name], rows[row][name]) for name in learned if name in rows[row])
    assert not any(torch.equal(rows["full"][name], rows["other"][name]) for name in learned)


@pytest.mark.parametrize("enters", ["embed", "bos", "layers", "output"])
def test_at_the_start_noise_is_short_beside_what_it_joins(enters):
    encoder, _ = load_encoder(None, tiny_hcl.encoder_config())
    torch.manual_seed(0)
    model = HclModel.from_parts(tiny_hcl.config(latent={"enters": enters, "size": 64}), encoder,
                                tiny_hcl.keyword_graph())
    noise = torch.randn(4000, 64)
    place = next(iter(MAPS[enters]))
    spread = getattr(model.latent_entry, place)(noise).std()
    words = model.get_input_embeddings().weight.std()
    expected = {"embed": 0.15 * words, "bos": words, "layers": torch.tensor(0.15),
                "output": torch.tensor(0.15)}[enters]
    assert spread.item() == pytest.approx(expected.item(), rel=0.1)


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="latent.enters is 'everywhere', expected one of memory.embed, memory"):
        tiny_hcl.config(latent={"enters": "everywhere"})
