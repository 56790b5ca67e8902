"""Metrics against NLTK, against slow loops, and against the numbers of METHODS E.1, E.2 and E.4."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from stages.metrics import (
    EncoderVectors,
    basic_tokens,
    bleu,
    bleu_from_counts,
    count_matches,
    distinct,
    embedding_similarity,
    ibleu,
    intra_distinct,
    source_bleu,
)
from stages.metrics.bleu import sacrebleu_tokenizer

HYPOTHESIS = "what are some good ways to lose belly fat ?"
REFERENCE = "what is the best way to lose belly fat ?"
ONE_HOT = [tuple(float(order == place) for place in range(4)) for order in range(4)]
UNIFORM = [tuple(1 / (order + 1) if place <= order else 0.0 for place in range(4)) for order in range(4)]


def random_items(seed, items=60):
    """Hypotheses of 0 to 12 tokens with 1 to 3 references over a small vocabulary, so that matches occur."""
    draw = random.Random(seed)
    words = ["a", "b", "c", "d", "e", "f", "?"]

    def text(shortest):
        return " ".join(draw.choices(words, k=draw.randint(shortest, 12)))

    return ([text(0) for _ in range(items)],
            [[text(1) for _ in range(draw.randint(1, 3))] for _ in range(items)])


# -- tokens ---------------------------------------------------------------------------------------------------

def test_basic_tokens_are_those_of_bert():
    assert basic_tokens("Don't  STOP, Café!") == ["don", "'", "t", "stop", ",", "cafe", "!"]
    assert basic_tokens("减肥 tips") == ["减", "肥", "tips"]
    assert basic_tokens("") == []
    assert basic_tokens(["As", "Is"]) == ["As", "Is"]


def test_chinese_is_scored_on_characters():
    assert basic_tokens("我喜欢OPPO手机。") == ["我", "喜", "欢", "oppo", "手", "机", "。"]
    # Rare and compatibility ideographs too; the latter in the form that Unicode makes equal to them.
    assert basic_tokens("\u3400\uf900\U00020000x") == ["\u3400", "\u8c48", "\U00020000", "x"]
    assert basic_tokens("こんにちは みんな") == ["こんにちは", "みんな"]     # BERT leaves kana together
    assert bleu(["我爱喝茶"], [["我喜喝茶"]], "corpus")[0] == pytest.approx(3 / 4)


# -- BLEU -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("style, weights", [("individual_m7", ONE_HOT), ("cumulative_m7", UNIFORM)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_smoothed_styles_equal_nltk_on_every_sentence(style, weights, seed):
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    hypotheses, references = random_items(seed)
    method7 = SmoothingFunction().method7
    expected = np.array([[0.0 if not text else
                          sentence_bleu([item.split() for item in others], text.split(), weight,
                                        smoothing_function=method7)
                          for weight in weights]
                         for text, others in zip(hypotheses, references, strict=True)])
    found = bleu(hypotheses, references, style)
    np.testing.assert_allclose(found.sentences, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.values, expected.mean(axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed, items", [(3, 1), (4, 3), (5, 60)])
def test_corpus_style_equals_nltk(seed, items):
    from nltk.translate.bleu_score import corpus_bleu

    hypotheses, references = random_items(seed, items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # NLTK warns of orders without a match
        expected = corpus_bleu([[text.split() for text in item] for item in references],
                               [text.split() for text in hypotheses], UNIFORM)
    np.testing.assert_allclose(bleu(hypotheses, references, "corpus").values, expected, rtol=0, atol=1e-12)


def test_identical_pair_exceeds_one_under_method7():
    text = "we walk to the old town"
    np.testing.assert_allclose(list(bleu([text], [[text]], "individual_m7")), [4 / 3, 10 / 9, 28 / 27, 82 / 81],
                               rtol=0, atol=1e-12)
    np.testing.assert_allclose(list(bleu([text], [[text]], "corpus")), np.ones(4), atol=1e-12)


def test_belly_fat_example():
    individual = bleu([HYPOTHESIS], [[REFERENCE]], "individual_m7")
    np.testing.assert_allclose(list(individual), [0.881481, 0.566975, 0.409230, 0.287204], atol=5e-7)
    counts = count_matches([HYPOTHESIS], [[REFERENCE]])
    np.testing.assert_allclose(counts.precisions[0, :4], [0.6, 0.444444, 0.375, 0.285714], atol=5e-7)
    assert counts.brevity[0] == 1.0
    np.testing.assert_allclose(list(bleu([HYPOTHESIS], [[REFERENCE]], "corpus")),
                               [0.6, 0.516398, 0.464159, 0.411134], atol=5e-7)


def test_order_one_is_not_averaged_with_order_five():
    """NLTK under weights (1,) smooths a list of length 1; four weights give another number (METHODS E.1)."""
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    pitfall = sentence_bleu([REFERENCE.split()], HYPOTHESIS.split(), (1,),
                            smoothing_function=SmoothingFunction().method7)
    assert pitfall == pytest.approx(0.788889, abs=5e-7)
    assert bleu([HYPOTHESIS], [[REFERENCE]], "individual_m7")[0] == pytest.approx(0.881481, abs=5e-7)


@pytest.mark.parametrize("style", ["individual_m7", "cumulative_m7", "corpus", "sacrebleu"])
def test_no_common_word_and_empty_hypothesis_score_zero(style):
    assert list(bleu(["x y z u v w", ""], [["a b c d e f"], ["a b"]], style)) == [0.0] * 4


def test_brevity_penalty_is_per_sentence():
    short, full = "a b c", "a b c d e f"
    alone = bleu([short], [[full]], "individual_m7").values
    both = bleu([short, full + " g h i j k l"], [[full], [full]], "individual_m7")
    np.testing.assert_array_equal(both.sentences[0], alone)
    assert count_matches([short], [[full]]).brevity[0] == pytest.approx(np.exp(1 - 6 / 3))


def test_closest_reference_length_prefers_the_shorter():
    counts = count_matches(["a b c d"], [["a b c d e f", "a b"]])
    assert counts.reference_lengths.tolist() == [2]


def test_individual_values_fall_at_most_to_a_third():
    """p'_n = (p'_{n-1} + p_n + p_{n+1}) / 3, so each order has at least a third of the one before."""
    hypotheses, references = random_items(7)
    values = bleu(hypotheses, references, "individual_m7").sentences
    assert (values[:, 1:] >= values[:, :-1] / 3 - 1e-12).all()


@pytest.mark.parametrize("style", ["individual_m7", "cumulative_m7", "corpus", "sacrebleu"])
def test_order_of_items_does_not_matter(style):
    hypotheses, references = random_items(8)
    np.testing.assert_allclose(bleu(hypotheses[::-1], references[::-1], style).values,
                               bleu(hypotheses, references, style).values, atol=1e-12)


def test_tokens_and_texts_mix_and_a_string_is_one_reference():
    expected = bleu([HYPOTHESIS], [[REFERENCE]], "individual_m7").values
    np.testing.assert_array_equal(bleu([HYPOTHESIS.upper()], [REFERENCE], "individual_m7").values, expected)
    np.testing.assert_array_equal(bleu([HYPOTHESIS.split()], [[REFERENCE.split()]], "individual_m7").values,
                                  expected)


def test_counts_made_once_give_the_same_scores():
    hypotheses, references = random_items(9)
    counts = count_matches(hypotheses, references)
    for style in ("individual_m7", "cumulative_m7", "corpus"):
        np.testing.assert_array_equal(bleu_from_counts(counts, style).values,
                                      bleu(hypotheses, references, style).values)


def test_sacrebleu_is_sacrebleu_on_its_own_scale():
    from sacrebleu.metrics import BLEU

    hypotheses = ["The quick brown fox jumps over the dog.", "A cat sleeps on the red mat today."]
    references = [["the quick brown fox jumped over the dog.", "quick brown foxes jump over dogs."],
                  ["a cat sleeps on a red mat today."]]
    found = bleu(hypotheses, references, "sacrebleu")
    streams = [[references[0][0], references[1][0]], [references[0][1], None]]
    assert found[3] == BLEU(lowercase=True).corpus_score(hypotheses, streams).score
    assert 50 < found[3] < 100
    assert "tok:13a" in found.signature and "case:lc" in found.signature
    assert bleu(["我喜欢喝茶和咖啡"], [["我喜欢喝茶和咖啡"]], "sacrebleu")[3] == pytest.approx(100)


def test_sacrebleu_tokenizer_follows_the_letters():
    assert sacrebleu_tokenizer(["what is OPPO?"]) == "13a"
    assert sacrebleu_tokenizer(["我喜欢 tea"]) == "13a"
    assert sacrebleu_tokenizer(["我喜欢喝茶 ok"]) == "zh"


def test_names_of_the_four_values():
    scores = bleu([HYPOTHESIS], [[REFERENCE]], "corpus")
    assert list(scores.named("corpus_bleu")) == [f"corpus_bleu_{order}" for order in (1, 2, 3, 4)]
    assert len(scores) == 4 and scores.named()["bleu_1"] == scores[0]


def test_bleu_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match="did you mean 'individual_m7'"):
        bleu(["a"], [["a"]], "individual_7")
    with pytest.raises(ValueError, match="1 hypotheses but 2 items"):
        bleu(["a"], [["a"], ["b"]], "corpus")
    with pytest.raises(ValueError, match="no items"):
        bleu([], [], "corpus")
    with pytest.raises(ValueError, match="item 1 has no reference"):
        bleu(["a", "b"], [["a"], []], "corpus")
    with pytest.raises(ValueError, match="does not follow from counts"):
        bleu_from_counts(count_matches(["a"], [["a"]]), "sacrebleu")


# -- embedding similarity -------------------------------------------------------------------------------------

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
    """Extrema, Average and Greedy of two lists of vectors, as a loop written from METHODS E.2."""
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


def test_embedding_similarity_equals_a_slow_loop():
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


def test_identical_texts_are_similar_to_degree_one():
    found = embedding_similarity(["a b c a"], ["a b c a"], table_of("abc"))
    np.testing.assert_allclose([found.extrema[0], found.average[0], found.greedy[0]], 1.0, atol=1e-12)


def test_word_order_does_not_matter_for_average_and_extrema():
    table = table_of("abcdef")
    one = embedding_similarity(["a b c d"], ["e f a"], table)
    other = embedding_similarity(["d b a c"], ["a f e"], table)
    np.testing.assert_allclose([one.extrema, one.average], [other.extrema, other.average], atol=1e-12)


def test_greedy_is_symmetric():
    table = table_of("abcdef")
    one = embedding_similarity(["a b c d"], ["e f a"], table).greedy
    np.testing.assert_allclose(one, embedding_similarity(["e f a"], ["a b c d"], table).greedy, atol=1e-12)


def test_orthogonal_words_score_zero_and_opposite_ones_minus_one():
    table = Table({"a": [1, 0], "b": [0, 2], "c": [-3, 0]})
    orthogonal = embedding_similarity(["a"], ["b"], table)
    assert (orthogonal.extrema[0], orthogonal.average[0], orthogonal.greedy[0]) == (0, 0, 0)
    assert embedding_similarity(["a"], ["c"], table).average[0] == -1


def test_extrema_takes_the_maximum_in_a_tie():
    """Per dimension max if max >= |min|: words 2 and -2 give 2, words 1 and -2 give -2."""
    table = Table({"a": [2, 1], "b": [-2, -2], "c": [2, -2]})
    assert embedding_similarity(["a b"], ["c"], table).extrema[0] == pytest.approx(1)


def test_unknown_words_are_dropped_and_items_skipped():
    table = table_of("ab")
    found = embedding_similarity(["a x", "a", "x", ""], ["a", "x", "a", "y"], table)
    np.testing.assert_allclose(found.average[[0, 2]], [1, 0], atol=1e-12)
    assert np.isnan(found.average[[1, 3]]).all() and np.isnan(found.extrema[[1, 3]]).all()
    np.testing.assert_allclose(found.greedy, [1, 0, 0, 0], atol=1e-12)
    assert found.skipped == 2
    np.testing.assert_allclose(list(found.means().values()), [0.5, 0.5, 0.25], atol=1e-12)


def test_nothing_known_gives_zero_means_and_counts_all():
    found = embedding_similarity(["x", ""], ["y", "z"], table_of("ab"))
    assert found.skipped == 2 and set(found.means().values()) == {0.0}
    with pytest.raises(ValueError, match="1 hypotheses but 2 items"):
        embedding_similarity(["a"], ["a", "b"], table_of("a"))


def test_similarity_does_not_depend_on_chunks(monkeypatch):
    hypotheses, references = random_items(12)
    whole = embedding_similarity(hypotheses, references, table_of("abcdef"))
    monkeypatch.setattr("stages.metrics.embeddings._CHUNK", 7)
    parts = embedding_similarity(hypotheses, references, table_of("abcdef"))
    np.testing.assert_array_equal([whole.extrema, whole.average, whole.greedy],
                                  [parts.extrema, parts.average, parts.greedy])


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


def test_encoder_vectors_serve_embedding_similarity():
    table = np.random.default_rng(1).normal(size=(7, 4))
    found = embedding_similarity(["Lose belly fat!"], ["lose belly fat"],
                                 EncoderVectors(table, word_piece_tokenizer()))
    assert found.average[0] == pytest.approx(1)


# -- diversity and rewriting ----------------------------------------------------------------------------------

def test_distinct_counts_over_all_outputs():
    assert distinct(["a b a", "a b"], 1) == 2 / 5
    assert distinct(["a b a", "a b"], 2) == 2 / 3
    assert distinct(["a"], 2) == 0 and distinct([], 1) == 0
    with pytest.raises(ValueError, match="at least 1"):
        distinct(["a"], 0)


def test_distinct_within_items_is_a_mean_over_items():
    assert intra_distinct([["a b", "a b"], ["c d", "e f"]], 1) == (2 / 4 + 4 / 4) / 2
    with pytest.raises(ValueError, match="at least one item"):
        intra_distinct([], 1)


def test_ibleu_of_copying():
    sources = ["how do i lose belly fat quickly", "what is the best way to learn chess"]
    references = [["how can i lose belly fat fast"], ["what is a good way to learn chess"]]
    overlap = bleu(sources, references, "corpus")[3]
    assert overlap > 0
    assert ibleu(sources, references, sources, alpha=0.8) == pytest.approx(0.8 * overlap - 0.2)
    assert source_bleu(sources, sources) == pytest.approx(1)


def test_ibleu_weighs_both_terms():
    sources, outputs = ["a b c d e f"], ["a b c d g h"]
    references = [["a b c d g i"]]
    expected = 0.9 * bleu(outputs, references, "corpus")[3] - 0.1 * source_bleu(outputs, sources)
    assert ibleu(outputs, references, sources, alpha=0.9) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        ibleu(outputs, references, sources, alpha=1.5)


def test_importing_metrics_imports_no_scoring_package():
    """Evaluation runs where only torch and its kin are installed, until a metric needs more."""
    heavy = ("nltk", "sacrebleu", "rouge_score", "sklearn", "scipy", "pydantic", "gensim", "torch")
    probe = f"import sys, stages.metrics; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
