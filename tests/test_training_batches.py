"""Which items a batch has, and how batches are loaded ahead: no byte depends on the latter."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from memory_store import Memory
from test_training_loop import EVERYTHING, SEED, SETTINGS, Killed, Regression, assert_same, weights

from models.common.task import Task, epoch_batches, loaded_ahead
from models.common.training import fit


@pytest.mark.parametrize("settings", [SETTINGS, EVERYTHING])
def test_loading_ahead_changes_no_byte(settings):
    def trained(prefetch):
        task = Regression()
        history = fit(task, replace(settings, prefetch=prefetch), Memory(), SEED)
        return weights(task), history, task.loaders

    (first, history, at_once), (second, other, ahead) = trained(0), trained(3)
    assert_same(first, second)
    assert history == other
    assert at_once == {"MainThread"} and ahead == {"loader_0"}


def test_what_goes_wrong_while_loading_comes_out_and_the_thread_ends():
    class Broken(Regression):
        def load(self, items):
            if 5 in items:
                raise OSError("item 5 cannot be read")
            return super().load(items)

    before = threading.active_count()
    for task, expected in ((Broken(), OSError), (Regression(kill_at=4), Killed)):
        with pytest.raises(expected):
            fit(task, SETTINGS, Memory(), SEED)
        assert threading.active_count() == before


def test_loading_ahead_is_bounded_and_in_order():
    asked = []
    with loaded_ahead(lambda key: asked.append(key) or key * 10, range(10), ahead=2) as loaded:
        assert next(loaded) == 0
        time.sleep(0.05)
        assert asked == [0, 1, 2]
        assert list(loaded) == list(range(10, 100, 10))


def test_buckets_take_every_item_once_and_pad_little():
    lengths = np.random.default_rng(0).integers(1, 30, 1003)
    batches, again, next_epoch = (epoch_batches(1003, 16, seed, lengths) for seed in (5, 5, 6))
    assert batches == again != next_epoch
    assert sorted(item for batch in batches for item in batch) == list(range(1003))
    assert sorted(map(len, batches)) == [11] + [16] * 62 and len(batches) == 63

    def padding(batches):
        return sum(len(batch) * max(lengths[batch]) for batch in batches) / lengths.sum() - 1

    assert padding(batches) < 0.06 < 0.5 < padding(epoch_batches(1003, 16, 5))
    means = [lengths[batch].mean() for batch in batches]
    assert means != sorted(means)  # short ones do not come first
    assert all((np.diff(lengths[batch]) >= 0).all() for batch in batches)


def test_buckets_of_many_pools_still_mix_items():
    batches = epoch_batches(4000, 4, 1, np.arange(4000) % 7)
    found = {frozenset(batch) for batch in batches}
    assert len(found & {frozenset(batch) for batch in epoch_batches(4000, 4, 2, np.arange(4000) % 7)}) < 10


def test_buckets_need_lengths():
    with pytest.raises(ValueError, match="3 lengths for 4 items"):
        epoch_batches(4, 2, 0, [1, 2, 3])
    shorn = type("Shorn", (Regression,), {"lengths": Task.lengths})()
    with pytest.raises(ValueError, match=r"Shorn has no lengths\(\)"):
        fit(shorn, replace(SETTINGS, bucket=True), Memory(), SEED)
