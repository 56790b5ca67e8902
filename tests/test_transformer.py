"""Transformers: our pass through BERT against the library's, what is joined for it, and models whose pass it is not."""

import pytest
import tiny_hcl
import torch
from transformers import AlbertConfig, AlbertModel, BertForSequenceClassification, BertModel

from models.common.encoders import freeze_lower_layers
from models.common.transformer import (
    DecoderLayer,
    Embedder,
    Encoder,
    Heads,
    RealTokens,
    bert_states,
    encode,
    is_plain_bert,
    joined_by_layer,
    masking,
)
from models.hcl.hcl import TiedOutput, memory_keys_values
from models.keywords.pair_classifier import pair_logits


def bert(kind=BertModel, **changes):
    torch.manual_seed(0)
    built = kind(tiny_hcl.encoder_config(type_vocab_size=2, **changes))
    built.config._attn_implementation = "sdpa"
    return built.eval()


def tokens():
    ids, mask = tiny_hcl.padded([[2, 7, 8, 9, 3], [2, 6, 3], [2, 5, 11, 3]])
    return ids, mask, (torch.arange(ids.shape[1]) > 1).long().expand_as(ids)


@pytest.mark.parametrize("training", [False, True])
def test_states_and_gradients_are_those_of_the_library(training):
    model, (ids, mask, types) = bert().train(training), tokens()

    def run(own):
        model.zero_grad()
        torch.manual_seed(1)  # dropout draws the same in both
        states = (bert_states(model, ids, mask, types) if own else
                  model(input_ids=ids, attention_mask=mask.long(), token_type_ids=types).last_hidden_state)
        (states * mask.unsqueeze(-1) * torch.linspace(-1, 2, tiny_hcl.WIDTH)).sum().backward()
        return [states[mask], *(p.grad for p in model.parameters() if p.grad is not None)]

    for own, theirs in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(own, theirs, atol=1e-5, rtol=1e-4)


def test_without_gradients_and_without_segments_states_are_the_same():
    model, (ids, mask, _) = bert(), tokens()
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        torch.testing.assert_close(encode(model, ids, mask)[mask], expected[mask], atol=1e-5, rtol=1e-4)
    assert is_plain_bert(model)


def test_frozen_layers_have_no_graph_and_change_no_state():
    model, (ids, mask, _) = bert(), tokens()
    expected = bert_states(model, ids, mask)
    freeze_lower_layers(model, 1)
    torch.testing.assert_close(bert_states(model, ids, mask), expected)
    projections = [(part.query, part.key, part.value) for part in (layer.attention.self for layer in
                                                                   model.encoder.layer)]
    assert [weight.requires_grad for weight, _ in joined_by_layer(projections)] == [False, True]


def test_a_pair_classifier_gives_the_logits_of_the_library():
    classifier, (ids, mask, types) = bert(BertForSequenceClassification, num_labels=2), tokens()
    batch = {"input_ids": ids, "attention_mask": mask.long(), "token_type_ids": types}
    torch.testing.assert_close(pair_logits(classifier, batch), classifier(**batch).logits, atol=1e-5, rtol=1e-4)


def test_other_models_keep_the_librarys_pass():
    ids, mask, _ = tokens()
    albert = AlbertModel(AlbertConfig(vocab_size=30, embedding_size=8, hidden_size=16, num_attention_heads=2,
                                      intermediate_size=32, num_hidden_layers=2)).eval()
    expected = albert(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(encode(albert, ids, mask), expected)
    assert not is_plain_bert(albert) and not is_plain_bert(bert(hidden_act="relu"))


def test_the_memory_of_all_layers_in_one_product_is_that_of_each():
    layers, memory, heads = [DecoderLayer(16, 2, 32, 0.0) for _ in range(3)], torch.randn(2, 5, 16), Heads(2)
    for layer, found in zip(layers, memory_keys_values(layers, memory, heads, None), strict=True):
        for one, of in zip(found, (layer.cross_attention.key, layer.cross_attention.value), strict=True):
            (expected,) = heads.split(of(memory), 1)
            torch.testing.assert_close(one, expected, atol=1e-6, rtol=1e-5)


def test_words_that_pad_the_vocabulary_have_no_part_in_a_loss():
    words, states = torch.randn(30, 16, requires_grad=True), torch.randn(4, 16)
    output, targets = TiedOutput(30), torch.tensor([0, 3, 29, 7])

    def loss(multiple):
        logits = output(states, torch.nn.functional.pad(words, (0, 0, 0, -30 % multiple)))
        assert logits.shape == (4, 64 if multiple == 64 else 30)
        value = torch.nn.functional.cross_entropy(logits, targets)
        return [value, *torch.autograd.grad(value, [words, output.bias])]

    for found, expected in zip(loss(64), loss(1), strict=True):
        torch.testing.assert_close(found, expected)


SIZES = {"width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0, "layers": 2}
REAL = {"some": [[True, True, False], [True, False, False]], "all": [[True, True], [True, True]]}


@pytest.mark.parametrize("which", REAL)
@pytest.mark.parametrize("parts", [1, 3])
def test_heads_of_rows_are_those_of_the_padded_batch(which, parts):
    real = torch.tensor(REAL[which])
    tokens, dense = RealTokens(real), torch.randn(*real.shape, parts * 6)
    for found, expected in zip(Heads(3, tokens).split(tokens.rows(dense), parts), Heads(3).split(dense, parts),
                               strict=True):
        assert torch.equal(found.transpose(1, 2)[real], expected.transpose(1, 2)[real])
        by_token = expected.transpose(1, 2).contiguous().transpose(1, 2)  # as fused kernels leave it
        for drawn in (expected.contiguous(), by_token):
            assert torch.equal(Heads(3, tokens).joined(drawn), tokens.rows(Heads(3).joined(expected)))


def test_an_encoder_computes_on_rows_what_it_would_on_each_text_alone():
    torch.manual_seed(0)
    embedder, encoder = Embedder(20, 8, 0.0), Encoder(SIZES)
    ids, real = torch.randint(20, (3, 5)), torch.arange(5) < torch.tensor([[5], [2], [3]])

    def states(ids, real):
        tokens = RealTokens(real)
        bias = masking(real, embedder.words.weight)[:, None, None]
        return tokens.padded(encoder(embedder, tokens.rows(ids), Heads(2, tokens), bias))

    together = states(ids, real)
    for row in range(3):
        length = int(real[row].sum())
        alone = states(ids[[row], :length], real[[row], :length])
        torch.testing.assert_close(together[row, :length], alone[0], atol=1e-5, rtol=1e-5)
