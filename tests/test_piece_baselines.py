"""What every baseline of word pieces is held to, and what the frame makes of them."""


import pytest
import torch
from piece_cases import SIZES, Case

from models.common.task import Step
from stages.tracks.hcl.baselines import PieceTask

STEP = Step(0, 100, 0, range(8))


@pytest.fixture(params=sorted(SIZES))
def case(request, tmp_path):
    return Case(request.param, tmp_path, wide=0.4)


@torch.no_grad()
def test_padding_and_company_change_no_value(case):
    whole, padded = case.model.validation(case.batch()), case.model.validation(case.batch(extra=3))
    for name, values in whole.items():
        alone = torch.cat([case.model.validation(case.batch([number]))[name] for number in range(8)])
        assert values.shape == (8,) and values.std() > 0
        torch.testing.assert_close(padded[name], values, rtol=0, atol=1e-5 * float(values.abs().max()))
        torch.testing.assert_close(alone, values, rtol=0, atol=1e-5 * float(values.abs().max()))


def test_planned_batches_say_the_same(case):
    batch = case.batch()
    torch.testing.assert_close(case.model.nll(case.model.planned(batch)), case.model.nll(batch), rtol=0, atol=0)


class AsPrior(torch.nn.Module):
    """Stands where the CVAE has its posterior, and says what the prior says."""

    def __init__(self, model):
        super().__init__()
        self.prior = model.prior

    def forward(self, values):
        return self.prior(values[:, :self.prior[0].in_features])


@torch.no_grad()
def test_one_beam_is_greedy_over_what_the_loss_scores(case):
    """The cached steps of decoding predict what the whole pass of training does: token by token the likeliest."""
    if case.architecture == "cvae":     # whose texts come from the prior's mean
        case.model.posterior = AsPrior(case.model)
    rules, vocabulary = case.rules(least=2, most=6), torch.arange(len(case.tokenizer))
    found = case.model.rewrite(case.sources(), rules, 1)
    for number in (1, 6):
        words = [case.marks.start]
        batch = {name: part.repeat_interleave(len(vocabulary), 0) for name, part in case.batch([number]).items()}
        batch["eps"] = 0 * batch["eps"]
        while len(words) <= rules.max_length and words[-1] != rules.end:
            rows = torch.cat([torch.tensor(words).expand(len(vocabulary), -1), vocabulary[:, None]], dim=1)
            real = torch.ones(len(vocabulary), len(words), dtype=torch.bool)
            scores = -case.model.nll({**batch, "y_in": rows[:, :-1], "y_out": rows[:, 1:], "y_in_mask": real})
            scores[[*rules.banned, *([rules.end] if len(words) <= rules.min_length else [])]] = -torch.inf
            words.append(int(scores.argmax()))
        assert found[number].tolist()[:len(words) - 1] == words[1:]


def test_wider_beams_keep_to_the_rules_and_to_padding(case):
    rules = case.rules(least=3, most=7)
    found = case.model.rewrite(case.sources(), rules, 4)
    lengths = (found == rules.end).int().argmax(1)
    assert ((lengths >= 3) & (lengths <= 7)).all()
    assert not torch.isin(found[:, :3], torch.tensor(rules.banned)).any()
    assert torch.equal(case.model.rewrite(case.sources(extra=2), rules, 4), found)
    for number in range(8):
        alone = case.model.rewrite(case.sources(numbers=[number]), rules, 4)[0]
        assert alone.tolist() == found[number, :len(alone)].tolist()


def test_the_objective_reaches_every_parameter(case):
    case.model.train()
    values = case.model.trainee().objective(case.model.planned(case.batch()), STEP)
    assert all(value.shape == (8,) for value in values.values())
    values["loss"].sum().backward()
    assert all(parameter.grad is not None for parameter in case.model.parameters())


def task_of(case):
    return PieceTask(case.model, case.batches, case.batches,
                     {"learning_rate": 0.02, "encoder_rate": 0.01, "micro_batch": 8}, 3)


def test_every_parameter_that_draws_a_gradient_is_trained(case):
    """CLAPS has a projection beside the model, which is not saved, and the reference of Group-wise is frozen."""
    task = task_of(case)
    groups = task.parameter_groups()
    trained = {id(parameter) for group in groups for parameter in group.parameters if parameter.requires_grad}
    assert trained == {id(parameter) for parameter in task.module.parameters() if parameter.requires_grad}
    encoder = {id(parameter) for parameter in case.model.encoder.parameters()} if case.name == "seq2seq_du" else set()
    assert {id(parameter) for parameter in groups[0].parameters} == encoder
