"""ROUGE in both conventions: values by hand, the package rouge_score, loops written from the formulas."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from test_metrics import random_items

from stages.metrics.rouge import rouge

WORDS = ["how", "do", "i", "lose", "belly", "fat", "quickly", "running", "ran", "learned", "learning", "languages",
         "cannot", "men", "10", "?", ",", "a"]


def slow_pooled(stems, others):
    """P = sum of overlaps / (R |hyp|), R = the same / sum |ref|, by loops."""
    @cache
    def common(i, j, k):
        if i == len(stems) or j == len(others[k]):
            return 0
        if stems[i] == others[k][j]:
            return 1 + common(i + 1, j + 1, k)
        return max(common(i + 1, j, k), common(i, j + 1, k))

    def counted(order):
        def grams(words):
            return Counter(tuple(words[i:i + order]) for i in range(len(words) - order + 1))
        own = grams(stems)
        overlap = sum(min(count, grams(other)[gram]) for other in others for gram, count in own.items())
        return overlap, len(others) * sum(own.values()), sum(sum(grams(other).values()) for other in others)

    values = []
    for overlap, own, rest in (counted(1), counted(2),
                               (sum(common(0, 0, k) for k in range(len(others))), len(others) * len(stems),
                                sum(map(len, others)))):
        precision, recall = (overlap / whole if whole else 0.0 for whole in (own, rest))
        values.append(2 * precision * recall / (precision + recall) if overlap else 0.0)
    return values


@pytest.mark.parametrize("seed", [0, 1])
def test_rouge_score_is_the_package_with_its_own_tokenizer(seed):
    from rouge_score.rouge_scorer import RougeScorer

    hypotheses, references = random_items(seed, words=WORDS)
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    expected = np.array([[score.fmeasure for score in scorer.score_multi(others, text).values()]
                         for text, others in zip(hypotheses, references, strict=True)])
    np.testing.assert_array_equal(rouge(hypotheses, references, "rouge_score"), expected)


@pytest.mark.parametrize("seed", [2, 3])
def test_py_rouge_equals_a_slow_loop(seed):
    from nltk.stem.porter import PorterStemmer

    stemmer = PorterStemmer("ORIGINAL_ALGORITHM")

    def stems(text):
        return tuple(stemmer.stem(word) if len(word) > 3 else word for word in text.split() if word not in ("?", ","))

    hypotheses, references = random_items(seed, words=WORDS)
    expected = [slow_pooled(stems(text), tuple(map(stems, others)))
                for text, others in zip(hypotheses, references, strict=True)]
    np.testing.assert_allclose(rouge(hypotheses, references, "py_rouge"), expected, atol=1e-12)


def test_stems_of_longer_words_meet_and_short_words_are_left_alone():
    for convention in ("rouge_score", "py_rouge"):
        assert rouge(["learning languages"], [["learned language"]], convention)[0, 1] == 1
        assert rouge(["ran"], [["run"]], convention)[0, 0] == 0
        assert rouge(["was"], [["wa"]], convention)[0, 0] == 0   # a stemmer would cut it
    # Porter's original algorithm makes "dy" of "dying" where NLTK's makes "die".
    assert rouge(["dying"], [["died"]], "rouge_score")[0, 0] == 1
    assert rouge(["dying"], [["died"]], "py_rouge")[0, 0] == 0


def test_py_rouge_cuts_words_as_the_treebank_does_and_keeps_cannot():
    found = rouge(["i wanna go", "i cannot"], [["i wan na go"], ["i can not"]], "py_rouge")
    assert found[0, 0] == 1 and found[1, 0] < 0.5


def test_py_rouge_reads_665_characters():
    tail = "x " * 400
    cut, whole = (rouge(["a " * 300 + tail], [["a " * 300 + "y " * 400]], convention)[0, 0]
                  for convention in ("py_rouge", "rouge_score"))
    assert (cut, whole) == (pytest.approx(300 / 333), pytest.approx(300 / 700))


@pytest.mark.parametrize("convention", ("rouge_score", "py_rouge"))
def test_other_scripts_have_words(convention):
    texts, references = ["我喜欢茶", "Привет, мир", "안녕 세계"], [["我爱喝茶"], ["Мир, привет"], ["세계"]]
    assert rouge(texts, references, convention)[:, 0] == pytest.approx([0.5, 1, 2 / 3])


@pytest.mark.parametrize("convention", ("rouge_score", "py_rouge"))
def test_empty_and_strange_texts_score_zero(convention):
    references = [["a b"], ["a b"], ["a b"], ["b bold b line"]]
    found = rouge(["", "   ", "🎉 \n ?", "<b>bold</b>\nline"], references, convention)
    np.testing.assert_array_equal(found[:3], np.zeros((3, 3)))
    assert found[3, 0] == 1
    assert rouge(["a"], [[""]], convention).sum() == 0
