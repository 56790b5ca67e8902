"""Latent bag of words: its loss, bags, memory and decoder against their formulas."""


import pytest
import torch
from recurrent_cases import VOCABULARY, batch, model, peaked

from models.common import PAD
from models.common.losses import bag_of_words


def read(rewriter, content):
    """Outputs of the encoder (B, L, d), which are real (B, L), and the bags of a batch."""
    outputs, _, real = rewriter.read(content)
    return outputs, real, rewriter.bags(outputs, real)


def test_loss_equals_a_loop_and_so_does_its_gradient():
    random = torch.Generator().manual_seed(0)
    bag = (3 * torch.rand(4, 9, generator=random, dtype=torch.float64)).requires_grad_()
    words = torch.tensor([[3, 5, 8], [1, 0, 0], [0, 0, 0], [7, 2, 0]])
    expected = []
    for row, targets in enumerate([[3, 5, 8], [1], [], [7, 2]]):
        cost = bag.new_zeros(())
        for word in targets:
            cost = cost - torch.log(bag[row, word] + 1e-6)
        expected.append(cost / (len(targets) + 1))
    found = bag_of_words(bag, words, words != 0)
    torch.testing.assert_close(found, torch.stack(expected))
    gradients = [torch.autograd.grad(values.sum(), bag)[0] for values in (found, torch.stack(expected))]
    torch.testing.assert_close(*gradients)


def test_a_bag_is_the_sum_of_softmaxes_of_real_words():
    rewriter, content = peaked("latent_bow"), batch()
    outputs, _, found = read(rewriter, content)
    for row, length in enumerate(content["x_lengths"].tolist()):
        total = torch.zeros(VOCABULARY)
        for place in range(length):
            for turn, predict in zip(rewriter.turn, rewriter.predict, strict=True):
                total = total + predict(turn(outputs[row, place])).softmax(-1)
        torch.testing.assert_close(found.plain[row], total)
    assert found.memory is found.plain


def test_gumbel_counts_likeliest_words_when_decoding():
    rewriter, content = peaked("latent_bow", gumbel=True), batch()
    outputs, _, found = read(rewriter, content)
    for row, length in enumerate(content["x_lengths"].tolist()):
        total = torch.zeros(VOCABULARY)
        for turn, predict in zip(rewriter.turn, rewriter.predict, strict=True):
            named = predict(turn(outputs[row, :length])).argmax(-1)
            total += torch.bincount(named, minlength=VOCABULARY)
        torch.testing.assert_close(found.memory[row], total)
    assert (read(rewriter, content)[2].memory == found.memory).all()


@pytest.mark.parametrize("gumbel", [False, True])
def test_memory_holds_the_largest_words_scaled_by_their_bag(gumbel):
    rewriter, content = peaked("latent_bow", gumbel=gumbel), batch()
    _, _, found = read(rewriter, content)
    words, memory = rewriter.remember(found)
    assert words.shape == (5, 4) and memory.shape == (5, 4, 16)
    for row in range(5):
        assert len(set(words[row].tolist())) == 4
        outside = [word for word in range(VOCABULARY) if word not in words[row].tolist()]
        assert found.memory[row, words[row]].min() >= found.memory[row, outside].max() - 1e-5
        for place, word in enumerate(words[row].tolist()):
            expected = rewriter.embedding.weight[word] * found.memory[row, word]
            torch.testing.assert_close(memory[row, place], expected)


def test_equal_counts_are_taken_in_the_order_of_the_plain_bag():
    rewriter = peaked("latent_bow", gumbel=True, memory=2)
    with torch.no_grad():
        for number, predict in enumerate(rewriter.predict):  # each names one word, always: 9, 12 and 20
            predict.weight.zero_()
            predict.bias.zero_()
            predict.bias[(9, 12, 20)[number]] = (4.0, 9.0, 6.0)[number]
    _, _, found = read(rewriter, batch())
    words, _ = rewriter.remember(found)
    assert words.tolist() == [[12, 20]] * 5
    torch.testing.assert_close(found.memory[:, 9], found.memory[:, 12])


@pytest.mark.parametrize("gumbel", [False, True])
def test_generation_teaches_the_bag_through_the_memory(gumbel):
    rewriter = model("latent_bow", gumbel=gumbel).train()
    rewriter.sums(batch(), None)["generation"].backward()
    assert all(predict.weight.grad.any() for predict in rewriter.predict)


def test_the_network_equals_its_equations():
    """Word by word and item by item, with LSTM cells written out."""
    rewriter, content = peaked("latent_bow"), batch(3)
    with torch.no_grad():
        found = rewriter.sums(content, None)["generation"].item()
        _, memory = rewriter.remember(read(rewriter, content)[2])
        expected = sum(item_cost(rewriter, content, row, memory[row]) for row in range(3))
    assert found == pytest.approx(expected, rel=1e-5)


def item_cost(rewriter, content, row, memory):
    encoder, decoder = ([Cell(layer) for layer in stack.layers] for stack in (rewriter.encoder, rewriter.decoder))
    states = [(torch.zeros(16), torch.zeros(16))] * 2
    read_words = []
    for word in content["x_ids"][row, :content["x_lengths"][row]]:
        top, states = through(encoder, rewriter.embedding(word), states)
        read_words.append(top)
    outputs = torch.stack(read_words)
    hidden, cell = states[0]
    states = [(hidden + memory.mean(0), cell)] * 2
    cost = 0.0
    for token, target in zip(content["y_in"][row], content["y_out"][row], strict=True):
        if target == PAD:
            break
        query = states[-1][0]
        once = rewriter.query(query)
        contexts = torch.cat([looked_up(once, memory), looked_up(rewriter.query(once), outputs)])
        top, states = through(decoder, rewriter.embedding(token) + query + rewriter.context(contexts), states)
        cost -= rewriter.words(top).log_softmax(-1)[target].item()
    return cost


class Cell:
    """An LSTM layer's equations for one word of one text."""

    def __init__(self, layer):
        self.inputs, self.own = layer.weight_ih_l0, layer.weight_hh_l0
        self.bias = layer.bias_ih_l0 + layer.bias_hh_l0

    def __call__(self, word, state):
        hidden, cell = state
        gates = (self.inputs @ word + self.own @ hidden + self.bias).chunk(4)
        enter, forget, leave = (gates[number].sigmoid() for number in (0, 1, 3))
        cell = forget * cell + enter * gates[2].tanh()
        return leave * cell.tanh(), cell


def through(cells, word, states):
    found = []
    for cell, state in zip(cells, states, strict=True):
        state = cell(word, state)
        word = word + state[0]
        found.append(state)
    return word, found


def looked_up(query, slots):
    return (slots @ query / 4).softmax(0) @ slots  # the root of 16


def test_weights_begin_as_the_released_code_has_them():
    rewriter = model("latent_bow", width=64)
    drawn = {name: value for name, value in rewriter.named_parameters() if "bias" not in name}
    for name, value in drawn.items():
        assert value.std().item() == pytest.approx(0.05, rel=0.1), name
        assert abs(value.mean().item()) < 0.005, name
    for stack in (rewriter.encoder, rewriter.decoder):
        for layer in stack.layers:
            total = layer.bias_ih_l0 + layer.bias_hh_l0
            assert total.view(4, 64).tolist() == [[0.0] * 64, [1.0] * 64, [0.0] * 64, [0.0] * 64]
    for linear in (*rewriter.turn, *rewriter.predict, rewriter.query, rewriter.context, rewriter.words):
        assert not linear.bias.any()
