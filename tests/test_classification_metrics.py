"""Metrics of classifiers, against scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from stages.metrics.classification import Confidence, bin_of, class_statistics
from stages.metrics.resampling import item_weights, resampled


def drawn(seed=0, count=200, classes=5):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    predicted = np.where(random.random(count) < 0.6, labels, random.integers(0, classes, count))
    return labels, predicted


def test_classes_that_are_neither_there_nor_predicted_are_left_out():
    labels, predicted = drawn()
    for n_classes in (5, 9):
        assert class_statistics(labels, predicted, n_classes)["macro_f1"].value() == pytest.approx(
            f1_score(labels, predicted, average="macro"))
    # One that is predicted and never there counts, with F1 0; and so does one that is there and never predicted.
    assert class_statistics(np.array([0, 0]), np.array([0, 2]), 4)["macro_f1"].value() == pytest.approx(
        (2 / 3 + 0) / 2)
    assert class_statistics(np.array([0, 1]), np.array([0, 0]), 2)["weighted_f1"].value() == pytest.approx(1 / 3)


def test_resamples_are_metrics_of_the_drawn_texts():
    labels, predicted = drawn(count=40, classes=6)
    random = np.random.default_rng(1)
    confidence = Confidence(random.random(40), random.random(40), random.random(40), bins=4)
    samples = resampled(class_statistics(labels, predicted, 6, confidence), 3, seed=5)
    weights = np.concatenate(list(item_weights(40, 3, 5))).astype(int)
    for place, counts in enumerate(weights):
        rows = np.repeat(np.arange(40), counts)
        own = Confidence(confidence.probability[rows], confidence.nll[rows], confidence.brier[rows], 4)
        for name, one in class_statistics(labels[rows], predicted[rows], 6, own).items():
            assert samples[name][place] == pytest.approx(one.value()), name


def test_calibration_error_by_hand():
    sure = Confidence(np.array([0.9, 0.8, 0.3, 1.0]), np.zeros(4), np.zeros(4), bins=2)
    labels, predicted = np.array([0, 0, 0, 0]), np.array([0, 1, 0, 0])
    # Upper bin: 2 of 3 right at 0.9 on average; lower bin: right at 0.3.
    assert class_statistics(labels, predicted, 2, sure)["ece"].value() == pytest.approx(
        3 / 4 * abs(2 / 3 - 0.9) + 1 / 4 * 0.7)


def test_bins_hold_their_upper_end():
    assert bin_of(np.array([0.0, 0.2, 0.2000001, 0.4, 0.6, 1.0]), 5).tolist() == [0, 0, 1, 1, 2, 4]
    assert bin_of(np.arange(1, 16) / 15, 15).tolist() == list(range(15))
