"""The benchmark of classifiers: both sides train the same, what differs is told apart."""

from dataclasses import replace

import pytest
import torch

from benchmarks import clld
from benchmarks.harness import Context, Disagreement
from benchmarks.trainings import same_training

COMPARED = replace(clld.training(quick=True), compared=True, steps=3)


def test_our_loop_and_the_trainer_end_in_the_same_weights():
    mine, other = clld.ours(COMPARED), clld.theirs(COMPARED)
    assert mine.weights.keys() == other.weights.keys() and len(mine.losses) == 3
    begun = dict(clld.library_classifier(COMPARED.task().module).named_parameters())
    assert all((begun[name] - value).abs().max() > 0 for name, value in mine.weights.items() if "key.bias" not in name)
    assert "without dropout, the losses of 3 steps differ by at most" in same_training("clld", mine, other)


def test_a_training_that_does_something_else_is_told_apart():
    mine, other = clld.ours(COMPARED), clld.ours(clld.contrasted(COMPARED))
    with pytest.raises(Disagreement, match="without dropout, losses differ by up to"):
        same_training("clld", mine, other)
    other.losses.pop()
    with pytest.raises(Disagreement, match="3 steps and .* weights, the Trainer has 2"):
        same_training("clld", mine, other)


@pytest.mark.whole
def test_rows_are_the_two_trainings_and_the_contrast():
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    (section,) = clld.run(Context(repeats=1, quick=True))
    assert [row.name for row in section.rows] == [
        "ours, CT", "transformers.Trainer", "transformers.Trainer, freed memory kept", "ours, CT+CL"]
    assert [row["contender"] for row in section.table] == [row.name for row in section.rows]
    assert "48 texts of 6 classes" in section.workload and "batches of 8" in section.workload
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == (threads, deterministic)


def test_the_contrast_encodes_every_text_twice():
    one = clld.training(quick=True)
    assert clld.contrasted(one).task().module.config.views == 2 and one.task().module.config.views == 1
    config = one.task().module.config
    assert config.dropout == 0.5 and config.encoder["hidden_dropout_prob"] == 0.1
