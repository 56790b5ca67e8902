"""Gradient saliency: its properties, on a linear classifier and on a tiny BERT."""

from types import SimpleNamespace

import numpy as np
import pytest
import tiny_bert
import torch
from torch import nn

from models.keywords.attribution import SaliencyBatch, WordPieces, overlaps, piece_norms, word_saliency, word_scores

SOURCES = ["what is the best way to learn a new language", "unknown's dog", "cat"]
TARGETS = ["how do i learn language fast ?", "a cat", "what"]
SWITCHES = ["pos_logit", "argmax_logit", "logit_diff", "pos_prob"]


class Linear(nn.Module):
    """f(X) = sum_j c_j w . e_j, the negative logit being -f."""

    def __init__(self, coefficients, width=4):
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(30, width)
        self.direction = nn.Parameter(torch.randn(width))
        self.coefficients, self.scale = torch.tensor(coefficients), 1.0

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids, attention_mask):
        terms = (self.table(input_ids) @ self.direction) * self.coefficients * attention_mask
        f = self.scale * terms.sum(1)
        return SimpleNamespace(logits=torch.stack([-f, f], dim=1))


def linear_batch(length, words):
    return SaliencyBatch({"input_ids": torch.arange(length).unsqueeze(0) + 3,
                          "attention_mask": torch.ones(1, length)}, [words])


@pytest.fixture
def tokenizer(tmp_path):
    return tiny_bert.tokenizer(tmp_path)


@pytest.fixture
def encode(tokenizer):
    def encoded(sources=SOURCES, targets=TARGETS, **options):
        return tokenizer(list(sources), list(targets), return_tensors="pt", padding=True, **options)
    return encoded


@pytest.mark.parametrize("target", SWITCHES)
def test_scores_are_probabilities_one_per_source_word(encode, target):
    scores = word_saliency(tiny_bert.classifier(), encode(), target)
    assert [len(row) for row in scores] == [10, 4, 1]  # unknown ' s dog: basic tokens
    for row in scores[:2]:
        assert row.min() == 0.0 and row.max() == 1.0
    assert scores[2].tolist() == [0.5]  # a single word


def test_equal_norms_give_a_half():
    batch = linear_batch(5, [[1], [2], [3]])
    for normalisation in ("minmax", "max", "sum"):
        assert word_saliency(Linear([1.0] * 5), batch, "pos_logit", normalisation)[0].tolist() == [0.5] * 3


def test_linear_classifier_scores_are_its_coefficients():
    coefficients = [9.0, 3.0, -1.0, 2.0, -5.0, 7.0]
    words = [[1], [2], [3], [4]]  # positions 0 and 5 stand outside the source
    scores, = word_saliency(Linear(coefficients), linear_batch(6, words), "pos_logit")
    assert scores.tolist() == pytest.approx([(abs(c) - 1) / 4 for c in (3, 1, 2, 5)])
    scores, = word_saliency(Linear(coefficients), linear_batch(6, words), "pos_logit", "max")
    assert scores.tolist() == pytest.approx([3 / 5, 1 / 5, 2 / 5, 1])
    scores, = word_saliency(Linear(coefficients), linear_batch(6, words), "pos_logit", "sum")
    assert scores.tolist() == pytest.approx([3 / 11, 1 / 11, 2 / 11, 5 / 11])


def test_pieces_are_averaged_into_words_and_words_without_pieces_get_zero():
    scores, = word_saliency(Linear([0.0, 1.0, 3.0, 6.0, 4.0]), linear_batch(5, [[1, 2], [], [3], [4]]), "pos_logit")
    assert scores.tolist() == pytest.approx([0.0, 0.0, 1.0, 0.5])  # means 2, none, 6, 4
    only_unaligned, = word_saliency(Linear([1.0, 2.0]), linear_batch(2, [[], []]), "pos_logit")
    assert only_unaligned.tolist() == [0.0, 0.0]
    assert word_saliency(Linear([1.0, 2.0]), linear_batch(2, []), "pos_logit")[0].shape == (0,)


@pytest.mark.parametrize("target", ["pos_logit", "argmax_logit", "logit_diff"])
def test_scaling_the_output_changes_nothing(encode, target):
    classifier = tiny_bert.classifier()
    before = word_saliency(classifier, encode(), target)
    with torch.no_grad():
        classifier.classifier.weight.mul_(3.0)
        classifier.classifier.bias.mul_(3.0)
    for one, other in zip(before, word_saliency(classifier, encode(), target), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_target_words_never_score(encode):
    scores = word_saliency(tiny_bert.classifier(), encode(["dog cat"], ["dog cat run eat play"]), "pos_logit")
    assert [len(row) for row in scores] == [2]


def test_padding_and_company_do_not_matter(encode):
    classifier = tiny_bert.classifier()
    together = word_saliency(classifier, encode(), "pos_logit")
    padded = word_saliency(classifier, encode(pad_to_multiple_of=40), "pos_logit")
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone, = word_saliency(classifier, encode([source], [target]), "pos_logit")
        torch.testing.assert_close(alone, together[row], atol=1e-5, rtol=0)
        torch.testing.assert_close(padded[row], together[row], atol=1e-5, rtol=0)


@pytest.mark.parametrize("target", SWITCHES)
def test_norms_are_the_gradient_by_the_word_embedding(encode, target):
    """Against finite differences on the look-up, position by position, written from the definition."""
    classifier = tiny_bert.classifier().double()
    encoding = encode(SOURCES[1:2], TARGETS[1:2])
    table = classifier.get_input_embeddings()

    def value(shift, position, axis):
        def move(module, arguments, output):
            output = output.clone()
            output[0, position, axis] += shift
            return output
        handle = table.register_forward_hook(move)
        with torch.no_grad():
            logits = classifier(**encoding).logits[0]
        handle.remove()
        return {"pos_logit": logits[1], "argmax_logit": logits.max(), "logit_diff": logits[1] - logits[0],
                "pos_prob": torch.softmax(logits, -1)[1]}[target].item()

    norms = []
    for position in range(1, 6):  # un ##known ' s dog
        slopes = [(value(1e-5, position, axis) - value(-1e-5, position, axis)) / 2e-5 for axis in range(16)]
        norms.append(sum(slope ** 2 for slope in slopes) ** 0.5)
    words = torch.tensor([(norms[0] + norms[1]) / 2, *norms[2:]])
    expected = (words - words.min()) / (words.max() - words.min())
    torch.testing.assert_close(word_saliency(classifier, encoding, target)[0], expected.float(), atol=1e-4, rtol=0)


def test_the_classifier_is_left_as_it_was(encode):
    classifier = tiny_bert.classifier()
    classifier.train()
    classifier.bert.eval()
    encoding = encode()
    with torch.no_grad():  # works inside no_grad, and dropout is off whatever the mode
        first, second = (word_saliency(classifier, encoding, "pos_logit") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert classifier.training and not classifier.bert.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in classifier.parameters())
    assert not classifier.get_input_embeddings()._forward_hooks


def test_unknown_names_are_errors(encode, tokenizer):
    with pytest.raises(ValueError, match="target: no 'logit'; valid names: pos_logit, argmax_logit"):
        word_saliency(Linear([1.0]), linear_batch(1, [[0]]), "logit")
    with pytest.raises(ValueError, match="normalisation: no 'softmax'; valid names: minmax, max, sum"):
        word_saliency(Linear([1.0]), linear_batch(1, [[0]]), "pos_logit", "softmax")
    with pytest.raises(ValueError, match="a fast tokenizer's output"):
        word_saliency(Linear([1.0]), {"input_ids": torch.ones(1, 1)}, "pos_logit")


def test_words_of_a_batch_are_those_of_a_slow_loop():
    generator = np.random.default_rng(3)
    pieces = torch.from_numpy(generator.random((6, 12)))
    words = [[sorted(generator.choice(12, generator.integers(0, 4), replace=False).tolist())
              for _ in range(generator.integers(0, 7))] for _ in range(6)]
    words[2] = [[], []]
    for normalisation in ("minmax", "max", "sum"):
        found = word_scores(pieces, WordPieces.of(words), normalisation)
        for row, line, scores in zip(pieces.tolist(), words, found, strict=True):
            means = [sum(row[place] for place in word) / len(word) if word else None for word in line]
            given = [mean for mean in means if mean is not None]
            assert len(scores) == len(line)
            for mean, score in zip(means, scores.tolist(), strict=True):
                expected = 0.0 if mean is None else 0.5 if max(given) == min(given) else {
                    "minmax": lambda m, g: (m - min(g)) / (max(g) - min(g)), "max": lambda m, g: m / max(g),
                    "sum": lambda m, g: m / sum(g)}[normalisation](mean, given)
                assert score == pytest.approx(expected, rel=1e-6)
    assert WordPieces.of(words).unaligned().tolist() == [sum(not word for word in line) for line in words]


def test_overlaps_are_those_of_a_slow_loop():
    generator = np.random.default_rng(4)
    rows, length = 5, 9

    def cuts(count, least):
        bounds = np.sort(generator.choice(40, 2 * count, replace=False)).reshape(count, 2)
        return bounds + [[0, least]]

    offsets = np.stack([cuts(length, 0) for _ in range(rows)])
    offsets[1, 3] = [7, 7]  # a piece of no characters
    source = generator.random((rows, length)) < 0.8
    words = [cuts(count, 0) for count in (6, 0, 1, 8, 3)]
    found = overlaps(offsets, source, [w[:, 0] for w in words], [w[:, 1] for w in words])
    assert found.counts.tolist() == [6, 0, 1, 8, 3]
    expected = set()
    number = 0
    for row, spans in enumerate(words):
        for start, end in spans:
            expected |= {(number, row, place) for place, (first, last) in enumerate(offsets[row])
                         if source[row, place] and first < last and first < end and start < last}
            number += 1
    assert set(zip(found.word.tolist(), found.row.tolist(), found.position.tolist(), strict=True)) == expected
    assert len(found.word) == len(expected)


def test_certain_answers_keep_their_gradient():
    """p(1-p) of e^-100 has a square that single precision does not hold."""
    classifier = Linear([3.0, -1.0, 2.0, -5.0])
    batch = linear_batch(4, [[0], [1], [2], [3]])
    classifier.scale = 50.0 / classifier(**batch.inputs).logits[0, 1].item()
    norms = piece_norms(classifier, batch.inputs, "pos_prob")[0]
    each = 2 * abs(classifier.scale) * classifier.direction.norm().item() * np.exp(-100)
    assert norms.tolist() == pytest.approx([c * each for c in (3, 1, 2, 5)], rel=1e-4, abs=0)
