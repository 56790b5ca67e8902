"""Baselines of word pieces: what all are held to, what the frame makes of them, and the equations of each."""

import pytest
import torch
from piece_cases import SIZES, SOURCES, Case
from transformers import AutoModel

from models.common.recurrent import AdditiveAttention, PointerGenerator, mixed
from models.common.task import Step
from models.common.transformer import mean_pool
from stages.tracks.hcl.baselines import PieceTask

STEP = Step(0, 100, 0, range(8))


@pytest.fixture(params=sorted(SIZES))
def case(request, tmp_path):
    return Case(request.param, tmp_path, wide=0.4)


@torch.no_grad()
def test_company_changes_no_value(case):
    for name, values in case.model.validation(case.batch()).items():
        alone = torch.cat([case.model.validation(case.batch([number]))[name] for number in range(8)])
        assert values.shape == (8,) and values.std() > 0
        torch.testing.assert_close(alone, values, rtol=0, atol=1e-5 * float(values.abs().max()))


@torch.no_grad()
def test_one_beam_is_greedy_over_the_likelihood(case):
    """The cached steps of decoding predict what one pass over whole targets does: token by token the likeliest."""
    rules, vocabulary = case.rules(least=2, most=6), torch.arange(len(case.tokenizer))
    found = case.model.rewrite(case.sources(), rules, 1)
    for number in (1, 6):
        words = [case.marks.start]
        batch = {name: part.repeat_interleave(len(vocabulary), 0) for name, part in case.batch([number]).items()}
        while len(words) <= rules.max_length and words[-1] != rules.end:
            rows = torch.cat([torch.tensor(words).expand(len(vocabulary), -1), vocabulary[:, None]], dim=1)
            real = torch.ones(len(vocabulary), len(words), dtype=torch.bool)
            scores = -case.model.likelihood({**batch, "y_in": rows[:, :-1], "y_out": rows[:, 1:], "y_in_mask": real})
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
    values = case.model.trainee().objective(case.batch(), STEP)
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


X_IDS = torch.tensor([[3, 5, 3, 0], [1, 2, 2, 2]])
WEIGHTS = torch.tensor([[[0.2, 0.5, 0.3, 0.0]], [[0.1, 0.2, 0.3, 0.4]]])
LOGITS = torch.tensor([[[0.3, -1.0, 2.0, 0.1, 0.0, 0.7]], [[1.0, 0.0, 0.0, -2.0, 0.5, 0.5]]])


def test_a_gate_of_one_is_the_plain_vocabulary_and_of_zero_the_source_alone():
    torch.testing.assert_close(mixed(LOGITS, torch.ones(2, 1, 1), WEIGHTS, X_IDS), LOGITS.softmax(-1))
    source = mixed(LOGITS, torch.zeros(2, 1, 1), WEIGHTS, X_IDS)
    torch.testing.assert_close(source[0, 0], torch.tensor([0.0, 0.0, 0.0, 0.5, 0.0, 0.5]))  # repeated tokens add up
    torch.testing.assert_close(source[1, 0], torch.tensor([0.0, 0.1, 0.9, 0.0, 0.0, 0.0]))


@torch.no_grad()
def test_the_loss_is_of_the_probabilities_that_decoding_reads():
    torch.manual_seed(0)
    pointer, words = PointerGenerator(5, 4, 6), torch.randn(6, 4)
    pointer.gate.weight.normal_()
    features, targets = torch.randn(2, 9), torch.tensor([3, 2])
    weights = WEIGHTS * torch.tensor([0.0, 1.0, 1.0, 1.0])
    matching, mass = (weights[:, 0] * (targets[:, None] == X_IDS)).sum(-1), weights[:, 0].sum(-1)
    scores = pointer.scores(features.unsqueeze(1), weights, X_IDS, words).squeeze(1)
    torch.testing.assert_close(pointer.nll(features, matching, mass, targets, words), -scores[range(2), targets])
    torch.testing.assert_close(scores.exp().sum(-1), torch.ones(2))


def test_attention_is_over_real_slots_alone_and_one_slot_is_drawn_whole():
    torch.manual_seed(0)
    attention, memory, mask = AdditiveAttention(4, 3, 5), torch.randn(2, 3, 4), torch.tensor([[1, 1, 0], [1, 0, 0]])
    contexts, weights = attention(torch.randn(2, 2, 3), memory, attention.keys(memory), mask.bool())
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2))
    assert (weights[0, :, 2] == 0).all()
    torch.testing.assert_close(contexts[1], memory[1, :1].expand(2, -1))


@pytest.mark.parametrize("name", ["seq2seq", "seq2seq_du"])
@torch.no_grad()
def test_marks_and_padding_are_not_copied(name, tmp_path):
    case = Case(name, tmp_path, wide=0.4)
    model, sources = case.model, case.sources(extra=2)
    torch.nn.init.constant_(model.words.gate.bias, -40.0)  # copies alone
    torch.nn.init.zeros_(model.words.gate.weight)
    steps, start = model.begin(sources, 9)
    scores = steps.logits(steps.step(start[:, None]))[:, 0].exp()  # (B, V)
    for row, ids in zip(scores, sources["x_ids"], strict=True):
        marks = {case.marks.start, case.marks.end, case.marks.pad}
        assert set((row > 1e-6).nonzero().flatten().tolist()) <= set(ids.tolist()) - marks
        assert float(row.sum()) == pytest.approx(1.0, abs=1e-4)


@pytest.fixture
def du(tmp_path):
    return Case("seq2seq_du", tmp_path, wide=0.4)


def test_it_begins_with_the_encoder(tmp_path):
    model = Case("seq2seq_du", tmp_path).model
    assert not {"_name_or_path", "transformers_version"} & model.config.encoder.keys()
    own = model.encoder.state_dict()
    encoder = AutoModel.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(tensor, encoder[name]) for name, tensor in own.items())


def test_the_schema_is_the_keyword_and_others_that_the_text_holds(du):
    model = du.model
    assert model.phrases(SOURCES[0]) == ["language", "learn"]
    assert model.phrases("a dog? A CAT, in the catalogue") == ["cat", "dog"]
    assert model.phrases("nothing of that") == []
    model.config.lexicon = ["c++", "e-mail", "u.s. dollar", "über", "c", "学习"]
    assert model.phrases("Is C++ good? An E-MAIL: the U.S. dollar is überall") == ["u.s. dollar", "e-mail", "c++"]
    assert model.phrases("我们学习语言") == ["学习"]
    found = model.inputs([SOURCES[0], "nothing of that"], du.tokenizer)
    assert found["s_real"].tolist() == [[True, True], [True, False]]
    assert du.tokenizer.batch_decode(found["s_ids"][0], skip_special_tokens=True) == ["language", "learn"]
    assert found["s_ids"][1, 0].tolist()[:2] == [du.marks.start, du.marks.end]  # no text without any row


@torch.no_grad()
def test_attention_goes_both_ways(du):
    """D'_i and S'_j are sums over the other side, whose weights are a softmax of v tanh(W1 d + W2 s)."""
    model, batch = du.model, du.batch([0])
    tokens = model.encoder(input_ids=batch["x_ids"], attention_mask=batch["x_mask"].long()).last_hidden_state[0]
    states = model.encoder(input_ids=batch["s_ids"][0], attention_mask=batch["s_mask"][0].long()).last_hidden_state
    schema = mean_pool(states, batch["s_mask"][0])

    def drawn(attention, queries, slots):
        sums = torch.stack([torch.stack([torch.tanh(attention.keys(slot) + attention.queries(query)) for slot in slots])
                            for query in queries])
        return attention.score(sums).squeeze(-1).softmax(-1) @ slots

    _, given = model.encode(batch)
    source = model.fuse_source(torch.cat([tokens, drawn(model.to_schema, tokens, schema)], dim=-1))
    fused = model.fuse_schema(torch.cat([schema, drawn(model.to_source, schema, tokens)], dim=-1))
    torch.testing.assert_close(given[0][0], source, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(given[3][0], fused, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_schema_is_wired_and_its_padding_is_not(du):
    batch = du.batch([1, 3])
    nll = du.model.nll(batch)
    other = {**batch, "s_ids": batch["s_ids"].flip(0), "s_mask": batch["s_mask"].flip(0),
             "s_real": batch["s_real"].flip(0)}
    assert not torch.allclose(du.model.nll(other), nll)
    more = torch.cat([batch["s_ids"], batch["s_ids"].flip(0)], dim=1)
    wider = {"s_ids": more, "s_mask": torch.cat([batch["s_mask"], batch["s_mask"].flip(0)], dim=1),
             "s_real": torch.cat([batch["s_real"], torch.zeros_like(batch["s_real"])], dim=1)}
    torch.testing.assert_close(du.model.nll({**batch, **wider}), nll)


@pytest.fixture
def cvae(tmp_path):
    return Case("cvae", tmp_path, wide=0.4)


def test_the_weight_of_the_kl_rises_within_a_share_of_all_steps(cvae):
    cvae.model.config.sizes["annealing_share"] = 1.0
    assert [cvae.model.final_from_step(total) for total in (50_000, 600)] == [10_000, 600]


@torch.no_grad()
def test_the_objective_is_reconstruction_weighted_kl_and_bag(cvae):
    batch, found = cvae.batch(), cvae.model.parts(cvae.batch())
    whole = found["reconstruction"] + found["bow"]
    steps = 40  # 0.04 of 1,000
    for number, weight in ((0, 0.0), (steps // 2, 0.5), (steps, 1.0)):
        loss = cvae.model.objective(batch, Step(number, 1000, 0, range(8)))["loss"]
        torch.testing.assert_close(loss, whole + weight * found["kl"])
    torch.testing.assert_close(cvae.model.nll(batch), found["reconstruction"] + found["kl"])
    assert (found["kl"] > 0).all() and cvae.model.final_from_step(1000) == steps
