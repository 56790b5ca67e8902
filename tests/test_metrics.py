"""Metrics against NLTK, against slow loops, and against numbers worked out by hand."""

import random
import warnings

import numpy as np
import pytest
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from stages.metrics.bleu import corpus_bleu_statistic, count_matches, distinct, intra_distinct, sacrebleu
from stages.metrics.bleu import sentence_bleu as of_sentences
from stages.metrics.embeddings import EncoderVectors, embedding_similarity
from stages.metrics.tokens import basic_tokens

ONE_HOT = [tuple(float(order == place) for place in range(4)) for order in range(4)]
UNIFORM = [tuple(1 / (order + 1) if place <= order else 0.0 for place in range(4)) for order in range(4)]


def random_items(seed, items=60, words="abcdef?"):
    """Hypotheses of 0 to 12 tokens with 1 to 3 references over a small vocabulary, so that matches occur."""
    draw = random.Random(seed)

    def text(shortest):
        return " ".join(draw.choices(words, k=draw.randint(shortest, 12)))

    return ([text(0) for _ in range(items)],
            [[text(1) for _ in range(draw.randint(1, 3))] for _ in range(items)])


def bleu(hypotheses, references, style):
    """BLEU-1..4 over the corpus, or the mean over items of that of sentences, cumulative_m7 or individual_m7."""
    counts = count_matches(hypotheses, references)
    if style == "corpus":
        return np.array([corpus_bleu_statistic(counts, order).value() for order in (1, 2, 3, 4)])
    return of_sentences(counts, style == "cumulative_m7").mean(axis=0)


def test_basic_tokens_are_those_of_bert():
    assert basic_tokens("Don't  STOP, Café!") == ["don", "'", "t", "stop", ",", "cafe", "!"]
    assert basic_tokens("") == []
    assert basic_tokens(["As", "Is"]) == ["As", "Is"]
    assert basic_tokens("我喜欢OPPO手机。") == ["我", "喜", "欢", "oppo", "手", "机", "。"]
    # Rare and compatibility ideographs too; the latter in the form that Unicode makes equal to them.
    assert basic_tokens("\u3400\uf900\U00020000x") == ["\u3400", "\u8c48", "\U00020000", "x"]
    assert basic_tokens("こんにちは みんな") == ["こんにちは", "みんな"]     # BERT leaves kana together


@pytest.mark.parametrize("style, weights", [("individual_m7", ONE_HOT), ("cumulative_m7", UNIFORM)])
@pytest.mark.parametrize("seed", [0, 1])
def test_smoothed_styles_equal_nltk_on_every_sentence(style, weights, seed):
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    hypotheses, references = random_items(seed)
    method7 = SmoothingFunction().method7
    expected = np.array([[0.0 if not text else
                          sentence_bleu([item.split() for item in others], text.split(), weight,
                                        smoothing_function=method7)
                          for weight in weights]
                         for text, others in zip(hypotheses, references, strict=True)])
    sentences = of_sentences(count_matches(hypotheses, references), style == "cumulative_m7")
    np.testing.assert_allclose(sentences, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed, items", [(3, 1), (4, 3), (5, 60)])
def test_corpus_style_equals_nltk(seed, items):
    from nltk.translate.bleu_score import corpus_bleu

    hypotheses, references = random_items(seed, items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # NLTK warns of orders without a match
        expected = corpus_bleu([[text.split() for text in item] for item in references],
                               [text.split() for text in hypotheses], UNIFORM)
    np.testing.assert_allclose(bleu(hypotheses, references, "corpus"), expected, rtol=0, atol=1e-12)


def test_identical_pair_exceeds_one_under_method7():
    text = "we walk to the old town"
    np.testing.assert_allclose(bleu([text], [[text]], "individual_m7"), [4 / 3, 10 / 9, 28 / 27, 82 / 81], atol=1e-12)
    np.testing.assert_allclose(bleu([text], [[text]], "corpus"), np.ones(4), atol=1e-12)


def test_sacrebleu_is_sacrebleu_on_its_own_scale():
    from sacrebleu.metrics import BLEU

    hypotheses = ["The quick brown fox jumps over the dog.", "A cat sleeps on the red mat today."]
    references = [["the quick brown fox jumped over the dog.", "quick brown foxes jump over dogs."],
                  ["a cat sleeps on a red mat today."]]
    score, signature = sacrebleu(hypotheses, references)
    streams = [[references[0][0], references[1][0]], [references[0][1], None]]
    assert 50 < score == BLEU(lowercase=True).corpus_score(hypotheses, streams).score < 100
    assert "tok:13a" in signature and "case:lc" in signature
    # Most letters of the references decide the tokenizer.
    assert sacrebleu(["我喜欢喝茶和咖啡"], [["我喜欢喝茶和咖啡 ok"]])[1].count("tok:zh") == 1
    assert sacrebleu(["我喜欢 tea"], [["我喜欢 tea"]])[1].count("tok:13a") == 1


class Table:
    """Word vectors from a dictionary; other words are unknown (their rows are poisoned)."""

    def __init__(self, vectors):
        self.vectors = {word: np.asarray(vector, dtype=float) for word, vector in vectors.items()}
        self.width = len(next(iter(self.vectors.values())))

    def lookup(self, words):
        known = np.array([word in self.vectors for word in words])
        return np.array([self.vectors.get(word, np.full(self.width, np.nan)) for word in words]), known


def cosine(left, right):
    norm = np.linalg.norm(left) * np.linalg.norm(right)
    return 0.0 if norm == 0 else float(np.dot(left, right) / norm)


def slow_similarity(left, right):
    """Extrema, Average and Greedy of two lists of vectors, as a loop (HCL section 4.4)."""
    def extreme(vectors):
        result = []
        for column in zip(*vectors, strict=True):
            high, low = max(column), min(column)
            result.append(high if high >= abs(low) else low)
        return np.array(result)

    def direction(these, those):
        return sum(max(cosine(one, other) for other in those) for one in these) / len(these)

    return (cosine(extreme(left), extreme(right)), cosine(np.mean(left, axis=0), np.mean(right, axis=0)),
            (direction(left, right) + direction(right, left)) / 2)


def table_of(words, seed=0, width=5):
    draw = np.random.default_rng(seed)
    return Table({word: draw.normal(size=width) for word in words})


@pytest.mark.parametrize("chunk", [7, 512])
def test_embedding_similarity_equals_a_slow_loop(chunk, monkeypatch):
    monkeypatch.setattr("stages.metrics.embeddings._CHUNK", chunk)
    hypotheses, references = random_items(11)
    table = table_of("abcdef")      # "?" is unknown
    found = embedding_similarity(hypotheses, references, table)
    for item, (text, others) in enumerate(zip(hypotheses, references, strict=True)):
        left = [table.vectors[word] for word in text.split() if word in table.vectors]
        rights = [[table.vectors[word] for word in other.split() if word in table.vectors] for other in others]
        rights = [right for right in rights if right]
        values = (found.extrema[item], found.average[item], found.greedy[item])
        if not rights:
            assert np.isnan(values[0]) and np.isnan(values[1]) and values[2] == 0
        elif not left:
            assert values == (0, 0, 0)
        else:
            expected = np.max([slow_similarity(left, right) for right in rights], axis=0)
            np.testing.assert_allclose(values, expected, atol=1e-12)


def test_extrema_takes_the_maximum_in_a_tie():
    """Per dimension max if max >= |min|: words 2 and -2 give 2, words 1 and -2 give -2."""
    table = Table({"a": [2, 1], "b": [-2, -2], "c": [2, -2]})
    assert embedding_similarity(["a b"], ["c"], table).extrema[0] == pytest.approx(1)


def test_unknown_words_are_dropped_and_items_skipped():
    scores = embedding_similarity(["a x", "a", "x", ""], ["a", "x", "a", "y"], table_of("ab"))
    np.testing.assert_allclose(scores.average, [1, np.nan, 0, np.nan], atol=1e-12)
    np.testing.assert_allclose(scores.extrema, [1, np.nan, 0, np.nan], atol=1e-12)
    np.testing.assert_allclose(scores.greedy, [1, 0, 0, 0], atol=1e-12)
    with pytest.raises(ValueError, match="1 hypotheses but 2 items"):
        embedding_similarity(["a"], ["a", "b"], table_of("a"))


def word_piece_tokenizer():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "fat", "bell", "##y", "lose"]
    tokenizer = Tokenizer(WordPiece({word: place for place, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.enable_padding(length=8)      # stored settings of a tokenizer must not reach single words
    tokenizer.enable_truncation(1)
    return tokenizer


def test_encoder_vectors_are_means_of_word_pieces():
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    vectors, known = EncoderVectors(table, word_piece_tokenizer()).lookup(["fat", "belly", "zebra", "lose"])
    assert known.tolist() == [True, True, False, True]
    np.testing.assert_array_equal(vectors[[0, 1, 3]], [table[3], (table[4] + table[5]) / 2, table[6]])


def test_distinct_counts_over_all_outputs_or_within_items():
    assert distinct(["a b a", "a b"], 1) == 2 / 5
    assert distinct(["a b a", "a b"], 2) == 2 / 3
    assert distinct(["a"], 2) == 0 and distinct([], 1) == 0
    assert intra_distinct([["a b", "a b"], ["c d", "e f"]], 1) == (2 / 4 + 4 / 4) / 2
