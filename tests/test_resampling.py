"""Bootstrap intervals and paired tests: against SciPy, against recomputing on every resample, and by what must hold."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from test_metrics import bleu, random_items

from stages.metrics import resampling as module
from stages.metrics.bleu import corpus_bleu_statistic, count_matches, ibleu_statistic, sacrebleu, sacrebleu_statistic
from stages.metrics.resampling import (
    Members,
    Statistic,
    interval,
    item_weights,
    mean_statistic,
    over_seeds,
    p_value,
    resampled,
)


def drawn_items(items, resamples, seed):
    """The items of every resample, as lists of positions."""
    return [np.repeat(np.arange(items), row.astype(int)) for weights in item_weights(items, resamples, seed)
            for row in weights]


def paired_bootstrap(first, second, resamples=1000, seed=0):
    """The difference of two systems on the same items."""
    samples = resampled({"first": first, "second": second}, resamples, seed)
    differences = samples["first"] - samples["second"]
    low, high = interval(differences, 0.95)
    return SimpleNamespace(first=first.value(), second=second.value(), difference=first.value() - second.value(),
                           low=low, high=high, p_value=p_value(differences))


def test_interval_of_a_mean_is_the_percentile_interval_of_scipy():
    values = np.random.default_rng(0).gamma(2.0, size=80)
    expected = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile",
                               rng=np.random.default_rng(1)).confidence_interval
    found = interval(resampled({"mean": mean_statistic(values)}, 20_000, seed=2)["mean"], 0.95)
    np.testing.assert_allclose(found, [expected.low, expected.high], atol=0.03 * (expected.high - expected.low))


def test_samples_of_a_mean_are_means_of_the_drawn_items():
    values = np.array([0.1, np.nan, 0.5, 0.9, np.nan, 0.2])
    found = resampled({"mean": mean_statistic(values)}, 50, seed=3)["mean"]
    expected = [np.nanmean(values[items]) if not np.isnan(values[items]).all() else 0.0
                for items in drawn_items(6, 50, 3)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert mean_statistic(values).value() == pytest.approx(1.7 / 4)
    assert mean_statistic(np.full(3, np.nan)).value() == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_corpus_metrics_equal_recomputing_them_on_every_resample(seed):
    hypotheses, references = random_items(seed, 12)
    sources = [item[0] for item in references[::-1]]
    counts, copied = count_matches(hypotheses, references), count_matches(hypotheses, [[one] for one in sources])
    statistics = {"corpus": corpus_bleu_statistic(counts), "two": corpus_bleu_statistic(counts, 2),
                  "sacrebleu": sacrebleu_statistic(hypotheses, references), "ibleu": ibleu_statistic(counts, copied)}
    found = resampled(statistics, 40, seed=9)
    for number, items in enumerate(drawn_items(len(hypotheses), 40, 9)):
        outputs, targets = [hypotheses[item] for item in items], [references[item] for item in items]
        assert found["corpus"][number] == pytest.approx(bleu(outputs, targets, "corpus")[3], abs=1e-12)
        assert found["two"][number] == pytest.approx(bleu(outputs, targets, "corpus")[1], abs=1e-12)
        assert found["sacrebleu"][number] == pytest.approx(sacrebleu(outputs, targets)[0], abs=1e-9)
        copies = bleu(outputs, [sources[item] for item in items], "corpus")[3]
        assert found["ibleu"][number] == pytest.approx(0.8 * found["corpus"][number] - 0.2 * copies)


def test_same_seed_same_resamples_whatever_the_blocks(monkeypatch):
    values = {"one": mean_statistic(np.arange(7.0)), "two": mean_statistic(np.arange(7.0) ** 2)}
    whole = resampled(values, 25, seed=5)
    apart = resampled({"two": values["two"]}, 25, seed=5)
    np.testing.assert_allclose(apart["two"], whole["two"], atol=1e-12)
    monkeypatch.setattr(module, "_BLOCK", 20)
    assert [len(block) for block in item_weights(7, 5, 5)] == [2, 2, 1]
    blocks = resampled(values, 25, seed=5)
    for name in values:
        np.testing.assert_allclose(blocks[name], whole[name], atol=1e-12)
    assert (resampled(values, 25, seed=6)["one"] != whole["one"]).any()


def test_p_value_equals_its_formula():
    differences = np.array([0.3, -0.1, 0.2, 0.0, 0.4, 0.1, 0.2])
    # Two of seven are not above zero: the tie and the negative one.
    assert p_value(differences) == p_value(-differences) == 2 * (2 + 1) / (7 + 1)
    assert p_value(np.ones(999)) == 2 / 1000
    assert p_value(np.zeros(10)) == 1 and p_value(np.array([1.0, -1.0])) == 1


def test_equal_systems_do_not_differ_and_swapping_turns_the_sign():
    draw = np.random.default_rng(7)
    one, other = (mean_statistic(draw.normal(size=60)) for _ in range(2))
    same = paired_bootstrap(one, one)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    there, back = paired_bootstrap(one, other, seed=1), paired_bootstrap(other, one, seed=1)
    assert back.difference == -there.difference and back.p_value == there.p_value
    assert (back.low, back.high) == (pytest.approx(-there.high), pytest.approx(-there.low))


def test_statistics_of_other_items_are_refused():
    with pytest.raises(ValueError, match=r"not of \[2, 3\] items"):
        resampled({"a": mean_statistic(np.ones(2)), "b": mean_statistic(np.ones(3))}, 5, 0)
    with pytest.raises(ValueError, match=r"not of \[0\] items"):
        resampled({"a": Statistic(np.zeros((0, 2)), lambda sums: sums[..., 0])}, 5, 0)
    assert resampled({}, 5, 0) == {}


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
