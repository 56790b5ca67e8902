"""Alarms from a training history: each sign raises its own, and nothing raises one for what is switched off."""

import pytest
import tiny_hcl

from models.hcl.monitors import (
    ACTIVE_SHARE,
    FLOOR_SHARE,
    IGNORED_MARGIN,
    IGNORED_SWAP,
    LEAK_NATS,
    LEAK_RATIO,
    LEAK_SHARE,
    SHRUNK_LOG_SIGMA,
    STUCK_CHANGE,
    STUCK_EPOCHS,
    VANISHED_SHARE,
    find_alarms,
    leak_of_graph,
)

HEALTHY = {"validation_kl": 12.0, "validation_active_units": 40.0, "validation_reconstruction": 20.0,
           "validation_reconstruction_prior": 24.0, "validation_reconstruction_mean": 22.0,
           "validation_reconstruction_zero": 26.0, "validation_kl_train": 9.0, "validation_under_floor": 0.3,
           "validation_swap_prior": 0.4, "validation_swap_outputs": 0.05,
           "train_mean_log_sigma": -0.1, "train_instance_vanished": 0.2, "train_keyword_vanished": 0.2,
           "train_mahalanobis_vanished": 0.2, "train_impostor_cosine": 0.5, "train_impostor_hardest": 0.6,
           "train_impostor_easiest": 0.3}
CONTRASTS = ("instance", "keyword", "mahalanobis")


def config(**groups):
    latent = {"size": 50, "free_bits": 5.0, **groups.get("latent", {})}
    return tiny_hcl.config(**{**groups, "latent": latent})


def rows(count=4, **columns):
    """A healthy history, with ``columns`` given by epoch or as one value for all."""
    found = []
    for number in range(count):
        contrasts = {f"train_{name}": 0.7 / (number + 1) for name in CONTRASTS}
        row = {"epoch": number + 1, **HEALTHY, **contrasts}
        for name, values in columns.items():
            row[name] = values[number] if isinstance(values, list) else values
        found.append(row)
    return found


def named(history, settings=None):
    return {alarm.name: alarm for alarm in find_alarms(history, settings or config())}


def test_a_healthy_training_raises_none():
    assert find_alarms(rows(), config()) == []
    assert find_alarms([], config()) == []


@pytest.mark.parametrize(("columns", "epoch"), [
    ({"validation_kl": [9.0, 5.6, 5.4, 5.2], "validation_reconstruction_zero": 0.0}, 3),  # the free bits are 5
    ({"validation_active_units": [9.0, 2.0, 1.0, 2.0]}, 2),
    ({"validation_kl": [0.1, 9.0, 9.0, 0.1]}, 4)])
def test_collapse_of_the_posterior(columns, epoch):
    alarm = named(rows(**columns))["posterior_collapse"]
    assert alarm.epoch == epoch
    assert "nats per item" in alarm.message and "50 units active" in alarm.message


def test_a_latent_variable_that_the_decoder_reads_may_live_on_free_bits():
    assert "posterior_collapse" not in named(rows(validation_kl=5.2))
    unmeasured = [{name: value for name, value in row.items() if "reconstruction_" not in name}
                  for row in rows(validation_kl=5.2)]
    assert "posterior_collapse" in named(unmeasured)


def test_without_free_bits_a_small_kl_is_collapse():
    free = config(latent={"free_bits": 0.0})
    assert "posterior_collapse" not in named(rows(validation_kl=0.3), free)
    assert "posterior_collapse" in named(rows(validation_kl=0.1), free)
    assert "posterior_collapse" not in named(rows(validation_active_units=50 * ACTIVE_SHARE), free)


def test_a_sign_that_has_gone_raises_nothing():
    assert find_alarms(rows(validation_kl=[0.1, 0.1, 6.0, 9.0]), config()) == []


@pytest.mark.parametrize("source", ["prior", "zero"])
def test_a_latent_that_is_not_read(source):
    column = f"validation_reconstruction_{source}"
    just = 20.0 * (1 + IGNORED_MARGIN)
    mean = {"validation_reconstruction_mean": 19.0}
    assert "latent_ignored" not in named(rows(**mean, **{column: just + 0.01}))
    alarm = named(rows(**mean, **{column: [22.0, just - 0.01, just - 0.01, 19.9]}))["latent_ignored"]
    assert alarm.epoch == 2
    assert "19.9 with" in alarm.message and "latent.enters" in alarm.advice


def test_a_mean_of_the_prior_from_which_texts_are_decoded_as_if_there_were_no_latent():
    column, just = "validation_reconstruction_mean", 26.0 - 20.0 * IGNORED_MARGIN
    assert named(rows(**{column: just - 0.01})) == {}
    alarm = named(rows(**{column: [22.0, 22.0, just + 0.01, 25.9]}))["latent_ignored"]
    assert alarm.epoch == 3
    assert "25.9 with its mean" in alarm.message


def test_a_kl_under_its_floor():
    column = "validation_under_floor"
    assert named(rows(**{column: FLOOR_SHARE})) == {}
    history = rows(**{column: [0.2, 0.95, 1.0, 1.0]})
    alarm = named(history)["kl_under_floor"]
    assert alarm.epoch == 2 and "(5 nats by dimension) in 100% of the dimensions" in alarm.message
    for latent in ({"free_bits_for": "posterior"}, {"posterior": "relative"}):  # the prior learns all the same
        assert "kl_under_floor" not in named(history, config(latent=latent))


def test_a_leak_shows_between_training_and_validation():
    column = "validation_kl_train"
    assert named(rows(**{column: 12.0 / LEAK_RATIO + 0.01})) == {}
    alarm = named(rows(**{column: [9.0, 5.9, 5.0, 3.0]}))["leak"]
    assert alarm.epoch == 2
    assert "3 nats on training items and 12 on validation items" in alarm.message
    assert "leak" in named(rows(**{column: 12.0 * LEAK_RATIO + 0.1}))
    tiny = {"validation_kl": 0.1 + LEAK_NATS, "validation_kl_train": 0.15}  # less than a nat apart
    assert "leak" not in named(rows(**tiny))
    assert "leak" not in named(rows(**{column: 3.0}), config(latent={"posterior": "relative"}))


@pytest.mark.parametrize("posterior", ["relative", "absolute"])
def test_a_graph_that_tells_training_items_their_target(posterior):
    settings = {"latent": {"posterior": posterior}}
    assert leak_of_graph(0.1 + LEAK_SHARE - 0.01, 0.1, config(**settings)) is None
    alarm = leak_of_graph(0.96, 0.10, config(**settings))
    assert alarm.name == "leak" and "96% of the training items" in alarm.message and "10%" in alarm.message
    for groups in ({"keyword": {"condition": False}}, {"graph": {"iterations": 0}}):
        assert leak_of_graph(0.96, 0.10, config(**settings, **groups)) is None


@pytest.mark.parametrize("groups", [{}, {"latent": {"enabled": False}, "decoder": {"kw_memory": True}}], ids=str)
def test_a_keyword_that_changes_nothing(groups):
    column, settings = "validation_swap_outputs", config(**groups)
    assert named(rows(**{column: IGNORED_SWAP}), settings) == {}
    alarm = named(rows(**{column: [0.02, 0.009, 0.004, 0.004]}), settings)["keyword_ignored"]
    assert alarm.epoch == 2
    assert "moves by 0.40%" in alarm.message and "decoder.kw_memory" in alarm.advice


@pytest.mark.parametrize("name", CONTRASTS)
def test_a_contrast_that_has_vanished(name):
    column = f"train_{name}_vanished"
    assert named(rows(**{column: VANISHED_SHARE})) == {}
    alarm = named(rows(**{column: [0.5, 0.95, 0.95, 0.99]}))[f"contrast_vanished_{name}"]
    assert alarm.epoch == 2
    assert "99% of the items" in alarm.message and f"raise contrasts.{name}.temperature" in alarm.advice


@pytest.mark.parametrize("name", CONTRASTS)
def test_a_contrast_that_never_moves(name):
    column = f"train_{name}"
    still = [0.7, 0.7 * (1 - STUCK_CHANGE / 2), 0.695, 0.7]
    alarm = named(rows(**{column: still}))[f"contrast_stuck_{name}"]
    assert alarm.epoch == 1 and "for 4 epochs" in alarm.message
    assert named(rows(**{column: [0.7, 0.7, 0.7, 0.7 * (1 - 1.5 * STUCK_CHANGE)]})) == {}
    assert named(rows(STUCK_EPOCHS - 1, **{column: 0.7})) == {}
    assert named(rows(**{column: 0.0})) == {}  # every item is masked


def test_a_spread_that_shrinks_under_the_mahalanobis_contrast():
    shrinking = [-0.1, -0.2, -0.1 - SHRUNK_LOG_SIGMA - 0.01, -0.6]
    alarm = named(rows(train_mean_log_sigma=shrinking))["spread_shrinking"]
    assert alarm.epoch == 3
    assert "from -0.1 to -0.6" in alarm.message and "contrasts.mahalanobis.weight 0" in alarm.advice
    assert named(rows(train_mean_log_sigma=[-0.1, -0.2, -0.3, -0.4])) == {}
    rising = {"train_mahalanobis": [0.5, 0.55, 0.6, 0.7]}
    assert named(rows(train_mean_log_sigma=shrinking, **rising)) == {}


@pytest.mark.parametrize(("cosine", "epoch"), [([0.57, 0.5, 0.44, 0.35], 3), ([0.57, 0.44, 0.5, 0.46], None)])
def test_an_impostor_that_drifts_to_its_easiest_candidate(cosine, epoch):
    alarm = named(rows(train_impostor_cosine=cosine), config(keyword={"imp_weight": "linear"})).get("impostor_easy")
    assert (alarm and alarm.epoch) == epoch
    if alarm:
        assert "0.35, nearer to the easiest candidate's (0.3) than to the hardest's (0.6)" in alarm.message
        assert "keyword.imp_weight" in alarm.advice
    alike = {"train_impostor_hardest": 0.31, "train_impostor_cosine": 0.3}
    assert "impostor_easy" not in named(rows(**alike))


SICK = {"validation_kl": 0.0, "validation_kl_train": 3.0, "validation_under_floor": 1.0,
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
    ids=lambda value: str(value) if isinstance(value, dict) else "+".join(sorted(value)))  # the same in every process
def test_nothing_is_raised_for_what_is_switched_off(groups, gone):
    everything = set(named(rows(**SICK)))
    assert gone <= everything
    assert set(named(rows(**SICK), config(**groups))) == everything - gone
