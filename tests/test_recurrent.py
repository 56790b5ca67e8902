"""What holds of both LSTM rewriters: padding, batches, steps of decoding, saving, seeds, precision, learning."""

import pytest
import torch
from recurrent_cases import ARCHITECTURES, RULES, batch, item, model, peaked

from models.common import BOS, PAD
from models.common.decoding import beam_search, contrastive_search

# settings that change how a model decodes, laid over those of the architecture
CASES = [("residual_lstm", {}), ("latent_bow", {}), ("latent_bow", {"gumbel": True})]
each_case = pytest.mark.parametrize(("architecture", "values"), CASES)
each_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


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
def test_sums_of_a_batch_are_those_of_its_items_without_padding(architecture, values):
    rewriter, content = peaked(architecture, **values), batch()
    with torch.no_grad():
        found = sums(rewriter, content)
        alone = [sums(rewriter, item(content, row)) for row in range(5)]
    assert set(found) == {"generation"} | ({"bow"} if architecture == "latent_bow" else set())
    for name, value in found.items():
        assert value == pytest.approx(sum(part[name] for part in alone), rel=1e-5)


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


@each_case
@pytest.mark.parametrize("num_beams", [1, 3])
def test_an_item_alone_is_rewritten_as_in_a_batch(architecture, values, num_beams):
    rewriter, content = peaked(architecture, **values), batch(8)
    together = rewriter.rewrite(content, None, RULES, num_beams)
    for row in range(8):
        alone = rewriter.rewrite(item(content, row), None, RULES, num_beams)[0].tolist()
        assert alone == together[row, :len(alone)].tolist()
        assert (together[row, len(alone):] == PAD).all()


@each_architecture
def test_contrastive_search_takes_the_same_steps(architecture):
    rewriter, content = peaked(architecture), batch(8)
    steps, start = rewriter.begin(content, None, 0)
    found = contrastive_search(steps, start, RULES, top_k=3, alpha=0.4)
    assert found.tolist() == contrastive_search(Replay(rewriter, content), start, RULES, top_k=3, alpha=0.4).tolist()
    assert found.tolist() != rewriter.rewrite(content, None, RULES).tolist()


@each_case
def test_half_precision_stays_close_and_learns(architecture, values):
    rewriter, content = model(architecture, **values), batch()
    full, outputs = sums(rewriter, content), rewriter.rewrite(content, None, RULES, 2)
    with torch.autocast("cpu", torch.bfloat16):
        parts = rewriter.sums(content, None)
        assert rewriter.rewrite(content, None, RULES, 2).shape[0] == len(outputs)
    assert {part.dtype for part in parts.values()} == {torch.float32}
    assert {name: value.item() for name, value in parts.items()} == pytest.approx(full, rel=0.01)
    sum(parts.values()).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in rewriter.parameters())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_planned_batch_is_sorted_and_means_the_same(architecture):
    rewriter, content = peaked(architecture), batch(6)
    planned = rewriter.planned(content)
    assert planned["x_lengths"].tolist() == sorted(content["x_lengths"].tolist(), reverse=True)
    assert rewriter.planned(planned) is planned
    found, whole = (rewriter.sums(some, None) for some in (planned, content))
    assert all(torch.equal(value, whole[name]) for name, value in found.items())
    alone = [rewriter.sums(item(content, row), None) for row in range(6)]
    torch.testing.assert_close(found, {name: sum(one[name] for one in alone) for name in found}, rtol=1e-4, atol=1e-4)
    state, sources = rewriter.encode(content)
    again, others = rewriter.encode(planned)
    order = content["x_lengths"].argsort(descending=True, stable=True)
    torch.testing.assert_close([part[:, order] for pair in state for part in pair], [p for pair in again for p in pair])
    assert torch.equal(sources[-1][order], others[-1])


def test_lengths_stay_with_the_host():
    lengths = model("residual_lstm").planned(batch())["x_host"]
    assert lengths.to("meta") is lengths and lengths.to(torch.device("meta"), non_blocking=True) is lengths
    assert lengths.pin_memory() is lengths and type(lengths.plain) is torch.Tensor
