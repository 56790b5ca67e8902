"""Runs of a small project are killed at random: nothing lives on, nothing is half made, the end is the same."""

from tests.harness.cases import draw
from tests.harness.kills import QUICK, killed_project


def test_killed_at_random_a_project_ends_as_if_it_never_had_been(tmp_path):
    verdict = killed_project(draw(13, 0), QUICK, 2, tmp_path / "projects")
    assert not verdict.fault and verdict.attacks, verdict
