"""Label distance matrices (CLLD Algorithm 1): counts by hand, static pairs, the schedule."""

import pytest
import torch

from models.clld.clld import AdaptiveSchedule, counted_distance, static_tau_pairs, update_label_distance
from stages.tracks.clld.train import named_pairs

# Class 0 is taken for 1 twice and for 2 once, 1 for 0 once, 2 never for another.
CONFUSION = torch.tensor([[7, 2, 1], [1, 4, 0], [0, 0, 8]])
NEWS = ["alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware",
        "comp.sys.mac.hardware", "comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles",
        "rec.sport.baseball", "rec.sport.hockey", "sci.crypt", "sci.electronics", "sci.med", "sci.space",
        "soc.religion.christian", "talk.politics.guns", "talk.politics.mideast", "talk.politics.misc",
        "talk.religion.misc"]


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype))


def test_shares_of_confusions_are_scaled_to_tau():
    # P: 0.2, 0.1 of class 0; 0.2 of class 1. S: 0.2 between 0 and 1, 0.05 between 0 and 2, the largest 0.2.
    close(counted_distance(CONFUSION), [[1, 5, 2], [5, 1, 1], [2, 1, 1]])


def test_full_strength_gives_the_new_matrix_and_none_leaves_the_old():
    old = 1 + torch.rand(3, 3, requires_grad=True)
    assert not update_label_distance(old, CONFUSION, 0.5).requires_grad
    assert torch.equal(update_label_distance(old, CONFUSION, 1.0), counted_distance(CONFUSION).float())
    assert torch.equal(update_label_distance(old, CONFUSION, 0.0), old)
    close(update_label_distance(torch.ones(3, 3), CONFUSION, 0.25), [[1, 2, 1.25], [2, 1, 1], [1.25, 1, 1]])


def test_without_errors_the_new_matrix_is_of_ones():
    assert torch.equal(counted_distance(torch.diag(torch.tensor([3, 0, 9]))), torch.ones(3, 3).double())


@pytest.mark.parametrize("seed", range(5))
def test_entries_stay_between_one_and_tau(seed):
    random = torch.Generator().manual_seed(seed)
    ldm = torch.ones(6, 6)
    for step in range(8):
        confusion = torch.randint(0, 30, (6, 6), generator=random)
        confusion[step % 6] = 0  # a class without a text
        ldm = update_label_distance(ldm, confusion, 1 - step / 8)
        assert ldm.min() >= 1 and ldm.max() <= 5
        assert torch.equal(ldm, ldm.t()) and torch.equal(ldm.diagonal(), torch.ones(6))


def test_static_matrices():
    assert torch.equal(static_tau_pairs(3, [(2, 0)]), torch.tensor([[1.0, 1, 5], [1, 1, 1], [5, 1, 1]]))
    assert torch.equal(static_tau_pairs(2, []), torch.ones(2, 2))


def test_pairs_of_20_newsgroups():
    groups = [["alt.atheism", "soc.religion.christian", "talk.religion.misc"], ["comp.*"], ["talk.politics.*"],
              ["rec.autos", "rec.motorcycles"], ["rec.sport.baseball", "rec.sport.hockey"]]
    pairs = [(NEWS[a], NEWS[b]) for a, b in named_pairs(groups, NEWS, "pairs")]
    assert len(pairs) == 3 + 10 + 3 + 1 + 1 and pairs == sorted(pairs)
    assert {pair for pair in pairs if not pair[0].startswith(("comp.", "talk.politics."))} == {
        ("alt.atheism", "soc.religion.christian"), ("alt.atheism", "talk.religion.misc"),
        ("soc.religion.christian", "talk.religion.misc"), ("rec.autos", "rec.motorcycles"),
        ("rec.sport.baseball", "rec.sport.hockey")}
    assert ("talk.politics.guns", "talk.politics.misc") in pairs


def test_no_update_in_the_first_fifth_and_then_at_every_tenth_evaluation():
    schedule = AdaptiveSchedule(50, 39)  # TREC-6 in batches of 128
    assert (schedule.interval, schedule.total_steps) == (3, 1950)
    steps = [step for step in range(1, schedule.total_steps + 1) if schedule.updates(step)]
    assert all(step % 30 == 0 for step in steps)
    assert steps == [step for step in range(391, 1951) if step % 30 == 0]  # 390 steps are ten epochs
    assert not schedule.updates(390)


def test_updates_get_weaker_to_nothing():
    schedule = AdaptiveSchedule(4, 25)
    assert (schedule.interval, schedule.total_steps) == (2, 100)
    assert [step for step in range(1, 101) if schedule.updates(step)] == [40, 60, 80, 100]  # 20 are a fifth
    assert [schedule.strength(step) for step in (0, 20, 100)] == [1.0, 0.8, 0.0]
    few = AdaptiveSchedule(10, 3)
    assert few.interval == 1 and [s for s in range(1, 31) if few.updates(s)] == [10, 20, 30]
