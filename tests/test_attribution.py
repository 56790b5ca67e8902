"""Attribution (PGKPR eq. 1) and its readings: against definitions and slow loops, on a tiny BERT."""


import numpy as np
import pytest
import tiny_bert
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from models.keywords.attribution import WordPieces, overlaps, piece_norms, word_saliency, word_scores

SOURCES = ["what is the best way to learn a new language", "unknown's dog", "cat"]
TARGETS = ["how do i learn language fast ?", "a cat", "what"]


def word_pieces(words):
    """WordPieces of lists: per row, per word, the positions of its pieces."""
    flat = [(number, row, position) for number, (row, pieces) in enumerate(
        (row, pieces) for row, line in enumerate(words) for pieces in line) for position in pieces]
    return WordPieces(np.array([len(line) for line in words]), *np.array(flat, dtype=np.int64).reshape(-1, 3).T)


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


@pytest.mark.parametrize("target", ["pos_logit", "argmax_logit"])
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
        return {"pos_logit": logits[1], "argmax_logit": logits.max()}[target].item()

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
    for row, line, scores in zip(pieces.tolist(), words, word_scores(pieces, word_pieces(words)), strict=True):
        means = [sum(row[place] for place in word) / len(word) if word else None for word in line]
        given = [mean for mean in means if mean is not None]
        assert len(scores) == len(line)
        for mean, score in zip(means, scores.tolist(), strict=True):
            expected = 0.0 if mean is None else 0.5 if max(given) == min(given) else (
                (mean - min(given)) / (max(given) - min(given)))
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


def largest_difference(one, other):
    return max((a - b).abs().max().item() for a, b in zip(one, other, strict=True))


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


@pytest.mark.parametrize("model_type", ["roberta", "albert"])
def test_networks_of_another_build_do_not_mind_company(tokenizer, encoding, model_type):
    network = other_build(model_type)
    together = word_saliency(network, encoding)
    alone = word_saliency(network, tokenizer(SOURCES[:1], TARGETS[:1], return_tensors="pt"))
    assert largest_difference(together[:1], alone) < 1e-5
    assert together[0].max() == 1.0 and together[0].min() == 0.0
