"""Both LSTM rewriters: steps of decoding; and Residual-LSTM's additions and attention."""

import pytest
import torch
from recurrent_cases import RULES, batch, model, peaked

from models.common import BOS, PAD
from models.common.decoding import beam_search
from models.common.recurrent import LstmStack

# settings that change how a model decodes, laid over those of the architecture
CASES = [("residual_lstm", {}), ("latent_bow", {}), ("latent_bow", {"gumbel": True})]
each_case = pytest.mark.parametrize(("architecture", "values"), CASES)


class Replay:
    """Decoding that keeps tokens alone, and takes each step by reading every hypothesis from its first token."""

    def __init__(self, rewriter, sources):
        self.rewriter, self.rows = rewriter, sources
        self.tokens = torch.empty(len(sources["x_ids"]), 1, 0, dtype=torch.int64)

    def step(self, tokens):
        self.tokens = torch.cat([self.tokens, tokens.unsqueeze(-1)], dim=-1)
        items, width, length = self.tokens.shape
        repeated = {name: part.repeat_interleave(width, dim=0) for name, part in self.rows.items()}
        steps, _ = self.rewriter.begin(repeated, None, 0)
        states = [steps.step(column) for column in self.tokens.view(-1, length, 1).unbind(1)]
        return states[-1].view(items, width, -1)

    def logits(self, states):
        return self.rewriter.words(states)

    def reorder(self, parents):
        self.tokens = self.tokens.gather(1, parents.unsqueeze(-1).expand(-1, -1, self.tokens.shape[-1]))

    def keep(self, items):
        self.tokens, self.rows = self.tokens[items], {name: part[items] for name, part in self.rows.items()}


def sums(rewriter, content):
    return {name: value.item() for name, value in rewriter.sums(content, None).items()}


def stepwise(rewriter, content):
    """-log p of the targets, word by word through the steps of decoding."""
    steps, start = rewriter.begin(content, None, 0)
    assert start.tolist() == [BOS] * len(content["x_ids"])
    total = 0.0
    for tokens, targets in zip(content["y_in"].unbind(1), content["y_out"].unbind(1), strict=True):
        scores = steps.logits(steps.step(tokens.unsqueeze(1))).squeeze(1).log_softmax(-1)
        total -= scores.gather(1, targets.unsqueeze(1)).squeeze(1)[targets != PAD].sum().item()
    return total


@each_case
def test_targets_cost_the_same_in_training_and_step_by_step(architecture, values):
    rewriter, content = peaked(architecture, **values), batch()
    with torch.no_grad():
        assert stepwise(rewriter, content) == pytest.approx(sums(rewriter, content)["generation"], rel=1e-5)


@each_case
@pytest.mark.parametrize("num_beams", [1, 3])
def test_search_equals_one_that_keeps_no_states(architecture, values, num_beams):
    rewriter, content = peaked(architecture, **values), batch(8)
    options = {"num_beams": num_beams}
    found = rewriter.rewrite(content, None, RULES, **options)
    expected = beam_search(Replay(rewriter, content), torch.full((8,), BOS), RULES, **options)
    assert found.tolist() == expected.tolist()
    lengths = (found != PAD).sum(1).tolist()
    assert len(set(map(tuple, found.tolist()))) > 3 and len(set(lengths)) > 1  # items leave at different steps
    assert not set(found.flatten().tolist()) & {1, *RULES.banned[2:]}


def stack(layers=4, residual_every=2, width=6):
    torch.manual_seed(0)
    return LstmStack(width, layers, residual_every, dropout=0.0)


@pytest.mark.parametrize(("layers", "residual_every"), [(4, 2), (5, 2), (3, 1), (4, 3), (2, 5)])
def test_the_input_of_every_nth_layer_is_added_behind_it(layers, residual_every):
    """x^(l+1) = h^(l) + x^(l+1-n) behind every n-th layer, h^(l) else; l counts from 1."""
    some, inputs = stack(layers, residual_every), torch.randn(2, 4, 6)
    x = {1: inputs}
    for number, layer in enumerate(some.layers, start=1):
        h, _ = layer(x[number])
        x[number + 1] = h + x[number + 1 - residual_every] if number % residual_every == 0 else h
    torch.testing.assert_close(some(inputs)[0], x[layers + 1])


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
