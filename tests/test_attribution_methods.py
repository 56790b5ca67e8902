"""The readings of PGKPR eq. 1, integrated gradients and the Siamese method, against captum and the definitions."""


import pytest
import tiny_bert
import torch
from captum.attr import IntegratedGradients, Saliency
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from models.keywords.attribution import (
    SaliencyBatch,
    from_encoding,
    piece_attributions,
    piece_norms,
    siamese_attributions,
    siamese_saliency,
    word_saliency,
)
from models.keywords.attribution.gradients import nodes

SOURCES = ["what is the best way to learn a new language", "unknown's dog", "cat"]
TARGETS = ["how do i learn language fast ?", "a cat", "what"]
SWITCHES = ["pos_logit", "argmax_logit", "logit_diff", "pos_prob"]


@pytest.fixture
def tokenizer(tmp_path):
    return tiny_bert.tokenizer(tmp_path)


@pytest.fixture
def encoding(tokenizer):
    return tokenizer(SOURCES, TARGETS, return_tensors="pt", padding=True)


@pytest.fixture
def classifier():
    return tiny_bert.classifier()


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


def test_gradient_norms_are_captums(classifier, encoding):
    logits = answer(classifier, encoding)
    words = embedded(classifier, encoding["input_ids"]).requires_grad_()
    for target, wanted in (("pos_logit", 1), ("argmax_logit", logits(words).argmax(-1))):
        peer = Saliency(logits).attribute(words, target=wanted, abs=False).norm(dim=-1)
        torch.testing.assert_close(piece_norms(classifier, encoding, target).float(), peer, atol=1e-5, rtol=1e-5)


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


RELEASED = {"argmax_of": "first_row", "embedding": "block_output", "token_types": False}


def test_released_switches_do_what_the_released_code_does(classifier, encoding):
    with torch.no_grad():
        classifier.bert.embeddings.token_type_embeddings.weight.normal_(std=2.0)  # so that each type is seen
    found = piece_norms(classifier, dict(encoding), "argmax_logit", **RELEASED)
    torch.testing.assert_close(found.float(), released_norms(classifier, encoding), atol=1e-6, rtol=1e-5)
    one_type = {**encoding, "token_type_ids": torch.zeros_like(encoding["token_type_ids"])}
    assert (found - released_norms(classifier, one_type)).abs().max() > 1e-3


def test_first_row_takes_its_class_for_all(classifier, encoding):
    with torch.no_grad():
        logits = classifier(**encoding).logits
        classifier.classifier.bias[1] -= (logits[:, 1] - logits[:, 0])[:2].mean()
        classes = classifier(**encoding).logits.argmax(-1).tolist()
    assert classes[0] != classes[1]
    own, first, positive = (word_saliency(classifier, encoding, target, argmax_of=whose) for target, whose in
                            (("argmax_logit", "row"), ("argmax_logit", "first_row"), ("pos_logit", "row")))
    assert torch.equal(own[0], first[0]) and largest_difference(own[1:2], first[1:2]) > 1e-3
    positive_row = 0 if classes[0] == 1 else 1
    torch.testing.assert_close(own[positive_row], positive[positive_row])


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


def test_a_network_without_an_embedding_block_is_an_error(classifier, encoding):
    class Bare(nn.Module):
        def get_input_embeddings(self):
            return classifier.get_input_embeddings()

    with pytest.raises(ValueError, match="embedding: Bare has no embedding block to take the output of; use lookup"):
        word_saliency(Bare(), encoding, embedding="block_output")


# --- integrated gradients ---


def blanks(encoding, batch):
    return torch.where(batch.special, encoding["input_ids"], torch.zeros_like(encoding["input_ids"]))


@pytest.mark.parametrize("rows", [None, 1, 4, 7])
def test_integrated_gradients_are_captums(classifier, encoding, rows):
    batch = from_encoding(encoding)
    reference = embedded(classifier, blanks(encoding, batch))
    words = embedded(classifier, encoding["input_ids"])
    peer = IntegratedGradients(answer(classifier, encoding)).attribute(words, reference, target=1, n_steps=12)
    found = piece_attributions(classifier, batch, steps=12, rows=rows)
    torch.testing.assert_close(found.float(), peer.sum(-1).float(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("embedding", ["lookup", "block_output"])
@pytest.mark.parametrize("target", SWITCHES)
def test_integrated_gradients_are_complete(classifier, encoding, target, embedding):
    """They sum to f(text) - f(blanks), and special tokens and padding have no part in it."""
    classifier = classifier.double()
    batch = from_encoding(encoding)
    found = piece_attributions(classifier, batch, target, embedding=embedding, steps=128)

    def f(ids, classes=None):
        given = {**encoding, "input_ids": ids}
        if embedding == "block_output":
            block = classifier.bert.embeddings(ids, given["token_type_ids"])
            given = {"inputs_embeds": block, **{name: given[name] for name in ("attention_mask", "token_type_ids")}}
        logits = classifier(**given).logits
        classes = logits.argmax(-1) if classes is None else classes
        return {"pos_logit": logits[:, 1], "argmax_logit": logits[torch.arange(3), classes],
                "logit_diff": logits[:, 1] - logits[:, 0], "pos_prob": logits.softmax(-1)[:, 1]}[target], classes

    with torch.no_grad():
        at_text, classes = f(encoding["input_ids"])
        at_blanks, _ = f(blanks(encoding, batch), classes)
    torch.testing.assert_close(found.sum(1), at_text - at_blanks, atol=1e-5, rtol=1e-4)
    assert not found[batch.special].any() and found[~batch.special].abs().min() > 0


def test_the_points_of_a_path_are_those_of_gauss_and_legendre():
    places, weights = nodes(1)
    assert places.tolist() == [0.5] and weights.tolist() == [1.0]
    places, weights = nodes(7)
    for power in range(14):
        assert sum(weights * places ** power) == pytest.approx(1 / (power + 1))
    with pytest.raises(ValueError, match="steps: a path needs at least one point, not 0"):
        nodes(0)


def test_integrated_scores_are_means_of_absolute_attributions(classifier, encoding):
    pieces = piece_attributions(classifier, encoding, steps=6)
    scores = word_saliency(classifier, encoding, "pos_logit", "sum", method="integrated_gradients", steps=6)
    absolute = pieces[1].abs()
    words = torch.stack([absolute[1:3].mean(), *absolute[3:6]])  # un ##known ' s dog
    torch.testing.assert_close(scores[1], (words / words.sum()).float())
    assert (pieces < 0).any()


def test_paths_do_not_depend_on_company_padding_or_rows(classifier, tokenizer):
    def scores(sources, targets, **options):
        rows = options.pop("rows", None)
        encoded = tokenizer(sources, targets, return_tensors="pt", padding=True, **options)
        return word_saliency(classifier, encoded, method="integrated_gradients", steps=9, rows=rows)

    together = scores(SOURCES, TARGETS)
    assert largest_difference(together, scores(SOURCES, TARGETS, pad_to_multiple_of=40)) < 1e-5
    assert largest_difference(together, scores(SOURCES, TARGETS, rows=5)) < 1e-5
    for row, pair in enumerate(zip(SOURCES, TARGETS, strict=True)):
        assert largest_difference([together[row]], scores(*([text] for text in pair))) < 1e-5


def test_a_path_without_a_reference_is_an_error(classifier, encoding):
    bare = SaliencyBatch(dict(encoding), [[[1]], [[1]], [[1]]])
    with pytest.raises(ValueError, match=r"reference text to start from, and which pieces are special"):
        word_saliency(classifier, bare, method="integrated_gradients")
    classifier.config.pad_token_id = None
    with pytest.raises(ValueError, match=r"and the id of \[PAD\] is not known"):
        word_saliency(classifier, encoding, method="integrated_gradients")


def test_unknown_switches_are_errors(classifier, encoding):
    for changes, message in (({"method": "lime"}, "method: no 'lime'; valid names: gradient, integrated_gradients"),
                             ({"argmax_of": "last"}, "argmax_of: no 'last'; valid names: row, first_row"),
                             ({"embedding": "output"}, "embedding: no 'output'; valid names: lookup, block_output")):
        with pytest.raises(ValueError, match=message):
            word_saliency(classifier, encoding, **changes)


# --- integrated Jacobians ---


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return AutoModel.from_config(tiny_bert.config(initializer_range=0.3), add_pooling_layer=False).eval().double()


def one(tokenizer, text):
    return tokenizer([text], return_tensors="pt")


def full_jacobian(encoder, encoded, similarity, steps):
    """(e - r)_i J_i for every piece i, (L, d): the integral of the whole Jacobian, output by output."""
    batch = from_encoding(encoded)
    table = encoder.get_input_embeddings().weight
    end, begin = (table[ids[0]].detach() for ids in (encoded["input_ids"], blanks(encoded, batch)))
    total = 0
    for place, weight in zip(*nodes(steps), strict=True):
        def g(embeddings):
            hidden = encoder(inputs_embeds=embeddings[None], attention_mask=encoded["attention_mask"])[0]
            pooled = hidden.mean(1)[0]
            return pooled / pooled.norm() if similarity == "cosine" else pooled
        jacobian = torch.autograd.functional.jacobian(g, begin + place * (end - begin))  # (d, L, D)
        total = total + weight * torch.einsum("olk,lk->lo", jacobian, end - begin)
    return total


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_siamese_rows_sum_the_attribution_matrix(encoder, tokenizer, similarity):
    a, b = (one(tokenizer, text) for text in ("what is the best way", "how do i learn"))
    matrix = (full_jacobian(encoder, a, similarity, 100) @ full_jacobian(encoder, b, similarity, 100).T).float()
    found = siamese_attributions(encoder, a, b, similarity=similarity, steps=100)[0]
    assert matrix.shape == (7, 6) and not matrix[:, [0, -1]].any()  # the special pieces
    torch.testing.assert_close(found.float(), matrix.sum(1), atol=1e-5, rtol=1e-4)


def test_siamese_scores_are_probabilities_of_the_source_words(encoder, tokenizer):
    encoder = encoder.float()
    encoded = [tokenizer(texts, return_tensors="pt", padding=True) for texts in (SOURCES, TARGETS)]
    scores = siamese_saliency(encoder, *encoded, steps=8)
    assert [len(row) for row in scores] == [10, 4, 1] and scores[2].tolist() == [0.5]
    for row in scores[:2]:
        assert row.min() == 0.0 and row.max() == 1.0
    padded = [tokenizer(texts, return_tensors="pt", padding="max_length", max_length=20) for texts in
              (SOURCES, TARGETS)]
    assert largest_difference(scores, siamese_saliency(encoder, *padded, steps=8, rows=5)) < 1e-5
    alone = siamese_saliency(encoder, *(one(tokenizer, text) for text in (SOURCES[0], TARGETS[0])), steps=8)
    assert largest_difference(scores[:1], alone) < 1e-5
    assert all(parameter.grad is None and parameter.requires_grad for parameter in encoder.parameters())


def test_an_unknown_similarity_is_an_error(encoder, tokenizer):
    with pytest.raises(ValueError, match="similarity: no 'euclid'; valid names: cosine, dot"):
        siamese_saliency(encoder, one(tokenizer, "dog"), one(tokenizer, "cat"), similarity="euclid")
