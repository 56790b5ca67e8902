"""Bootstrap intervals and paired tests: against SciPy, against recomputing on every resample, and by what must hold."""

import numpy as np
import pytest
from test_metrics import bleu, random_items

from stages.metrics import Statistic, interval, mean_statistic, resampled
from stages.metrics import resampling as module
from stages.metrics.bleu import (
    corpus_bleu_statistic,
    count_matches,
    ibleu_statistic,
    sacrebleu,
    sacrebleu_statistic,
)
from stages.metrics.resampling import difference, item_weights, p_value


def drawn_items(items, resamples, seed):
    """The items of every resample, as lists of positions."""
    return [np.repeat(np.arange(items), row.astype(int)) for weights in item_weights(items, resamples, seed)
            for row in weights]


def paired_bootstrap(first, second, resamples=1000, seed=0):
    """The difference of two systems on the same items."""
    samples = resampled({"first": first, "second": second}, resamples, seed)
    return difference(first.value(), second.value(), samples["first"], samples["second"], 0.95)


def test_interval_of_a_mean_is_the_percentile_interval_of_scipy():
    from scipy.stats import bootstrap

    values = np.random.default_rng(0).gamma(2.0, size=80)
    expected = bootstrap((values,), np.mean, n_resamples=20_000, method="percentile",
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


def test_sacrebleu_from_sums_where_orders_have_no_match_or_no_ngram():
    cases = [(["a b c x y"], [["a q c r s"]]), (["a b"], [["a b"]]), (["x y z w"], [["a b c d"]]), ([""], [["a b c"]]),
             (["a b c d e", "a"], [["a b c d f"], ["b c"]]), (["我喜欢喝茶"], [["我喜欢喝咖啡"]])]
    for hypotheses, references in cases:
        assert sacrebleu_statistic(hypotheses, references).value() == pytest.approx(
            sacrebleu(hypotheses, references)[0], abs=1e-9)


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


def test_a_small_steady_gain_is_found_because_items_are_paired():
    base = np.random.default_rng(8).normal(scale=5, size=200)
    better = base + 0.1 + 0.01 * np.random.default_rng(9).normal(size=200)
    found = paired_bootstrap(mean_statistic(better), mean_statistic(base), resamples=500)
    assert found.p_value == 2 / 501 and 0.09 < found.low < found.difference < found.high < 0.11
    shuffled = paired_bootstrap(mean_statistic(better[::-1]), mean_statistic(base), resamples=500)
    assert shuffled.p_value > 0.05 and shuffled.low < 0 < shuffled.high


def test_statistics_of_other_items_are_refused():
    with pytest.raises(ValueError, match=r"not of \[2, 3\] items"):
        resampled({"a": mean_statistic(np.ones(2)), "b": mean_statistic(np.ones(3))}, 5, 0)
    with pytest.raises(ValueError, match=r"not of \[0\] items"):
        resampled({"a": Statistic(np.zeros((0, 2)), lambda sums: sums[..., 0])}, 5, 0)
    assert resampled({}, 5, 0) == {}
