"""The CVAE of GRUs (Zhao et al. 2017)."""

import pytest
import torch
from piece_cases import Case

from models.common.task import Step
from models.hcl.baselines import annealing_steps


@pytest.fixture
def case(tmp_path):
    return Case("cvae", tmp_path, wide=0.4)


def test_the_weight_of_the_kl_rises_within_a_share_of_all_steps():
    assert [annealing_steps({"annealing_share": 1.0}, total) for total in (50_000, 600)] == [10_000, 600]


@torch.no_grad()
def test_the_bag_of_words_does_not_know_the_order(case):
    batch = case.batch()
    lengths = batch["y_in_mask"].sum(-1)
    turned = torch.stack([torch.cat([row[:n].flip(0), row[n:]])
                          for row, n in zip(batch["y_out"], lengths, strict=True)])
    found, other = case.model.parts(batch), case.model.parts({**batch, "y_out": turned})
    torch.testing.assert_close(other["bow"], found["bow"])
    assert not torch.allclose(other["reconstruction"], found["reconstruction"])


@torch.no_grad()
def test_the_objective_is_reconstruction_weighted_kl_and_bag(case):
    batch, found = case.batch(), case.model.parts(case.batch())
    whole = found["reconstruction"] + found["bow"]
    steps = 40  # 0.04 of 1,000
    for number, weight in ((0, 0.0), (steps // 2, 0.5), (steps, 1.0)):
        loss = case.model.objective(batch, Step(number, 1000, 0, range(8)))["loss"]
        torch.testing.assert_close(loss, whole + weight * found["kl"])
    torch.testing.assert_close(case.model.nll(batch), found["reconstruction"] + found["kl"])
    assert (found["kl"] > 0).all() and case.model.settled(1000) == steps
