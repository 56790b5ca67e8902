"""Self-BLEU, keywords, baselines, word vectors from files and texts, and all metrics of a system together."""

import random

import numpy as np
import pytest
from test_metrics import random_items

from keycontrast.errors import InputError
from stages.metrics.baselines import derangement
from stages.metrics.bleu import self_bleu
from stages.metrics.embeddings import WordTable, vectors_from_training
from stages.metrics.resampling import intervals
from stages.metrics.systems import ScoredItems, score_system
from stages.metrics.tokens import shows_keyword


def table_of(words):
    return WordTable(list(words), np.random.default_rng(0).normal(size=(len(words), 5)), {})


@pytest.mark.parametrize("order", [2, 4])
def test_self_bleu_equals_nltk_for_each_output_against_the_others(order):
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    texts, _ = random_items(13, items=30)
    texts += ["", "a", "zebra", "a b c d e f", "a b c d e f"]
    smoothing = SmoothingFunction().method1
    expected = [0.0 if not text else
                sentence_bleu([other.split() for number, other in enumerate(texts) if number != place], text.split(),
                              (1 / order,) * order, smoothing_function=smoothing)
                for place, text in enumerate(texts)]
    assert self_bleu(texts, order) == pytest.approx(np.mean(expected), abs=1e-12)


def test_self_bleu_samples_by_seed_whatever_the_order():
    texts, _ = random_items(14)
    value = self_bleu(texts, sample=20, seed=1)
    assert value == self_bleu(texts[::-1], sample=20, seed=1) != self_bleu(texts, sample=20, seed=2)
    assert self_bleu(texts, sample=60, seed=1) == self_bleu(texts, sample=60, seed=2)


def test_keywords_are_found_by_stems_of_words_that_follow_each_other():
    assert shows_keyword("Losing some belly fat!", "belly fat") is True
    assert shows_keyword("She was losing weight", "lose weight") is True
    assert shows_keyword("the fat of a belly", "belly fat") is False
    assert shows_keyword("breakfast", "fast") is False
    assert shows_keyword("mice", "mouse") is False       # irregular forms are not known
    assert shows_keyword("", "fat") is False
    assert shows_keyword("我喜欢喝茶", "喝茶") is True and shows_keyword("喝咖啡和茶", "喝茶") is False
    assert shows_keyword("anything", None) is None and shows_keyword("anything", "<nokw>") is None


@pytest.mark.parametrize("items", [2, 3, 50])
def test_a_derangement_moves_every_item(items):
    order = derangement(items, seed=3)
    assert sorted(order) == list(range(items)) and (order != np.arange(items)).all()
    np.testing.assert_array_equal(order, derangement(items, seed=3))


def test_vectors_trained_on_texts_do_not_depend_on_their_order():
    texts = [f"how do i {verb} {noun} quickly" for verb in ("lose", "find", "learn") for noun in ("fat", "chess", "x")]
    table = vectors_from_training(texts + texts, seed=1)
    assert "how" in table.words and table.vectors.shape == (len(table.words), 200)
    assert table.description["origin"] == "trained on the training split" and table.description["texts"] == 9
    np.testing.assert_array_equal(table.vectors, vectors_from_training(texts[::-1], seed=1).vectors)
    assert (table.vectors != vectors_from_training(texts, seed=2).vectors).any()
    with pytest.raises(InputError, match="too few to train word vectors on.*Choose encoder"):
        vectors_from_training(["a b c"], seed=1)


def scored(hypotheses, references, order):
    sources = [item[0] + " a" for item in references]
    items = ScoredItems([sources[place] for place in order], [references[place] for place in order],
                        ["a b" if place % 2 else None for place in order], ["c" for _ in order])
    return score_system([hypotheses[place] for place in order], items, table_of("abcdef"), seed=3)


def test_every_metric_is_invariant_to_the_order_of_items():
    hypotheses, references = random_items(15)
    order = list(range(len(hypotheses)))
    one = scored(hypotheses, references, order)
    random.Random(1).shuffle(order)
    other = scored(hypotheses, references, order)
    assert one.values.keys() == other.values.keys()
    for name, value in one.values.items():
        assert other.values[name] == pytest.approx(value, abs=1e-12), name


def test_every_metric_but_the_named_ones_has_an_interval_around_it():
    hypotheses, references = random_items(16)
    found = scored(hypotheses, references, range(len(hypotheses)))
    ends = intervals(found.statistics, 200, 0.95, seed=1)
    assert set(found.values) - set(ends) == {"distinct_1", "distinct_2", "self_bleu"}
    for name, (low, high) in ends.items():
        assert low <= found.values[name] <= high, name
        assert found.statistics[name].value() == pytest.approx(found.values[name], abs=1e-9), name
    assert intervals(found.statistics, 0, 0.95, seed=1) == {}


def test_empty_and_strange_outputs_score_zero_or_stay_finite():
    references = [["what is a cat ?"]] * 5
    items = ScoredItems(["a dog"] * 5, references, ["cat"] * 5, [None] * 5)
    empty = score_system(["", " ", "\n\t", "", ""], items, table_of(["cat", "what"]))
    assert set(empty.values.values()) == {0.0}
    outputs = ["<b>cat</b>", "cat\ncat", "🎉 cat 🎉", "\u200b", "cat " * 300]
    strange = score_system(outputs, items, table_of(["cat", "what"]))
    assert all(np.isfinite(value) for value in strange.values.values())
    assert strange.values["keyword_kept"] == 0.8
