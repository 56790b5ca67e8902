"""Samplers for small classes: what they yield, counted."""

import numpy as np
import pytest

from models.clld import SAMPLERS, sampled_batches
from models.common.training import epoch_batches

# Like R52: a few large classes, many small ones, one of a single text.
LABELS = np.repeat(np.arange(12), [120, 60, 30, 9, 7, 5, 5, 4, 3, 2, 2, 1])
LENGTHS = [1 + (7 * item) % 40 for item in range(len(LABELS))]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("size", [16, 7, 300])
def test_batches_are_as_many_and_as_large_as_without_a_sampler(sampler, lengths, size):
    plain = epoch_batches(len(LABELS), size, 3, lengths)
    found = sampled_batches(LABELS, size, 3, sampler, lengths)
    assert [len(batch) for batch in found] == [len(batch) for batch in plain]
    assert all(type(item) is int and 0 <= item < len(LABELS) for batch in found for item in batch)
    assert found == sampled_batches(LABELS, size, 3, sampler, lengths)
    assert found != sampled_batches(LABELS, size, 4, sampler, lengths)
    if size == 16:
        assert (found == plain) == (sampler == "shuffled")


def test_balanced_classes_are_equally_frequent():
    drawn = [item for seed in range(40) for batch in sampled_batches(LABELS, 16, seed, "class_balanced")
             for item in batch]
    counts = np.bincount(LABELS[drawn])
    expected = len(drawn) / 12
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()
    of_texts = np.bincount(drawn, minlength=len(LABELS))[:120]
    assert of_texts.std() < 0.2 * of_texts.mean() + 5  # within a class all alike


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_no_class_that_has_two_texts_is_alone_in_a_batch(lengths):
    for seed in range(30):
        for batch in sampled_batches(LABELS, 16, seed, "at_least_two", lengths):
            found, counts = np.unique(LABELS[batch], return_counts=True)
            assert set(found[counts == 1].tolist()) <= {11}, (seed, batch)


def test_companions_keep_the_share_of_every_class():
    epochs = 300
    drawn = [item for seed in range(epochs) for batch in sampled_batches(LABELS, 16, seed, "at_least_two")
             for item in batch]
    shares = np.bincount(LABELS[drawn]) / (epochs * np.bincount(LABELS))
    assert (abs(shares[3:11] - 1) < 0.1).all() and (abs(shares[:3] - 1) < 0.02).all()
    assert shares[11] == pytest.approx(1, abs=0.1)


def test_a_lone_class_among_pairs_stays_alone_rather_than_break_another():
    labels = np.array([0, 0, 1, 1, 2, 2])
    for seed in range(20):
        for batch in sampled_batches(labels, 5, seed, "at_least_two"):
            counts = np.bincount(labels[batch], minlength=3)
            assert sorted(counts.tolist()) in ([1, 2, 2], [0, 0, 1]), batch


def test_problems_are_named():
    with pytest.raises(ValueError, match="sampler is 'weighted', expected one of shuffled, class_balanced, at_least"):
        sampled_batches(LABELS, 16, 0, "weighted")
    with pytest.raises(ValueError, match="2 lengths for 248 items"):
        sampled_batches(LABELS, 16, 0, "at_least_two", [1, 2])
