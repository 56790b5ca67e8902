"""Attribution (PGKPR eq. 1) and its readings: against definitions, slow loops and captum, on a tiny BERT."""

from types import SimpleNamespace

import numpy as np
import pytest
import tiny_bert
import torch
from captum.attr import IntegratedGradients
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification

from models.keywords.attribution import (
    SaliencyBatch,
    WordPieces,
    as_batch,
    overlaps,
    piece_attributions,
    piece_norms,
    word_saliency,
    word_scores,
)

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


def word_pieces(words):
    """WordPieces of lists: per row, per word, the positions of its pieces."""
    flat = [(number, row, position) for number, (row, pieces) in enumerate(
        (row, pieces) for row, line in enumerate(words) for pieces in line) for position in pieces]
    return WordPieces(np.array([len(line) for line in words]), *np.array(flat, dtype=np.int64).reshape(-1, 3).T)


def linear_batch(length, words):
    return SaliencyBatch({"input_ids": torch.arange(length).unsqueeze(0) + 3,
                          "attention_mask": torch.ones(1, length)}, word_pieces([words]))


@pytest.fixture
def tokenizer(tmp_path):
    return tiny_bert.tokenizer(tmp_path)


@pytest.fixture
def encoding(tokenizer):
    return tokenizer(SOURCES, TARGETS, return_tensors="pt", padding=True)


@pytest.fixture
def classifier():
    return tiny_bert.classifier()


@pytest.fixture
def encode(tokenizer):
    def encoded(sources=SOURCES, targets=TARGETS, **options):
        return tokenizer(list(sources), list(targets), return_tensors="pt", padding=True, **options)
    return encoded


def test_linear_classifier_scores_are_its_coefficients():
    coefficients = [9.0, 3.0, -1.0, 2.0, -5.0, 7.0]
    words = [[1], [2], [3], [4]]  # positions 0 and 5 stand outside the source
    scores, = word_saliency(Linear(coefficients), linear_batch(6, words), "pos_logit")
    assert scores.tolist() == pytest.approx([(abs(c) - 1) / 4 for c in (3, 1, 2, 5)])


@pytest.mark.parametrize("target", SWITCHES)
def test_norms_are_the_gradient_by_the_word_embedding(encode, target):
    """PGKPR eq. 1 against finite differences on the look-up, position by position."""
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


def test_words_of_a_batch_are_those_of_a_slow_loop():
    generator = np.random.default_rng(3)
    pieces = torch.from_numpy(generator.random((6, 12)))
    words = [[sorted(generator.choice(12, generator.integers(0, 4), replace=False).tolist())
              for _ in range(generator.integers(0, 7))] for _ in range(6)]
    words[2] = [[], []]
    for normalisation in ("minmax", "max", "sum"):
        found = word_scores(pieces, word_pieces(words), normalisation)
        for row, line, scores in zip(pieces.tolist(), words, found, strict=True):
            means = [sum(row[place] for place in word) / len(word) if word else None for word in line]
            given = [mean for mean in means if mean is not None]
            assert len(scores) == len(line)
            for mean, score in zip(means, scores.tolist(), strict=True):
                expected = 0.0 if mean is None else 0.5 if max(given) == min(given) else {
                    "minmax": lambda m, g: (m - min(g)) / (max(g) - min(g)), "max": lambda m, g: m / max(g),
                    "sum": lambda m, g: m / sum(g)}[normalisation](mean, given)
                assert score == pytest.approx(expected, rel=1e-6)
    assert word_pieces(words).unaligned().tolist() == [sum(not word for word in line) for line in words]


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


def largest_difference(one, other):
    return max((a - b).abs().max().item() for a, b in zip(one, other, strict=True))


def embedded(classifier, ids):
    return classifier.get_input_embeddings()(ids).detach()


def answer(classifier, encoding):
    """What captum is given: the classifier as a function of the word embeddings."""
    rest = {name: encoding[name] for name in ("attention_mask", "token_type_ids")}

    def logits(embeddings):
        count = len(embeddings) // len(encoding["input_ids"])  # captum puts the points of the path one after another
        return classifier(inputs_embeds=embeddings, **{name: value.repeat(count, 1)
                                                       for name, value in rest.items()}).logits
    return logits


# --- the gradient and its switches ---


def released_norms(classifier, encoding):
    """The released code's steps, one at a time: the second pass alone drops the types."""
    part, ids, types = classifier.bert.embeddings, encoding["input_ids"], encoding["token_type_ids"]
    summed = (part.word_embeddings(ids) + part.token_type_embeddings(types)
              + part.position_embeddings(torch.arange(ids.shape[1])))
    block = part.LayerNorm(summed).detach().requires_grad_()
    logits = classifier(inputs_embeds=block, attention_mask=encoding["attention_mask"]).logits
    first = logits[0].argmax()
    gradient, = torch.autograd.grad(logits[:, first].sum(), block)
    return gradient.norm(dim=-1)


def test_released_switches_do_what_the_released_code_does(classifier, encoding):
    with torch.no_grad():
        classifier.bert.embeddings.token_type_embeddings.weight.normal_(std=2.0)  # so that each type is seen
        logits = classifier(**encoding).logits
        classifier.classifier.bias[1] -= (logits[:, 1] - logits[:, 0])[:2].mean()  # so that classes differ
    found = piece_norms(classifier, dict(encoding), "argmax_logit", released_bugs=True)
    torch.testing.assert_close(found.float(), released_norms(classifier, encoding), atol=1e-6, rtol=1e-5)
    one_type = {**encoding, "token_type_ids": torch.zeros_like(encoding["token_type_ids"])}
    assert (found - released_norms(classifier, one_type)).abs().max() > 1e-3


def other_build(model_type):
    """RoBERTa counts positions from the ids, which the look-up keeps in sight; ALBERT's embeddings are narrower."""
    torch.manual_seed(0)
    narrow = {"embedding_size": 8} if model_type == "albert" else {}
    config = AutoConfig.for_model(
        model_type, vocab_size=len(tiny_bert.VOCABULARY), hidden_size=16, num_hidden_layers=1, pad_token_id=0,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=64, num_labels=2, type_vocab_size=2,
        initializer_range=0.3, **narrow)
    return AutoModelForSequenceClassification.from_config(config).eval()


@pytest.mark.parametrize("method", ["gradient", "integrated_gradients"])
@pytest.mark.parametrize("model_type", ["roberta", "albert"])
def test_networks_of_another_build_do_not_mind_company(tokenizer, encoding, model_type, method):
    network = other_build(model_type)
    together = word_saliency(network, encoding, method=method, steps=5)
    alone = word_saliency(network, tokenizer(SOURCES[:1], TARGETS[:1], return_tensors="pt"), method=method, steps=5)
    assert largest_difference(together[:1], alone) < 1e-5
    assert together[0].max() == 1.0 and together[0].min() == 0.0


# --- integrated gradients ---


def blanks(encoding, batch):
    return torch.where(batch.special, encoding["input_ids"], torch.zeros_like(encoding["input_ids"]))


@pytest.mark.parametrize("rows", [None, 4])
def test_integrated_gradients_are_captums(classifier, encoding, rows):
    batch = as_batch(encoding)
    reference = embedded(classifier, blanks(encoding, batch))
    words = embedded(classifier, encoding["input_ids"])
    peer = IntegratedGradients(answer(classifier, encoding)).attribute(words, reference, target=1, n_steps=12)
    found = piece_attributions(classifier, batch, steps=12, rows=rows)
    torch.testing.assert_close(found.float(), peer.sum(-1).float(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("target", SWITCHES)
def test_integrated_gradients_are_complete(classifier, encoding, target):
    """They sum to f(text) - f(blanks), and special tokens and padding have no part in it."""
    classifier = classifier.double()
    batch = as_batch(encoding)
    found = piece_attributions(classifier, batch, target, steps=128)

    def f(ids, classes=None):
        given = {**encoding, "input_ids": ids}
        logits = classifier(**given).logits
        classes = logits.argmax(-1) if classes is None else classes
        return {"pos_logit": logits[:, 1], "argmax_logit": logits[torch.arange(3), classes],
                "logit_diff": logits[:, 1] - logits[:, 0], "pos_prob": logits.softmax(-1)[:, 1]}[target], classes

    with torch.no_grad():
        at_text, classes = f(encoding["input_ids"])
        at_blanks, _ = f(blanks(encoding, batch), classes)
    torch.testing.assert_close(found.sum(1), at_text - at_blanks, atol=1e-5, rtol=1e-4)
    assert not found[batch.special].any() and found[~batch.special].abs().min() > 0


def test_integrated_scores_are_means_of_absolute_attributions(classifier, encoding):
    pieces = piece_attributions(classifier, encoding, steps=6)
    scores = word_saliency(classifier, encoding, "pos_logit", "sum", method="integrated_gradients", steps=6)
    absolute = pieces[1].abs()
    words = torch.stack([absolute[1:3].mean(), *absolute[3:6]])  # un ##known ' s dog
    torch.testing.assert_close(scores[1], (words / words.sum()).float())
    assert (pieces < 0).any()


@pytest.mark.parametrize("method", ["gradient", "integrated_gradients"])
def test_scores_do_not_depend_on_company_padding_or_rows(classifier, tokenizer, method):
    def scores(sources, targets, **options):
        rows = options.pop("rows", None)
        encoded = tokenizer(sources, targets, return_tensors="pt", padding=True, **options)
        return word_saliency(classifier, encoded, method=method, steps=9, rows=rows)

    together = scores(SOURCES, TARGETS)
    assert largest_difference(together, scores(SOURCES, TARGETS, pad_to_multiple_of=40)) < 1e-5
    assert largest_difference(together, scores(SOURCES, TARGETS, rows=5)) < 1e-5
    for row, pair in enumerate(zip(SOURCES, TARGETS, strict=True)):
        assert largest_difference([together[row]], scores(*([text] for text in pair))) < 1e-5


# --- integrated Jacobians ---
