"""Differences over seeds and items together."""

import numpy as np
import pytest
from scipy import stats

from stages.metrics.resampling import Members, mean_statistic, over_seeds, resampled

RESAMPLES = 4000


def members(items, seeds):
    """Of scores (S, n), on the same resamples for every system."""
    found = resampled({str(number): mean_statistic(row) for number, row in enumerate(items)}, RESAMPLES, 1)
    return Members(np.asarray(items).mean(1), np.stack(list(found.values())), seeds)


def noisy(seeds, items, by_seed, by_item, at=0.0, key=0):
    draw = np.random.default_rng(key)
    return at + by_seed * draw.normal(size=(seeds, 1)) + by_item * draw.normal(size=(1, items)).repeat(seeds, 0)


def test_p_is_of_the_paired_t_test_where_seeds_are_shared():
    a, b = noisy(5, 50, 0.1, 1.0, 0.3), noisy(5, 50, 0.1, 0.5, key=1)
    found = over_seeds(members(a, [1, 2, 3, 4, 5]), members(b[::-1], [5, 4, 3, 2, 1]), 0.95, 0)
    assert found.p_value == pytest.approx(stats.ttest_rel(a.mean(1), b.mean(1)).pvalue)
    assert (found.seeds, found.difference) == (5, pytest.approx(float(a.mean() - b.mean())))


def test_p_is_of_welchs_test_where_seeds_differ():
    a, b = noisy(4, 30, 0.1, 1.0, 0.3), noisy(3, 30, 0.4, 0.5, key=1)
    found = over_seeds(members(a, [1, 2, 3, 4]), members(b, [7, 8, 9]), 0.95, 0)
    assert found.p_value == pytest.approx(stats.ttest_ind(a.mean(1), b.mean(1), equal_var=False).pvalue)
    assert found.seeds == 3


def test_the_interval_has_the_spread_of_items_and_of_seeds():
    """Of independent sources: variance over seeds by their number, and over items by theirs."""
    a = noisy(8, 400, 0.2, 4.0)
    found = over_seeds(members(a, range(8)), Members(np.zeros(1), np.zeros((1, RESAMPLES))), 0.95, 0)
    spread = np.sqrt(a.mean(1).var(ddof=1) / 8 + a[0].var() / 400)
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread, rel=0.06)
    assert found.detectable == pytest.approx((stats.t.ppf(0.975, 7) + stats.t.ppf(0.8, 7)) * spread, rel=0.06)


def test_a_difference_counts_if_interval_and_test_both_find_it():
    zero = Members(np.zeros(1), np.zeros((1, RESAMPLES)))
    clear = over_seeds(members(noisy(4, 100, 0.01, 0.1, 1.0), [1, 2, 3, 4]), zero, 0.95, 0)
    assert clear.sign(0.95) == 1
    # two seeds that agree by and large: the interval leaves 0 out, but two cannot tell
    two = over_seeds(members(np.array([[0.2] * 50, [0.3] * 50]), [1, 2]), zero, 0.95, 0)
    assert two.low > 0 and two.p_value > 0.05 and two.sign(0.95) == 0
    # seeds agree, items do not
    items = over_seeds(members(noisy(6, 20, 1e-4, 3.0, 0.1), range(6)), zero, 0.95, 0)
    assert items.p_value < 0.05 and items.low < 0 < items.high and items.sign(0.95) == 0


def test_a_trained_system_under_one_seed_gets_no_answer():
    one, two = members(noisy(1, 20, 1, 1), [1]), members(noisy(2, 20, 1, 1), [1, 2])
    assert over_seeds(one, two, 0.95, 0) is None
    assert over_seeds(one, one, 0.95, 0) is None
    assert over_seeds(one, Members(np.zeros(1), np.zeros((1, RESAMPLES))), 0.95, 0) is None


def test_other_resamples_are_an_error():
    with pytest.raises(ValueError, match="4000 and 10 resamples"):
        over_seeds(members(noisy(2, 20, 1, 1), [1, 2]), Members(np.zeros(1), np.zeros((1, 10))), 0.95, 0)
