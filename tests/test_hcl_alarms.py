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
RELATIVE, NO_FLOOR = {"latent": {"posterior": "relative"}}, {"latent": {"free_bits": 0.0}}
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
    ("posterior_collapse", {"validation_kl": [0.1, 9.0, 9.0, 0.1]}, 4, "latent.annealing_steps", {}),
    ("posterior_collapse", {"validation_kl": 5.2, "validation_reconstruction_zero": None}, 1, "", {}),
    ("posterior_collapse", {"validation_kl": 0.1}, 1, "", NO_FLOOR),
    ("latent_ignored", {"validation_reconstruction_mean": 19.0,
                        "validation_reconstruction_prior": [22.0, JUST - 0.01, JUST - 0.01, 19.9]}, 2, "19.9 with", {}),
    ("latent_ignored", {"validation_reconstruction_mean": 19.0,
                        "validation_reconstruction_zero": [22.0, JUST - 0.01, JUST - 0.01, 19.9]}, 2, "latent.enters",
     {}),
    ("latent_ignored", {"validation_reconstruction_mean": [22.0, 22.0, IDLE + 0.01, 25.9]}, 3, "25.9 with its mean",
     {}),
    ("kl_under_floor", {"validation_under_floor": [0.2, 0.95, 1.0, 1.0]}, 2,
     "(5 nats by dimension) in 100% of the dimensions", {}),
    ("leak", {"validation_kl_train": [9.0, 5.9, 5.0, 3.0]}, 2,
     "3 nats on training items and 12 on validation items", {}),
    ("leak", {"validation_kl_train": 12.0 * LEAK_RATIO + 0.1}, 1, "", {}),
    *(("keyword_ignored", {"validation_swap_outputs": [0.02, 0.009, 0.004, 0.004]}, 2, "moves by 0.40%", groups)
      for groups in ({}, MEMORY)),
    *((f"contrast_vanished_{name}", {f"train_{name}_vanished": [0.5, 0.95, 0.95, 0.99]}, 2, "99% of the items", {})
      for name in CONTRASTS),
    *((f"contrast_stuck_{name}", {f"train_{name}": [0.7, 0.7 * (1 - STUCK_CHANGE / 2), 0.695, 0.7]}, 1, "for 4 epochs",
       {}) for name in CONTRASTS),
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
         ({"validation_reconstruction_mean": IDLE - 0.01}, {}), ({"validation_under_floor": FLOOR_SHARE}, {}),
         ({"validation_under_floor": 1.0}, {"latent": {"free_bits_for": "posterior"}}),
         ({"validation_under_floor": 1.0, "validation_kl_train": 3.0}, RELATIVE),  # the prior learns all the same
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


@pytest.mark.parametrize("groups", [{}, RELATIVE])
def test_a_graph_that_tells_training_items_their_target(groups):
    assert leak_of_graph(0.1 + LEAK_SHARE - 0.01, 0.1, config(**groups)) is None
    alarm = leak_of_graph(0.96, 0.10, config(**groups))
    assert alarm.name == "leak" and "96% of the training items" in alarm.message and "10%" in alarm.message
    for further in ({"keyword": {"condition": False}}, {"graph": {"iterations": 0}}):
        assert leak_of_graph(0.96, 0.10, config(**groups, **further)) is None


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
    ids=["latent", "keyword", "instance", "mahalanobis"])
def test_nothing_is_raised_for_what_is_switched_off(groups, gone):
    everything = set(named(rows(**SICK)))
    assert gone <= everything
    assert set(named(rows(**SICK), config(**groups))) == everything - gone
