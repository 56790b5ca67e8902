"""Validation values and training monitors against loops, what the selecting loss may not see, and alarms."""

import math

import pytest
import tiny_hcl
import torch

from models.hcl.hcl import BatchTotals, objective, training_monitors, validation_loss
from models.hcl.monitors import (
    ACTIVE_SHARE,
    EQUAL_VECTORS,
    IGNORED_MARGIN,
    IGNORED_SWAP,
    LEAK_NATS,
    LEAK_RATIO,
    LEAK_SHARE,
    SHRUNK_LOG_SIGMA,
    STUCK_CHANGE,
    STUCK_EPOCHS,
    VANISHED_SHARE,
    Validation,
    find_alarms,
    leak_of_graph,
)
from models.hcl.settings import CONTRASTS

SIZES = (4, 4, 3)


def batches_of(sizes):
    found = []
    for seed, size in enumerate(sizes):
        batch = tiny_hcl.batch(size, seed=seed)
        batch["has_negative"][0] = False
        batch["unseen_vectors"] = torch.zeros(size, tiny_hcl.WIDTH)
        found.append(batch)
    return found


@pytest.fixture
def batches():
    return batches_of(SIZES)


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
                                    {"graph": {"iterations": 0}}], ids=str)
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
@pytest.mark.parametrize("sizes", [SIZES, (5, 1, 1)], ids=str)
def test_a_part_of_the_items_stands_for_all_however_they_fall_into_batches(sizes):
    model, batches = tiny_hcl.model(), batches_of(sizes)
    seen = [selecting(batch) for batch in batches]
    worse = {source: torch.cat([tiny_hcl.reconstruction(model, batch, source) - model(batch).reconstruction
                                for batch in seen]) for source in ("prior", "mean", "zero")}
    values = validated(model, batches, every=3)
    for source, difference in worse.items():
        expected = values["reconstruction"] + float(difference[::3].mean())
        assert values[f"reconstruction_{source}"] == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def test_monitors_equal_a_loop_over_items(batches):
    model = tiny_hcl.model(contrasts={"keyword": {"temperature": 0.02}})
    batches[1]["kx"][2] = -1  # outside the graph: its keyword contrast is not counted
    values = validated(model, batches)
    outputs = [model(batch) for batch in batches]
    mu = torch.cat([output.latent.posterior.mu for output in outputs])
    assert values["active_units"] == sum(float(mu[:, k].var(correction=0)) > 0.01 for k in range(tiny_hcl.LATENT))
    assert values["instance_masked"] == pytest.approx(3 / 11)
    losses = [float(output.contrasts["keyword"].loss[b]) for number, output in enumerate(outputs)
              for b in range(SIZES[number]) if output.keyword.mask[b] and not (number == 1 and b == 2)]
    assert values["keyword_masked"] == pytest.approx(1 - len(losses) / 11)
    assert values["keyword_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-3)
    assert values["keyword_vanished"] == pytest.approx(sum(loss < 0.01 for loss in losses) / len(losses))


@torch.no_grad()
@pytest.mark.parametrize("groups", [{}, {"latent": {"enabled": False}, "decoder": {"kw_memory": True}}], ids=str)
def test_a_keyword_swap_equals_a_loop_over_items(batches, groups):
    model = tiny_hcl.model(**groups)
    batch = {**batches[0], "kx": torch.tensor([0, 0, 3, 0])}
    donors = [2, 2, 3, 2]  # the next item with another keyword, in a ring
    values = validated(model, [batch], every=1)
    swapped = {**batch, "kx": batch["kx"][donors]}
    moved = []
    before, after = (model.keywords(model.planned(one)).u_in for one in (batch, swapped))
    text = model.texts(batch, ["x"])["x"]
    has_latent = model.config.latent.enabled
    p, other = (model.prior(text.vector, u_in) if has_latent else None for u_in in (before, after))
    for b in range(4):
        tokens = []
        for u_in, gaussian in ((before, p), (after, other)):
            z = gaussian.mu if has_latent else None
            memory, mask = model.memory(text.states, batch["x_mask"], u_in, z)
            tokens.append(model.score(model.decode(batch["y_in"], memory, mask, z))[b].softmax(-1))
        moved += [float((tokens[0][t] - tokens[1][t]).abs().sum()) / 2 for t in range(int(batch["y_in_mask"][b].sum()))]
    assert values["swap_outputs"] == pytest.approx(sum(moved) / len(moved), rel=1e-3)
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
    found = {name for name in validated(with_keyword, batches) if not name.startswith("keyword_")}
    assert found == {"loss", "reconstruction", "swap_outputs"}
    plain = validated(tiny_hcl.model(keyword={"condition": False}), batches)
    assert not any(name.startswith(("keyword", "mahalanobis", "swap")) for name in plain)
    nameless = [{**batch, "ky": torch.full_like(batch["ky"], -1)} for batch in batches]
    values = validated(tiny_hcl.model(), nameless)
    assert values["keyword_masked"] == 1.0 and "keyword_loss" not in values
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
    log_sigma, impostors = output.latent.posterior.logvar.detach() / 2, []
    assert float(whole["mean_log_sigma"]) == pytest.approx(float(log_sigma.mean()), rel=1e-5)
    for b in range(6):
        if output.keyword.mask[b]:
            own, u = batch["ky"][b], output.keyword.u_out[b]
            nodes = [j for i, j, sign in tiny_hcl.EDGES if i == own and sign < 0] or [int(batch["kneg"][b])]
            cosines = torch.cosine_similarity(model.keyword_vectors()[nodes], u, dim=-1).detach()
            of_impostor = torch.cosine_similarity(output.keyword.u_imp[b], u, dim=0).detach()
            impostors.append([float(of_impostor), float(cosines.max()), float(cosines.min())])
    for name, expected in zip(("cosine", "hardest", "easiest"), zip(*impostors, strict=True), strict=True):
        assert float(whole[f"impostor_{name}"]) == pytest.approx(sum(expected) / len(expected), rel=1e-3), name
    for name, found in output.contrasts.items():
        losses = found.loss[found.mask]
        assert float(whole[f"{name}_masked"]) == pytest.approx(1 - len(losses) / 6)
        assert float(whole[f"{name}_vanished"]) == pytest.approx(float((losses < 0.01).float().mean()))


def test_training_monitors_of_a_batch_without_contrasts_are_finite():
    model, batch = tiny_hcl.model(), tiny_hcl.batch()
    batch["has_negative"] = torch.zeros(4, dtype=torch.bool)
    batch["ky"] = batch["kneg"] = torch.full((4,), -1)
    output = model(batch)
    values = training_monitors(output, BatchTotals.of(output))
    assert all(math.isfinite(value) for value in values.values())
    assert values["instance_masked"] == values["keyword_masked"] == 1.0
    assert values["instance_vanished"] == values["keyword_vanished"] == 0.0
    assert torch.isfinite(objective(output, model.config, 1.0)[0])


HEALTHY = {"validation_kl": 12.0, "validation_active_units": 40.0, "validation_reconstruction": 20.0,
           "validation_reconstruction_prior": 24.0, "validation_reconstruction_mean": 22.0,
           "validation_reconstruction_zero": 26.0, "validation_kl_train": 9.0,
           "validation_swap_outputs": 0.05,
           "train_mean_log_sigma": -0.1, "train_instance_vanished": 0.2, "train_keyword_vanished": 0.2,
           "train_mahalanobis_vanished": 0.2, "train_impostor_cosine": 0.5, "train_impostor_hardest": 0.6,
           "train_impostor_easiest": 0.3}
NO_FLOOR = {"latent": {"free_bits": 0.0}}
MEMORY = {"latent": {"enabled": False}, "decoder": {"kw_memory": True}}
JUST = 20.0 * (1 + IGNORED_MARGIN)  # a reconstruction that is hardly worse than from the posterior
IDLE = 26.0 - 20.0 * IGNORED_MARGIN  # one from the prior's mean that is hardly better than from zero
SHRINKING = [-0.1, -0.2, -0.1 - SHRUNK_LOG_SIGMA - 0.01, -0.6]


def config(**groups):
    latent = {"size": 50, "free_bits": 5.0, **groups.get("latent", {})}
    return tiny_hcl.config(**{**groups, "latent": latent})


def rows(count=4, **columns):
    """A healthy history, with ``columns`` given by epoch or as one value for all; None leaves one out."""
    found = []
    for number in range(count):
        row = {"epoch": number + 1, **HEALTHY, **{f"train_{name}": 0.7 / (number + 1) for name in CONTRASTS}}
        row |= {name: values[number] if isinstance(values, list) else values for name, values in columns.items()}
        found.append({name: value for name, value in row.items() if value is not None})
    return found


def named(history, settings=None):
    return {alarm.name: alarm for alarm in find_alarms(history, settings or config())}


# Alarm; columns; since which epoch; what its message and advice hold; settings.
RAISED = [
    ("posterior_collapse", {"validation_kl": [9.0, 5.6, 5.4, 5.2], "validation_reconstruction_zero": 0.0}, 3,
     "5.2 nats per item (free bits: 5)", {}),
    ("posterior_collapse", {"validation_active_units": [9.0, 2.0, 1.0, 2.0]}, 2, "2 of 50 units active", {}),
    ("posterior_collapse", {"validation_kl": 5.2, "validation_reconstruction_zero": None}, 1, "", {}),
    ("posterior_collapse", {"validation_kl": 0.1}, 1, "", NO_FLOOR),
    ("latent_ignored", {"validation_reconstruction_mean": 19.0,
                        "validation_reconstruction_prior": [22.0, JUST - 0.01, JUST - 0.01, 19.9]}, 2, "19.9 with", {}),
    ("latent_ignored", {"validation_reconstruction_mean": 19.0,
                        "validation_reconstruction_zero": [22.0, JUST - 0.01, JUST - 0.01, 19.9]}, 2,
     "latent.prior_share", {}),
    ("latent_ignored", {"validation_reconstruction_mean": [22.0, 22.0, IDLE + 0.01, 25.9]}, 3, "25.9 with its mean",
     {}),
    ("kl_under_floor", {"validation_kl": [9.0, 4.9, 5.0, 4.8]}, 2, "4.8 nats per item, under its free bits (5)", {}),
    ("leak", {"validation_kl_train": [9.0, 5.9, 5.0, 3.0]}, 2,
     "3 nats on training items and 12 on validation items", {}),
    *(("keyword_ignored", {"validation_swap_outputs": [0.02, 0.009, 0.004, 0.004]}, 2, "moves by 0.40%", groups)
      for groups in ({}, MEMORY)),
    *((f"contrast_vanished_{name}", {f"train_{name}_vanished": [0.5, 0.95, 0.95, 0.99]}, 2, "99% of the items", {})
      for name in CONTRASTS),
    *((f"contrast_stuck_{name}", {f"train_{name}": [0.7, 0.7 * (1 - STUCK_CHANGE / 2), 0.695, 0.7]}, 1, "for 4 epochs",
       {}) for name in CONTRASTS),
    ("contrast_stuck_keyword", {"train_keyword": 0.693, "train_impostor_cosine": EQUAL_VECTORS}, 1,
     "lower max_neighbours", {}),
    ("contrast_stuck_keyword", {"train_keyword": 0.693}, 1, "nothing to train", {"graph": {"iterations": 0}}),
    ("spread_shrinking", {"train_mean_log_sigma": SHRINKING}, 3, "from -0.1 to -0.6", {}),
    ("impostor_easy", {"train_impostor_cosine": [0.57, 0.5, 0.44, 0.35]}, 3, "0.35, nearer to the easiest", {})]


@pytest.mark.parametrize(("name", "columns", "epoch", "text", "groups"), RAISED)
def test_a_sign_raises_its_alarm_from_the_epoch_on_since_which_it_is_there(name, columns, epoch, text, groups):
    alarm = named(rows(**columns), config(**groups))[name]
    assert alarm.epoch == epoch and text in f"{alarm.message} {alarm.advice}" and alarm.advice


# Histories that raise no alarm, at each threshold; settings.
QUIET = [({}, {}), ({"validation_kl": [0.1, 0.1, 6.0, 9.0]}, {}), ({"validation_kl": 5.2}, {}),
         ({"validation_kl": 0.3, "validation_kl_train": 0.3}, NO_FLOOR),
         ({"validation_active_units": 50 * ACTIVE_SHARE}, NO_FLOOR),
         ({"validation_reconstruction_mean": 19.0, "validation_reconstruction_prior": JUST + 0.01}, {}),
         ({"validation_reconstruction_mean": IDLE - 0.01}, {}), ({"validation_kl": 5.01}, {}),
         ({"validation_kl": 4.9}, {"latent": {"free_bits_for": "posterior"}}),
         ({"validation_kl_train": 12.0 / LEAK_RATIO + 0.01}, {}),
         ({"validation_kl": 0.1 + LEAK_NATS, "validation_kl_train": 0.15}, NO_FLOOR),  # less than a nat apart
         ({"validation_swap_outputs": IGNORED_SWAP}, {}), ({"train_keyword_vanished": VANISHED_SHARE}, {}),
         ({"train_keyword": [0.7, 0.7, 0.7, 0.7 * (1 - 1.5 * STUCK_CHANGE)]}, {}), ({"train_keyword": 0.0}, {}),
         ({"train_mean_log_sigma": [-0.1, -0.2, -0.3, -0.4]}, {}),
         ({"train_mean_log_sigma": SHRINKING, "train_mahalanobis": [0.5, 0.55, 0.6, 0.7]}, {}),
         ({"train_impostor_cosine": [0.57, 0.44, 0.5, 0.46]}, {}),
         ({"train_impostor_hardest": 0.31, "train_impostor_cosine": 0.3}, {})]


@pytest.mark.parametrize(("columns", "groups"), QUIET)
def test_what_is_well_raises_nothing(columns, groups):
    assert named(rows(**columns), config(**groups)) == {}


def test_a_short_history_raises_nothing():
    assert find_alarms([], config()) == [] and named(rows(STUCK_EPOCHS - 1, train_keyword=0.7)) == {}


def test_a_graph_that_tells_training_items_their_target():
    assert leak_of_graph(0.1 + LEAK_SHARE - 0.01, 0.1, config()) is None
    alarm = leak_of_graph(0.96, 0.10, config())
    assert alarm.name == "leak" and "96% of the training items" in alarm.message and "10%" in alarm.message
    for further in ({"keyword": {"condition": False}}, {"graph": {"iterations": 0}}):
        assert leak_of_graph(0.96, 0.10, config(**further)) is None


SICK = {"validation_kl": 4.0, "validation_kl_train": 1.0,
        "validation_swap_outputs": 0.0, "validation_active_units": 0.0, "validation_reconstruction_prior": 20.0,
        "train_impostor_cosine": 0.3, "train_mean_log_sigma": [0.0, -1.0, -1.0, -1.0],
        **{f"train_{name}_vanished": 1.0 for name in CONTRASTS}}


@pytest.mark.parametrize(("groups", "gone"), [
    ({"latent": {"enabled": False}}, {"posterior_collapse", "latent_ignored", "kl_under_floor", "leak",
                                      "keyword_ignored", "contrast_vanished_instance", "contrast_vanished_keyword",
                                      "contrast_vanished_mahalanobis", "spread_shrinking", "impostor_easy"}),
    ({"keyword": {"condition": False}}, {"keyword_ignored", "impostor_easy", "contrast_vanished_keyword",
                                         "contrast_vanished_mahalanobis", "spread_shrinking"}),
    ({"contrasts": {"instance": {"weight": 0.0}}}, {"contrast_vanished_instance"}),
    ({"contrasts": {"mahalanobis": {"weight": 0.0}}}, {"contrast_vanished_mahalanobis", "spread_shrinking"})],
    ids=["latent", "keyword", "instance", "mahalanobis"])
def test_nothing_is_raised_for_what_is_switched_off(groups, gone):
    everything = set(named(rows(**SICK)))
    assert gone <= everything
    assert set(named(rows(**SICK), config(**groups))) == everything - gone
