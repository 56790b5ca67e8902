"""Validation values and training monitors against loops, and what the selecting loss may not see."""

import math

import pytest
import tiny_hcl
import torch

from models.common.losses import gaussian_kl
from models.hcl.hcl import BatchTotals, objective, validation_loss
from models.hcl.monitors import Validation, training_monitors

SIZES = (4, 4, 3)


@pytest.fixture
def batches():
    found = []
    for seed, size in enumerate(SIZES):
        batch = tiny_hcl.batch(size, seed=seed)
        batch["has_negative"][0] = False
        batch["unseen_vectors"] = torch.zeros(size, tiny_hcl.WIDTH)
        found.append(batch)
    return found


def validated(model, batches, **options):
    validation = Validation(model, **options)
    for batch in batches:
        validation.add(batch)
    return validation.values()


def selecting(batch):
    """What the selecting loss may see of a batch."""
    nobody = torch.full_like(batch["ky"], -1)
    kept = {name: value for name, value in batch.items() if not name.startswith("neg_")}
    return kept | {"ky": nobody, "kneg": nobody, "has_negative": torch.zeros_like(batch["has_negative"])}


@torch.no_grad()
@pytest.mark.parametrize("groups", [{}, {"latent": {"enabled": False}}, {"keyword": {"condition": False}},
                                    {"graph": {"iterations": 0}}, {"latent": {"enters": "layers"}}], ids=str)
def test_the_selecting_loss_is_that_of_a_pass_without_negatives_and_output_keywords_to_the_bit(groups, batches):
    model = tiny_hcl.model(**groups)
    outputs = [model(selecting(batch)) for batch in batches]
    values = validated(model, batches)
    assert values["loss"] == float(torch.cat([validation_loss(output, model.config) for output in outputs]).mean())
    assert values["reconstruction"] == float(torch.cat([output.reconstruction for output in outputs]).mean())
    if model.config.latent.enabled:
        assert values["kl"] == float(torch.cat([output.latent.kl for output in outputs]).mean())
        assert values["loss"] == pytest.approx((values["reconstruction"] + values["kl"]) / 6.0)


@torch.no_grad()
def test_negatives_and_output_keywords_move_monitors_alone(batches):
    model = tiny_hcl.model()
    before = validated(model, batches)
    for batch in batches:
        batch["ky"], batch["kneg"] = (batch["ky"] + 1) % 6, (batch["kneg"] + 2) % 6
        batch["neg_ids"] = batch["neg_ids"].roll(1, 0)
        batch["neg_mask"] = batch["neg_mask"].roll(1, 0)
    after = validated(model, batches)
    changed = {name for name in before if before[name] != after[name]}
    assert {name for name in changed if not name.startswith(("instance_", "keyword_", "mahalanobis_",
                                                                        "impostor_"))} == {
        "kl_negative"}
    assert {"instance_loss", "keyword_loss", "mahalanobis_loss", "impostor_cosine"} <= changed


@torch.no_grad()
def test_reconstructions_without_the_posterior_equal_those_of_whole_passes(batches):
    model = tiny_hcl.model()
    values = validated(model, batches, every=1)
    for source in ("prior", "mean", "zero"):
        expected = torch.cat([tiny_hcl.reconstruction(model, selecting(batch), source) for batch in batches]).mean()
        assert values[f"reconstruction_{source}"] == pytest.approx(float(expected), rel=1e-5)
    assert values["reconstruction_prior"] != values["reconstruction_zero"] != values["reconstruction"]


@torch.no_grad()
def test_a_part_of_the_items_stands_for_all_however_they_fall_into_batches(batches):
    model = tiny_hcl.model()
    seen = [selecting(batch) for batch in batches]
    worse = {source: torch.cat([tiny_hcl.reconstruction(model, batch, source) - model(batch).reconstruction
                                for batch in seen]) for source in ("prior", "mean", "zero")}
    values = validated(model, batches, every=3)
    for source, difference in worse.items():
        expected = values["reconstruction"] + float(difference[::3].mean())
        assert values[f"reconstruction_{source}"] == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def test_units_of_a_relative_posterior_are_active_however_narrow_the_prior_is(batches):
    model = tiny_hcl.model(latent={"posterior": "relative"})
    model.prior.output.weight.zero_()
    model.prior.output.bias.zero_()
    wide = validated(model, batches)["active_units"]
    model.prior.output.bias[tiny_hcl.LATENT:] = -7.0  # the logarithm of the variance: means vary by 0.03 of before
    assert wide > 0 and validated(model, batches)["active_units"] == wide


@torch.no_grad()
def test_monitors_equal_a_loop_over_items(batches):
    model = tiny_hcl.model(contrasts={"keyword": {"temperature": 0.02}})
    batches[1]["kx"][2] = -1  # outside the graph: its keyword contrast is not counted
    values = validated(model, batches)
    outputs = [model(batch) for batch in batches]
    q, p, n = ([getattr(output.latent, part) for output in outputs] for part in ("posterior", "prior", "negative"))
    mu, logvar = (torch.cat([getattr(gaussian, part) for gaussian in q]) for part in ("mu", "logvar"))
    assert values["active_units"] == sum(float(mu[:, k].var(correction=0)) > 0.01 for k in range(tiny_hcl.LATENT))
    assert values["mean_log_sigma"] == pytest.approx(float((logvar / 2).mean()), rel=1e-4)
    assert values["sigma"] == pytest.approx(float((logvar / 2).exp().mean()), rel=1e-4)
    dims = torch.cat([output.latent.kl_dims for output in outputs]).mean(0)
    for free, by in ((4 * float(dims.sort().values[1:3].mean()), "dimension"), (float(dims.sum()) + 0.1, "total"),
                     (float(dims.sum()) - 0.1, "total")):
        held = tiny_hcl.model(latent={"free_bits": free, "free_bits_by": by})
        under = [float(kl) <= free / tiny_hcl.LATENT for kl in dims] if by == "dimension" else [dims.sum() <= free]
        assert validated(held, batches)["under_floor"] == sum(map(float, under)) / len(under)
    real = [[bool(flag) for flag in batch["has_negative"]] for batch in batches]
    kl_negative = [float(kl) for negative, prior, flags in zip(n, p, real, strict=True) for kl, flag in zip(
        gaussian_kl(negative.mu, negative.logvar, prior.mu, prior.logvar), flags, strict=True) if flag]
    assert values["kl_negative"] == pytest.approx(sum(kl_negative) / len(kl_negative), rel=1e-4)
    assert values["instance_masked"] == pytest.approx(3 / 11)
    losses, gaps, likeness = [], [], []
    for number, (batch, output) in enumerate(zip(batches, outputs, strict=True)):
        for b in range(len(batch["kx"])):
            if output.keyword.mask[b] and not (number == 1 and b == 2):
                losses.append(float(output.contrasts["keyword"].loss[b]))
                keyword = output.contrasts["keyword"]
                gaps.append(float(keyword.right[b] - keyword.wrong[b]) / 0.02)
                own, u = batch["ky"][b], model.keyword_vectors()
                nodes = [j for i, j, sign in tiny_hcl.EDGES if i == own and sign < 0] or [int(batch["kneg"][b])]
                cosines = torch.cosine_similarity(u[nodes], u[own], dim=-1)
                of_impostor = torch.cosine_similarity(output.keyword.u_imp[b], u[own], dim=0)
                likeness.append([float(of_impostor), float(cosines.max()), float(cosines.min())])
    for name, expected in zip(("cosine", "hardest", "easiest"), zip(*likeness, strict=True), strict=True):
        assert values[f"impostor_{name}"] == pytest.approx(sum(expected) / len(expected), rel=1e-3), name
    assert values["impostor_easiest"] < values["impostor_cosine"]
    assert values["keyword_masked"] == pytest.approx(1 - len(losses) / 11)
    assert values["keyword_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-3)
    assert values["keyword_vanished"] == pytest.approx(sum(loss < 0.01 for loss in losses) / len(losses))
    assert values["keyword_ahead"] == pytest.approx(sum(gap > 0 for gap in gaps) / len(gaps))
    assert values["keyword_gap"] == pytest.approx(sum(map(abs, gaps)) / len(gaps), rel=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("groups", [{}, {"latent": {"enabled": False}, "decoder": {"kw_memory": True}}], ids=str)
def test_a_keyword_swap_equals_a_loop_over_items(batches, groups):
    model = tiny_hcl.model(**groups)
    batch = {**batches[0], "kx": torch.tensor([0, 0, 3, 0])}
    donors = [2, 2, 3, 2]  # the next item with another keyword, in a ring
    values = validated(model, [batch], every=1)
    swapped = {**batch, "kx": batch["kx"][donors]}
    shifts, moved = [], []
    before, after = (model.keywords(model.planned(one)).u_in for one in (batch, swapped))
    text = model.texts(batch, ["x"])["x"]
    has_latent = model.config.latent.enabled
    p, other = (model.prior(text.vector, u_in) if has_latent else None for u_in in (before, after))
    for b in range(4):
        if has_latent:
            shifts.append(float((((p.mu[b] - other.mu[b]) ** 2 / p.logvar[b].exp()).mean()) ** 0.5))
        tokens = []
        for u_in, gaussian in ((before, p), (after, other)):
            z = gaussian.mu if has_latent else None
            memory, mask = model.memory(text.states, batch["x_mask"], u_in, z)
            tokens.append(model.score(model.decode(batch["y_in"], memory, mask, z))[b].softmax(-1))
        moved += [float((tokens[0][t] - tokens[1][t]).abs().sum()) / 2 for t in range(int(batch["y_in_mask"][b].sum()))]
    assert values["swap_outputs"] == pytest.approx(sum(moved) / len(moved), rel=1e-3)
    if has_latent:
        assert values["swap_prior"] == pytest.approx(sum(shifts) / 4, rel=1e-3)
    alike = {**batch, "kx": torch.zeros(4, dtype=torch.int64)}  # nobody has another keyword to give
    assert not any(name.startswith("swap") for name in validated(model, [alike]))


@torch.no_grad()
def test_kl_of_training_items_is_that_of_their_pass(batches):
    model = tiny_hcl.model()
    validation = Validation(model)
    validation.add(batches[0])
    for batch in batches[1:]:
        validation.add_seen(batch)
    values = validation.values()
    seen = torch.cat([model(batch).latent.kl for batch in batches[1:]]).mean()
    assert values["kl_train"] == pytest.approx(float(seen), rel=1e-4)


@torch.no_grad()
def test_what_a_model_lacks_is_left_out(batches):
    assert set(validated(tiny_hcl.model(latent={"enabled": False}), batches)) == {"loss", "reconstruction"}
    with_keyword = tiny_hcl.model(latent={"enabled": False}, decoder={"kw_memory": True})
    found = {name for name in validated(with_keyword, batches) if not name.startswith(("keyword_", "impostor_"))}
    assert found == {"loss", "reconstruction", "swap_outputs"}
    plain = validated(tiny_hcl.model(keyword={"condition": False}), batches)
    assert not any(name.startswith(("keyword", "mahalanobis", "swap", "impostor")) for name in plain)
    nameless = [{**batch, "ky": torch.full_like(batch["ky"], -1)} for batch in batches]
    values = validated(tiny_hcl.model(), nameless)
    assert values["keyword_masked"] == 1.0 and "keyword_loss" not in values


def test_training_mode_is_refused(batches):
    with pytest.raises(ValueError, match=r"call eval\(\) on the model"):
        Validation(tiny_hcl.model().train()).add(batches[0])


def test_shares_of_training_monitors_add_up_to_those_of_the_batch():
    model, batch = tiny_hcl.model(contrasts={"keyword": {"temperature": 0.02}}), tiny_hcl.batch(size=6)
    batch["has_negative"] = torch.tensor([True, False, True, True, True, False])
    batch["ky"][0] = batch["kneg"][0] = 5  # no impostor
    output = model(batch)
    totals = BatchTotals.of(output)
    whole = training_monitors(output, totals)
    micro = [{name: value[rows] for name, value in batch.items()} for rows in (slice(0, 4), slice(4, 6))]
    shares = [training_monitors(model(part), totals) for part in micro]
    for name, value in whole.items():
        assert float(shares[0][name] + shares[1][name]) == pytest.approx(float(value), abs=1e-5, rel=1e-4), name
        assert not torch.as_tensor(value).requires_grad, name
    validation = Validation(model)
    validation.monitor(output)
    expected = validation.values()
    for name, value in whole.items():
        assert float(value) == pytest.approx(expected[name], rel=1e-5), name
    assert set(whole) == {"sigma", "mean_log_sigma", "impostor_cosine", "impostor_hardest", "impostor_easiest",
                          *(f"{contrast}_{part}" for contrast in ("instance", "keyword", "mahalanobis")
                            for part in ("masked", "vanished", "gap"))}


def test_training_monitors_of_a_batch_without_contrasts_are_finite():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    batch["has_negative"] = torch.zeros(4, dtype=torch.bool)
    batch["ky"] = batch["kneg"] = torch.full((4,), -1)
    output = model(batch)
    values = training_monitors(output, BatchTotals.of(output))
    assert all(math.isfinite(value) for value in values.values())
    assert values["instance_masked"] == values["keyword_masked"] == 1.0
    assert values["instance_vanished"] == values["keyword_gap"] == 0.0
    assert torch.isfinite(objective(output, model.config, 1.0)[0])
