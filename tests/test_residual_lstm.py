"""Residual-LSTM: the rule of its additions, last states of padded texts, and its attention."""

import pytest
import torch
from recurrent_cases import batch, model, peaked
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from models.common import PAD
from models.pgkpr.rewriters import LstmStack, attend


def stack(layers=4, residual_every=2, width=6):
    torch.manual_seed(0)
    return LstmStack(width, layers, residual_every, dropout=0.0)


def read_by(some, inputs, lengths):
    """Outputs (B, L, d) and last states of embedded texts (B, L, d)."""
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    outputs, state = some(packed.data, packed=packed)
    return pad_packed_sequence(PackedSequence(outputs, *packed[1:]), batch_first=True)[0], state


@pytest.mark.parametrize(("layers", "residual_every"), [(4, 2), (2, 2), (3, 1), (6, 3), (1, 1)])
def test_without_weights_a_stack_returns_its_input(layers, residual_every):
    silent = stack(layers, residual_every)
    for parameter in silent.parameters():
        parameter.data.zero_()
    inputs, lengths = torch.randn(3, 5, 6), torch.tensor([5, 2, 3])
    outputs, state = silent(inputs)
    assert torch.equal(outputs, inputs)
    assert all(not part.any() for pair in state for part in pair)
    read, _ = read_by(silent, inputs, lengths)
    for row, length in enumerate(lengths):
        assert torch.equal(read[row, :length], inputs[row, :length])


@pytest.mark.parametrize(("layers", "residual_every"), [(4, 2), (5, 2), (3, 1), (4, 3), (2, 5)])
def test_the_input_of_every_nth_layer_is_added_behind_it(layers, residual_every):
    """x^(l+1) = h^(l) + x^(l+1-n) behind every n-th layer, h^(l) else; l counts from 1."""
    some, inputs = stack(layers, residual_every), torch.randn(2, 4, 6)
    x = {1: inputs}
    for number, layer in enumerate(some.layers, start=1):
        h, _ = layer(x[number])
        x[number + 1] = h + x[number + 1 - residual_every] if number % residual_every == 0 else h
    torch.testing.assert_close(some(inputs)[0], x[layers + 1])


def test_last_states_are_those_after_the_last_word():
    some, inputs, lengths = stack(), torch.randn(4, 5, 6), torch.tensor([2, 5, 1, 4])
    outputs, state = read_by(some, inputs, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, own = some(inputs[row:row + 1, :length])
        torch.testing.assert_close(outputs[row:row + 1, :length], alone)
        for found, expected in zip(state, own, strict=True):
            for part, other in zip(found, expected, strict=True):
                torch.testing.assert_close(part[:, row], other[:, 0])


def test_dropout_is_of_outputs_and_leaves_states_and_additions_whole():
    torch.manual_seed(0)
    some, inputs = LstmStack(64, 1, 1, dropout=0.5), torch.randn(8, 3, 64)
    whole, state = some.eval()(inputs)
    drawn, again = some.train()(inputs)
    for found, expected in zip(again[0], state[0], strict=True):
        torch.testing.assert_close(found, expected)
    gone = (drawn - inputs).abs() < 1e-7
    assert 0.4 < gone.float().mean() < 0.6
    torch.testing.assert_close((drawn - inputs)[~gone], 2 * (whole - inputs)[~gone], rtol=1e-4, atol=1e-5)


def test_attention_is_a_softmax_of_dot_products_over_real_slots():
    queries, memory = torch.randn(2, 3, 4).double(), torch.randn(2, 5, 4).double()
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    found, scaled = attend(queries, memory, mask, scale=1.0), attend(queries, memory)
    for b in range(2):
        for q in range(3):
            places = mask[b].nonzero().flatten().tolist()
            weights = torch.stack([queries[b, q] @ memory[b, s] for s in places]).softmax(0)
            expected = sum(weight * memory[b, s] for weight, s in zip(weights, places, strict=True))
            torch.testing.assert_close(found[b, q], expected)
            weights = (memory[b] @ queries[b, q] / 2).softmax(0)  # the root of 4
            torch.testing.assert_close(scaled[b, q], weights @ memory[b])


def test_the_network_equals_its_equations():
    rewriter, content = peaked("residual_lstm"), batch(3)
    with torch.no_grad():
        found = rewriter.sums(content, None)["generation"].item()
        total = 0.0
        for row, length in enumerate(content["x_lengths"].tolist()):
            read, state = rewriter.encoder(rewriter.embedding(content["x_ids"][row:row + 1, :length]))
            for token, target in zip(content["y_in"][row], content["y_out"][row], strict=True):
                if target == PAD:
                    break
                h, state = rewriter.decoder(rewriter.embedding(token.view(1, 1)), state)
                c = (h[0] @ read[0].T).softmax(-1) @ read[0]
                h = torch.tanh(rewriter.combine.weight @ torch.cat([c[0], h[0, 0]]))
                total -= rewriter.words(h.flatten()).log_softmax(-1)[target].item()
    assert found == pytest.approx(total, rel=1e-5)


def test_weights_begin_within_their_bounds():
    rewriter = model("residual_lstm", width=32)
    for name, parameter in rewriter.named_parameters():
        assert parameter.abs().max() <= 0.1, name
        assert parameter.abs().max() > 0.08, name
    assert not rewriter.embedding.weight[PAD].any()
