"""Keyphrase F1 against figures worked out by hand."""

import pytest

from stages.metrics.keyphrases import keyphrase_scores, stemmed_phrases


def test_phrases_meet_by_stems_case_and_hyphens():
    assert stemmed_phrases(["Neural Networks", "neural-network", "!!", "training", "Trained"]) == ["neural network",
                                                                                                  "train"]


def test_precision_recall_and_f1_at_each_cutoff():
    found = keyphrase_scores([["graph theory", "wrong", "keywords", "other"]], [["Graph Theories", "keyword", "node"]],
                             cutoffs=(1, 3, 15))
    assert (found[1].precision, found[1].recall, found[1].f1) == pytest.approx((1, 1 / 3, 0.5))
    assert (found[3].precision, found[3].recall, found[3].f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    # Four phrases were given: fifteen are not asked of them.
    assert found[15].precision == pytest.approx(0.5)


def test_a_phrase_twice_does_not_count_twice():
    found = keyphrase_scores([["keyword", "Keywords", "node"]], [["keyword", "node"]], cutoffs=(2,))
    assert found[2].f1 == pytest.approx(1)


def test_documents_are_averaged_and_those_without_gold_left_out():
    found = keyphrase_scores([["a1"], ["b"], ["c"]], [["a1"], ["x"], []], cutoffs=(5,))
    assert found[5].f1 == pytest.approx(0.5)
    assert keyphrase_scores([[]], [["x"]])[5].f1 == 0


def test_wrong_calls_are_named():
    with pytest.raises(ValueError, match="2 documents were predicted, 1 have gold phrases"):
        keyphrase_scores([[], []], [["a"]])
    with pytest.raises(ValueError, match="no document has gold phrases"):
        keyphrase_scores([["a"]], [["?"]])
