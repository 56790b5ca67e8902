"""The benchmark of classifiers: both sides train the same, what differs is told apart."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from benchmarks import clld
from benchmarks.harness import Context, Disagreement
from benchmarks.trainings import same_training
from models.training import epoch_batches
from stages.runtime.seeds import derived_seed

QUICK = clld._QUICK
ROWS = pd.DataFrame({"text": [f"text number {number} of few" for number in range(QUICK.items)],
                     "label": [f"class {number % 3}" for number in range(QUICK.items)]})


def trained(train, **changes):
    return train(replace(clld.job_of(ROWS, QUICK, dropout=0.0, **changes), compared=True))


def test_our_loop_and_the_trainer_end_in_the_same_weights():
    mine, other = trained(clld.ours), trained(clld.theirs)
    assert mine.weights.keys() == other.weights.keys() and len(mine.losses) == QUICK.steps
    begun = dict(clld.library_classifier(clld.job_of(ROWS, QUICK, dropout=0.0).model).named_parameters())
    assert all((begun[name] - value).abs().max() > 0 for name, value in mine.weights.items() if "key.bias" not in name)
    assert "without dropout, the losses of 3 steps differ by at most" in same_training("clld", mine, other)


def test_a_training_that_does_something_else_is_told_apart():
    mine, other = trained(clld.ours), trained(clld.ours, contrast={"kind": "label_distance"})
    with pytest.raises(Disagreement, match="without dropout, losses differ by up to"):
        same_training("clld", mine, other)
    other.losses.pop()
    with pytest.raises(Disagreement, match="3 steps and .* weights, the Trainer has 2"):
        same_training("clld", mine, other)


def test_rows_are_the_two_trainings_and_the_contrast():
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    (section,) = clld.run(Context(repeats=1, quick=True))
    assert [row.name for row in section.rows] == [
        "ours, CT", "transformers.Trainer", "transformers.Trainer, freed memory kept", "ours, CT+CL"]
    assert [row["contender"] for row in section.table] == [row.name for row in section.rows]
    assert "12 texts of" in section.workload and "batches of 4" in section.workload
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == (threads, deterministic)


def test_the_contrast_encodes_every_text_twice():
    job = clld.job_of(ROWS, QUICK, contrast={"kind": "label_distance"})
    assert job.model.config.views == 2 and clld.job_of(ROWS, QUICK).model.config.views == 1
    assert job.model.config.dropout == 0.5 and job.model.config.encoder["hidden_dropout_prob"] == 0.1


def test_memory_is_taken_of_the_first_two_batches():
    job = clld.job_of(ROWS, QUICK)
    batches = epoch_batches(QUICK.items, QUICK.batch_size, derived_seed(clld.SEED, "order", 0))
    kept = [item for batch in batches[:2] for item in batch]
    assert clld._short(job).texts.labels.tolist() == job.texts.labels[kept].tolist()
    assert len(clld._short(job).texts) == 2 * QUICK.batch_size
