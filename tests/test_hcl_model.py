"""The HCL model's training pass and objective: parts, gradients, precision, invariances, saving."""

import math

import pytest
import tiny_hcl
import torch
from torch.nn.functional import cosine_similarity
from transformers import AlbertConfig, BertModel

from models.common.losses import gaussian_kl
from models.hcl.hcl import BatchTotals, HclConfig, objective, unit_scale, validation_loss
from models.hcl.model import HclModel

OFF = {"weight": 0.0}
NO_CONTRAST = {"contrasts": {"instance": OFF, "keyword": OFF, "mahalanobis": OFF}}


def test_reconstruction_equals_a_loop_over_tokens():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    output = model(batch)
    z = output.latent.posterior.mu + (output.latent.posterior.logvar / 2).exp() * batch["eps"]
    for b in range(4):
        real = batch["x_mask"][b]
        hidden = model.encode(batch["x_ids"][[b]][:, real], torch.ones(1, int(real.sum())))
        memory = torch.cat([model.latent_entry.slot(z[[b]]).unsqueeze(1), hidden], dim=1)
        total = 0.0
        for t in range(int(batch["y_in_mask"][b].sum())):
            mask = torch.ones(1, memory.shape[1], dtype=torch.bool)
            states = model.decode(batch["y_in"][[b], : t + 1], memory, mask, z[[b]])
            total -= model.score(states)[0, -1].log_softmax(-1)[batch["y_out"][b, t]].item()
        assert output.reconstruction[b].item() == pytest.approx(total, abs=1e-4)


def test_latent_parts_follow_from_prior_and_posteriors():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    output = model(batch)
    latent = output.latent
    p, q, n = latent.prior, latent.posterior, latent.negative
    torch.testing.assert_close(latent.kl, gaussian_kl(q.mu, q.logvar, p.mu, p.logvar))
    torch.testing.assert_close(latent.d_pos, latent.kl / tiny_hcl.LATENT)
    torch.testing.assert_close(latent.d_neg, gaussian_kl(n.mu, n.logvar, p.mu, p.logvar) / tiny_hcl.LATENT)
    expected = torch.log1p(torch.exp((latent.d_pos - latent.d_neg) / 0.1))
    torch.testing.assert_close(output.contrasts["instance"].loss, expected, atol=1e-5, rtol=1e-4)


def test_the_prior_sees_the_input_keyword_and_never_the_output_keyword():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    before = model(batch).latent.prior.mu
    # To rounding: other nodes make a neighbourhood of another size, whose sums may fall in another order.
    torch.testing.assert_close(model({**batch, "ky": (batch["ky"] + 1) % 6}).latent.prior.mu, before)
    assert not torch.allclose(model({**batch, "kx": (batch["kx"] + 1) % 6}).latent.prior.mu, before)


def test_keyword_and_level_parts_equal_a_loop():
    model, batch = tiny_hcl.model(), tiny_hcl.batch(size=6)
    batch["ky"] = torch.arange(6)
    batch["kneg"] = torch.tensor([1, 2, 3, 4, 0, 2])
    output, u = model(batch), model.keyword_vectors()
    q = output.latent.posterior
    for b in range(6):
        kx, ky = batch["kx"][b], batch["ky"][b]
        nodes = sorted(j for i, j, sign in tiny_hcl.EDGES if i == ky and sign < 0) or [int(batch["kneg"][b])]
        scores = torch.stack([cosine_similarity(u[ky], u[j], dim=0) for j in nodes])
        impostor = torch.softmax(scores / 0.1, 0) @ u[nodes]
        s_out, s_imp = cosine_similarity(u[kx], u[ky], dim=0), cosine_similarity(u[kx], impostor, dim=0)
        expected = math.log1p(math.exp((s_imp - s_out).item() / 0.1))
        assert output.contrasts["keyword"].loss[b].item() == pytest.approx(expected, rel=1e-3, abs=1e-5)
        d_out, d_imp = ((((model.keyword_points(v) - q.mu[b]) ** 2) / q.logvar[b].exp()).mean()
                        for v in (u[ky], impostor))
        level = output.contrasts["mahalanobis"]
        assert level.right[b].item() == pytest.approx(d_out.item(), rel=1e-3)
        assert level.wrong[b].item() == pytest.approx(d_imp.item(), rel=1e-3)
        expected = torch.nn.functional.softplus((d_out - d_imp) / 0.5).item()
        assert level.loss[b].item() == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert output.keyword.mask.all()


def test_z_enters_by_a_slot_and_with_every_word_at_first_shorter_than_the_word():
    encoder = BertModel(tiny_hcl.encoder_config(), add_pooling_layer=False).eval()
    model = HclModel.from_parts(tiny_hcl.config(latent={"size": 64}), encoder, tiny_hcl.keyword_graph())
    length = model.latent_entry.embedding(torch.randn(4000, 64)).std()
    assert length.item() == pytest.approx(0.15 * float(model.get_input_embeddings().weight.detach().std()), rel=0.1)
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    model(batch).reconstruction.sum().backward()
    assert all(part.weight.grad.any() for part in (model.latent_entry.slot, model.latent_entry.embedding,
                                                   model.posterior.output))


def test_objective_puts_the_parts_together():
    model = tiny_hcl.model(contrasts={"keyword": {"weight": 0.3}})
    output = model(tiny_hcl.batch())
    loss, parts = objective(output, model.config, kl_weight=0.25)
    free = output.latent.kl_dims.mean(0).clamp(min=0.5 / tiny_hcl.LATENT).sum()
    elbo = output.reconstruction.mean() + 0.25 * free
    keyword = output.contrasts["keyword"].loss[output.keyword.mask].mean()
    level = output.contrasts["mahalanobis"].loss[output.keyword.mask].mean()
    torch.testing.assert_close(loss, elbo / 6.0 + output.contrasts["instance"].loss.mean() + 0.3 * keyword + level)
    torch.testing.assert_close(parts["keyword"], keyword)
    torch.testing.assert_close(parts["kl"], output.latent.kl.mean())
    assert not any(part.requires_grad for part in parts.values())


def test_contrasts_beside_the_sum_over_a_sentence_are_divided_by_its_mean_length_too():
    losses = {}
    for beside in ("token", "sentence"):
        model = tiny_hcl.model(contrasts={"added_to": beside, "keyword": {"weight": 0.3}})
        losses[beside], parts = objective(model(tiny_hcl.batch()), model.config, kl_weight=0.25)
    contrasts = parts["instance"] + 0.3 * parts["keyword"] + parts["mahalanobis"]
    assert contrasts > 0.1
    torch.testing.assert_close(losses["token"] - losses["sentence"], contrasts * (1 - 1 / 6))


def test_shares_of_micro_batches_add_up():
    model = tiny_hcl.model(latent={"free_bits": 0.0})
    batch = tiny_hcl.batch(size=6)
    batch["has_negative"] = torch.tensor([True, False, True, True, True, False])
    batch["ky"][0] = batch["kneg"][0] = 5  # no impostor
    whole, parts = objective(model(batch), model.config, 0.7)
    totals = BatchTotals.of(model(batch))
    _, _, mask = model.planner().impostors(batch["ky"], batch["kneg"])
    assert totals == BatchTotals(items=6, negatives=4, impostors=int(mask.sum()))
    micro = [{name: value[rows] for name, value in batch.items()} for rows in (slice(0, 4), slice(4, 6))]
    shares = [objective(model(part), model.config, 0.7, totals) for part in micro]
    torch.testing.assert_close(shares[0][0] + shares[1][0], whole, atol=1e-5, rtol=1e-5)
    for name, value in parts.items():
        torch.testing.assert_close(shares[0][1][name] + shares[1][1][name], value, atol=1e-5, rtol=1e-5)


def test_validation_loss_is_the_elbo_without_anything_else():
    batch = tiny_hcl.batch()
    full = tiny_hcl.model()
    output = full(batch)
    torch.testing.assert_close(validation_loss(output, full.config), (output.reconstruction + output.latent.kl) / 6.0)
    plain = tiny_hcl.model(**NO_CONTRAST, latent={"free_bits": 0.0})
    assert torch.equal(validation_loss(plain(batch), plain.config), validation_loss(output, full.config))
    backbone = tiny_hcl.model(latent={"enabled": False})
    output = backbone(batch)
    assert torch.equal(validation_loss(output, backbone.config), output.reconstruction / 6.0)


def test_masked_samples_take_no_part_and_without_any_gradients_are_finite():
    model, batch = tiny_hcl.model(), tiny_hcl.batch(size=3)
    batch["has_negative"] = torch.tensor([True, False, True])
    batch["ky"], batch["kneg"] = torch.tensor([0, 5, 1]), torch.tensor([1, -1, 2])
    output = model(batch)
    assert output.keyword.mask.tolist() == [True, False, True]
    _, parts = objective(output, model.config, 1.0)
    for name, contrasted in output.contrasts.items():
        torch.testing.assert_close(parts[name], contrasted.loss[[0, 2]].mean())
    batch["has_negative"] = torch.zeros(3, dtype=torch.bool)
    batch["ky"] = batch["kneg"] = torch.full((3,), -1)
    loss, parts = objective(model(batch), model.config, 1.0)
    assert parts["instance"] == parts["keyword"] == parts["mahalanobis"] == 0
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("groups", [{}, {"keyword": {"impostor_weight": "linear"}}], ids=str)
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
               **{name: getattr(output.latent, name) for name in ("kl_dims", "d_pos", "d_neg")},
               **{name: getattr(output.keyword, name) for name in ("u_in", "u_imp")},
               **{f"{name} {part}": getattr(contrasted, part) for name, contrasted in output.contrasts.items()
                  for part in ("right", "wrong", "loss")},
               "points": output.contrasts["mahalanobis"].points,
               "mu": output.latent.posterior.mu, "logvar": output.latent.prior.logvar, **parts}
    assert {name: tensor.dtype for name, tensor in tensors.items() if tensor.dtype != torch.float32} == {}
    assert loss.item() == pytest.approx(full[0].item(), rel=0.05)
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_all_rows_of_an_ablation_table_start_from_the_same_weights():
    torch.manual_seed(3)
    full = HclModel(tiny_hcl.config()).state_dict()
    for groups in ({"latent": {"enabled": False}}, {"keyword": {"condition": False}}, {"graph": {"iterations": 0}},
                   {"decoder": {"layers": 3}}, {"keyword": {"impostor_weight": "linear"}}):
        torch.manual_seed(3)
        row = HclModel(tiny_hcl.config(**groups)).state_dict()
        assert set(full) <= set(row) and all(torch.equal(full[name], row[name]) for name in full)


@torch.no_grad()
def test_text_and_keyword_reach_prior_and_memory_on_one_scale():
    vectors = torch.randn(3, tiny_hcl.WIDTH) * torch.tensor([[0.01], [1.0], [40.0]])
    torch.testing.assert_close(unit_scale(vectors).square().mean(-1), torch.ones(3))
    assert unit_scale(torch.zeros(1, 4)).tolist() == [[0.0] * 4]
    h_x, u_in, hidden, mask = *torch.randn(2, 3, tiny_hcl.WIDTH), torch.randn(3, 2, tiny_hcl.WIDTH), torch.ones(3, 2)
    for scaled in (True, False):
        model = tiny_hcl.model(keyword={"unit_scale": scaled}, decoder={"kw_memory": True})
        prior, longer = model.prior(h_x, u_in).mu, model.prior(0.3 * h_x, 3.3 * u_in).mu
        slots = [model.memory(hidden, mask, vectors, None)[0][:, 0] for vectors in (u_in, 3.3 * u_in)]
        assert torch.allclose(prior, longer, atol=1e-6) == torch.allclose(*slots, atol=1e-6) == scaled
        assert not torch.allclose(prior, model.prior(h_x, None).mu)


def test_texts_of_unlike_lengths_are_encoded_apart_with_the_same_result(monkeypatch):
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    calls = []
    encode = HclModel.encode
    monkeypatch.setattr(HclModel, "encode", lambda self, ids, mask: calls.append(len(ids)) or encode(self, ids, mask))
    together = model(batch)
    assert calls == [12]
    batch["x_ids"], batch["x_mask"] = (torch.nn.functional.pad(batch[name], (0, 20)) for name in ("x_ids", "x_mask"))
    apart = model(batch)
    assert calls == [12, 4, 4, 4]
    torch.testing.assert_close(apart.reconstruction, together.reconstruction, atol=1e-5, rtol=1e-5)


def test_cached_keyword_vectors_are_renewed_when_weights_change():
    model, other = tiny_hcl.model(), tiny_hcl.model(seed=9)
    before = model.keyword_vectors()
    assert model.keyword_vectors() is before
    model.load_state_dict(other.state_dict())
    torch.testing.assert_close(model.keyword_vectors(), other.keyword_vectors())
    torch.nn.init.zeros_(model.train().attention.Wv.weight)
    assert not torch.allclose(model.eval().keyword_vectors(), other.keyword_vectors())


def test_an_unseen_keyword_is_a_new_node():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    vectors = torch.randn(4, tiny_hcl.WIDTH)
    unseen = {**batch, "kx": batch["kx"].clone(), "unseen_vectors": vectors}
    unseen["kx"][1] = -1
    u_in = model(unseen).keyword.u_in
    torch.testing.assert_close(u_in[1], model.attention.isolated(vectors[[1]])[0])
    torch.testing.assert_close(u_in[[0, 2, 3]], model(batch).keyword.u_in[[0, 2, 3]])
    with pytest.raises(ValueError, match=r"1 input keywords are no nodes; give their unseen_vectors \(B, d\)"):
        model({name: value for name, value in unseen.items() if name != "unseen_vectors"})


# Building, saving, configuration


def test_a_model_without_nodes_can_be_saved(tmp_path):
    config = HclConfig.from_params(
        {"keyword": {"condition": False}, "latent": {"size": 4}, "decoder": {"layers": 1}},
        tiny_hcl.encoder_config(), tiny_hcl.SPECIAL_IDS, num_nodes=0, num_edges=0, mean_target_length=6.0)
    model, batch = HclModel(config).eval(), tiny_hcl.batch()
    model.save_pretrained(tmp_path)
    assert torch.equal(HclModel.from_pretrained(tmp_path)(batch).reconstruction, model(batch).reconstruction)


def test_a_model_to_train_has_the_states_of_its_encoder():
    encoder = BertModel(tiny_hcl.encoder_config(), add_pooling_layer=False).eval()
    model = HclModel.from_parts(tiny_hcl.config(), encoder, tiny_hcl.keyword_graph()).eval()
    batch = tiny_hcl.batch()
    expected = encoder(input_ids=batch["x_ids"], attention_mask=batch["x_mask"].long()).last_hidden_state
    torch.testing.assert_close(model.encode(batch["x_ids"], batch["x_mask"]), expected)
    assert model.encoder.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(("groups", "message"), [
    ({"graph": {"edge_type": "signed"}}, "unknown setting graph.edge_type. A model that another version"),
    ({"latent": {"enters": "layers"}}, "unknown setting latent.enters"),
    ({"keyword": {"impostor_weight": "attn"}}, "keyword.impostor_weight is 'attn', expected one of cosine, linear"),
    ({"keyword": {"condition": "source"}}, "keyword.condition is 'source', expected one of False, True, target"),
    ({"keyword": {"condition": False}, "decoder": {"kw_memory": True}}, "kw_memory needs keyword.condition"),
    ({"encoder": AlbertConfig()}, "encoder is of type 'albert'; HCL is built on BERT")])
def test_contradictions_in_the_configuration_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        tiny_hcl.config(**groups)
