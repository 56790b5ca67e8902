"""The HCL model's training pass and objective: parts, gradients, invariances, saving."""

import math

import pytest
import tiny_bert
import tiny_hcl
import torch
from torch.nn.functional import cosine_similarity

from models.common.encoders import freeze_lower_layers, load_encoder
from models.common.losses import bow_loss, gaussian_kl
from models.common.transformer import embed, mean_pool
from models.hcl.graph import KeywordGraph
from models.hcl.hcl import BatchTotals, HclConfig, objective, unit_scale, validation_loss
from models.hcl.model import HclModel

OFF = {"weight": 0.0}
NO_CONTRAST = {"contrasts": {"instance": OFF, "keyword": OFF, "mahalanobis": OFF}}


def gradients(model, batch, beta=1.0):
    """Gradient by parameter name; None where the objective does not reach."""
    model.zero_grad()
    loss, _ = objective(model(batch), model.config, beta)
    loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


# The parts of a batch


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
        assert output.tokens[b] == batch["y_in_mask"][b].sum()


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
        d_out, d_imp = (
            (((model.keyword_points(v) - q.mu[b]) ** 2) / q.logvar[b].exp()).mean() for v in (u[ky], impostor)
        )
        assert output.contrasts["mahalanobis"].right[b].item() == pytest.approx(d_out.item(), rel=1e-3)
        assert output.contrasts["mahalanobis"].wrong[b].item() == pytest.approx(d_imp.item(), rel=1e-3)
        expected = torch.nn.functional.softplus((d_out - d_imp) / 0.5).item()
        assert output.contrasts["mahalanobis"].loss[b].item() == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert output.keyword.mask.all()


def test_bag_of_words_reads_text_and_z_alone():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    before = model(batch)
    z = before.latent.posterior.sample(batch["eps"])
    h_x = mean_pool(model.encode(batch["x_ids"], batch["x_mask"]), batch["x_mask"])
    state = torch.tanh(model.bow_hidden(torch.cat([h_x, z], -1)))
    logits = state @ model.get_input_embeddings().weight.T + model.bow_scores.bias
    torch.testing.assert_close(before.latent.bow, bow_loss(logits, batch["y_out"], batch["y_in_mask"]))


# Objective


def test_objective_puts_the_parts_together():
    model = tiny_hcl.model(contrasts={"keyword": {"weight": 0.3}})
    output = model(tiny_hcl.batch())
    loss, parts = objective(output, model.config, kl_weight=0.25)
    free = output.latent.kl_dims.mean(0).clamp(min=0.5 / tiny_hcl.LATENT).sum()
    elbo = output.reconstruction.mean() + 0.25 * free + output.latent.bow.mean()
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
    _, _, mask = model.impostors(batch["ky"], batch["kneg"])
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
    plain = tiny_hcl.model(**NO_CONTRAST, latent={"bow_loss": False, "free_bits": 0.0})
    assert torch.equal(validation_loss(plain(batch), plain.config), validation_loss(output, full.config))
    backbone = tiny_hcl.model(latent={"enabled": False})
    output = backbone(batch)
    assert torch.equal(validation_loss(output, backbone.config), output.reconstruction / 6.0)


def test_masked_samples_take_no_part():
    model, batch = tiny_hcl.model(), tiny_hcl.batch(size=3)
    batch["has_negative"] = torch.tensor([True, False, True])
    batch["ky"], batch["kneg"] = torch.tensor([0, 5, 1]), torch.tensor([1, -1, 2])
    output = model(batch)
    assert output.keyword.mask.tolist() == [True, False, True]
    _, parts = objective(output, model.config, 1.0)
    kept = [0, 2]
    torch.testing.assert_close(parts["instance"], output.contrasts["instance"].loss[kept].mean())
    torch.testing.assert_close(parts["keyword"], output.contrasts["keyword"].loss[kept].mean())
    torch.testing.assert_close(parts["mahalanobis"], output.contrasts["mahalanobis"].loss[kept].mean())


def test_a_batch_without_negatives_and_impostors_has_finite_gradients():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    batch["has_negative"] = torch.zeros(4, dtype=torch.bool)
    batch["ky"] = batch["kneg"] = torch.full((4,), -1)
    grads = gradients(model, batch)
    _, parts = objective(model(batch), model.config, 1.0)
    assert parts["instance"] == parts["keyword"] == parts["mahalanobis"] == 0
    assert all(torch.isfinite(grad).all() for grad in grads.values() if grad is not None)


# Monitors


def test_all_rows_of_an_ablation_table_start_from_the_same_weights():
    torch.manual_seed(3)
    full = HclModel(tiny_hcl.config()).state_dict()
    for groups in ({"latent": {"enabled": False}}, {"keyword": {"condition": False}}, {"graph": {"iterations": 0}},
                   {"latent": {"enters": "layers"}}, {"decoder": {"layers": 3}}, {"keyword": {"imp_weight": "linear"}}):
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


# Invariances


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


def test_kept_keyword_vectors_are_renewed_when_weights_change():
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


def test_word_dropout_acts_in_training_alone_and_spares_the_start():
    model, batch = tiny_hcl.model(latent={"word_dropout": 0.9}), tiny_hcl.batch()
    assert torch.equal(model._word_dropout(batch), batch["y_in"])
    dropped = model.train()._word_dropout(batch)
    assert (dropped[:, 0] == tiny_hcl.SPECIAL_IDS["bos"]).all()
    changed = dropped != batch["y_in"]
    assert changed.any()
    assert (dropped[changed] == tiny_hcl.SPECIAL_IDS["mask"]).all()


# Saving


def test_a_model_without_nodes_can_be_saved(tmp_path):
    config = HclConfig.from_params(
        {"keyword": {"condition": False}, "latent": {"size": 4}, "decoder": {"layers": 1}},
        tiny_hcl.encoder_config(), tiny_hcl.SPECIAL_IDS, num_nodes=0, num_edges=0, mean_target_length=6.0,
    )
    model, batch = HclModel(config).eval(), tiny_hcl.batch()
    model.save_pretrained(tmp_path)
    assert torch.equal(HclModel.from_pretrained(tmp_path)(batch).reconstruction, model(batch).reconstruction)


def test_from_parts_takes_over_the_encoder(tmp_path):
    encoder, _ = load_encoder(None, tiny_hcl.encoder_config())
    model = HclModel.from_parts(tiny_hcl.config(), encoder, tiny_hcl.keyword_graph()).eval()
    batch = tiny_hcl.batch()
    expected = encoder(input_ids=batch["x_ids"], attention_mask=batch["x_mask"].long()).last_hidden_state
    torch.testing.assert_close(model.encode(batch["x_ids"], batch["x_mask"]), expected)
    assert model.encoder.config._attn_implementation == "sdpa"
    with pytest.raises(RuntimeError, match="size mismatch"):
        HclModel.from_parts(tiny_hcl.config(), encoder, KeywordGraph(3, 3, tiny_hcl.WIDTH))


# Configuration and encoders


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"graph": {"edge_type": "signed"}}, "unknown setting graph.edge_type. A model that another version"),
        ({"keyword": {"imp_weight": "attn"}}, "keyword.imp_weight is 'attn', expected one of cosine, linear"),
        ({"latent": {"enters": "bos"}}, "latent.enters is 'bos', expected one of memory.embed, layers"),
        ({"contrasts": {"added_to": "word"}}, "contrasts.added_to is 'word', expected one of token, sentence"),
        ({"keyword": {"condition": False}, "decoder": {"kw_memory": True}}, "kw_memory needs keyword.condition"),
    ],
)
def test_contradictions_in_the_configuration_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        tiny_hcl.config(**groups)


def test_pooling():
    hidden, mask = torch.arange(12.0).view(2, 3, 2), torch.tensor([[True, True, False], [False, False, False]])
    assert mean_pool(hidden, mask).tolist() == [[1.0, 2.0], [0.0, 0.0]]
    encoder, _ = load_encoder(None, tiny_hcl.encoder_config())
    ids, real = tiny_hcl.padded([[2, 7, 3], [2, 8, 9, 10, 3]])
    alone = embed(encoder, ids[:1, :3], real[:1, :3])
    torch.testing.assert_close(embed(encoder, ids, real)[:1], alone, atol=1e-5, rtol=1e-5)


def test_freezing_lower_layers():
    encoder, _ = load_encoder(None, tiny_hcl.encoder_config())
    freeze_lower_layers(encoder, 0)
    assert all(parameter.requires_grad for parameter in encoder.parameters())
    freeze_lower_layers(encoder, 1)
    free = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    assert free == {name for name, _ in encoder.named_parameters() if name.startswith("encoder.layer.1.")}
    with pytest.raises(ValueError, match="3 layers to freeze, the encoder has 2"):
        freeze_lower_layers(encoder, 3)


def test_weights_that_are_missing_are_not_made_up(tmp_path, caplog):
    from safetensors.torch import load_file, save_file

    tiny_bert.save_encoder(tmp_path)  # with a pooler, which is left out without a word
    encoder, tokenizer = load_encoder(tmp_path)
    assert not any(name.startswith("pooler") for name in encoder.state_dict())
    assert tokenizer.cls_token == "[CLS]"
    assert "pooler" not in caplog.text
    random, _ = load_encoder(tmp_path, pretrained=False)
    assert not torch.equal(random.embeddings.word_embeddings.weight, encoder.embeddings.word_embeddings.weight)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["encoder.layer.1.attention.self.key.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 weights of a bert encoder: encoder.layer.1.attention.self.key"):
        load_encoder(tmp_path)
