"""Seq2Seq with a pointer."""

import pytest
import torch
from piece_cases import Case

from models.common.decoding import CachedSteps
from models.common.recurrent import AdditiveAttention, PointerGenerator, mixed

X_IDS = torch.tensor([[3, 5, 3, 0], [1, 2, 2, 2]])
WEIGHTS = torch.tensor([[[0.2, 0.5, 0.3, 0.0]], [[0.1, 0.2, 0.3, 0.4]]])
LOGITS = torch.tensor([[[0.3, -1.0, 2.0, 0.1, 0.0, 0.7]], [[1.0, 0.0, 0.0, -2.0, 0.5, 0.5]]])


def test_probabilities_sum_to_one():
    found = mixed(LOGITS, torch.tensor([[[0.3]], [[0.8]]]), WEIGHTS, X_IDS)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 1))
    assert (found > 0).all()


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


def test_states_of_beams_move_with_them(tmp_path):
    case = Case("seq2seq", tmp_path, wide=0.4)
    steps, start = case.model.begin(case.sources(), 9)
    assert not isinstance(steps, CachedSteps)
    steps.step(start[:, None])
    before = steps.state[0]
    steps.reorder(torch.zeros(8, 3, dtype=torch.int64))
    steps.keep(torch.tensor([2, 5]))
    assert steps.state[0].shape == (2, 3, 16) and torch.equal(steps.state[0][1, 2], before[5, 0])
