"""Runs of a small project are killed at random: nothing lives on, nothing is half made, the end is the same."""

import pytest

from tests.harness.cases import draw
from tests.harness.kills import QUICK, killed_project

# `make test` has a killed run, in test_flow, and killed trainings of every track (test_train_*).
pytestmark = pytest.mark.nightly


def test_killed_at_random_a_project_ends_as_if_it_never_had_been(tmp_path):
    for case in range(10):  # on a fast machine a run may end before its kill
        verdict = killed_project(draw(13, case), QUICK, tmp_path, 2)
        assert not verdict.fault, verdict
        if verdict.attacks:
            return
    pytest.fail("no kill came before the end of its run")
