"""Group-wise contrasts (Cai et al. 2020)."""

from functools import partial

import pytest
import torch
from memory_store import Killed, Memory
from piece_cases import SOURCES, TARGETS, Case
from torch.nn import functional as F

from models.common.task import Step
from models.common.training import Settings, fit
from models.hcl.baselines import contrast_share, pair_loss
from stages.common.seeds import derived_seed
from stages.tracks.hcl.baselines import PieceTask, candidates


@pytest.fixture
def case(tmp_path):
    return Case("group_wise", tmp_path, wide=0.4)


@pytest.mark.parametrize(("match", "chance", "expected"), [
    (1.0, 0.5, 0.693147), (-1.0, 0.5, 0.693147), (0.0, 0.9, 0.693147), (0.0, 0.01, 0.693147), (1.0, 0.9, 0.105361),
    (-1.0, 0.9, 2.302585), (0.5, 0.9, 0.356675)])
def test_pair_losses_of_known_chances(match, chance, expected):
    advantage = torch.logit(torch.tensor([chance], dtype=torch.float64))
    found = pair_loss(advantage, torch.tensor([match], dtype=torch.float64))
    assert found.item() == pytest.approx(expected, abs=1e-6)


def test_at_equal_models_the_gradient_is_half_the_match():
    matches = torch.tensor([1.0, 0.4, 0.0, -0.7, -1.0])
    advantage = torch.zeros(5, requires_grad=True)
    losses = pair_loss(advantage, matches)
    torch.testing.assert_close(losses, torch.full((5,), 0.693147))
    losses.sum().backward()
    torch.testing.assert_close(advantage.grad, -matches / 2)
    assert torch.isfinite(pair_loss(torch.tensor([1e4, -1e4]), torch.tensor([1.0, -1.0]))).all()


def test_the_share_of_the_contrast_rises():
    assert [round(contrast_share(step, 1.0), 6) for step in (0, 3500, 7000)] == [0.000911, 0.5, 0.999089]
    assert contrast_share(350, 10.0) == contrast_share(3500, 1.0)


def test_when_the_reference_is_frozen_and_when_epochs_count(case):
    assert [case.model.pretraining(total) for total in (20_000, 600)] == [5000, 240]
    assert case.model.final_from_step(20_000) == 12_000 and case.model.final_from_step(600) == 7240  # of 600: none
    case.model.config.sizes["speed"] = None
    assert case.model.final_from_step(600) == 600 and contrast_share(360, case.model.speed(600)) > 0.999


def test_when_it_is_frozen_both_models_are_one_and_it_gets_no_gradient(case):
    training = case.model.train().trainee()
    with torch.no_grad():
        case.model.bias.add_(0.5)  # since the copy was made
    start = case.model.pretraining(100)
    torch.manual_seed(0)
    training.begin_step(Step(start, 100, 0, range(8)))
    found = training.objective(case.batch(), Step(start, 100, 0, range(8)))
    torch.testing.assert_close(found["group_contrast"], torch.full((8,), 0.693147))
    share, nll = contrast_share(0, 1.0), case.model.nll(case.batch())
    torch.testing.assert_close(found["loss"], (1 - share) * nll + share * 0.693147 * case.batches.mean_target_length)
    found["group_contrast"].sum().backward()
    assert not any(buffer.requires_grad for buffer in training.buffers())
    assert all(parameter.grad is not None for parameter in case.model.parameters())


def test_the_reference_reads_without_dropout_and_in_sums(tmp_path):
    case = Case("group_wise", tmp_path, wide=0.4)
    case.model.config.sizes["dropout"] = 0.5
    for part in case.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    training = case.model.trainee()
    expected = -case.model.nll(case.batch())
    training.train()
    torch.testing.assert_close(training.reference(case.batch()), expected)
    assert case.model.training and not torch.allclose(-case.model.nll(case.batch()), expected)


def test_candidates_stand_beside_the_other_half_of_the_item(case):
    batch = case.batch()
    assert batch["cand_score"].shape == (8, 2, 7) and ((batch["cand_score"] >= 0) & (batch["cand_score"] <= 1)).all()
    for item in range(8):
        others = case.batches.chosen[item].tolist()
        assert item not in others and len(set(others)) == 7
        for place, other in enumerate(others):
            for side, (source, target) in enumerate([(other, item), (item, other)]):
                texts = case.tokenizer.batch_decode([batch["cand_x_ids"][item, side, place],
                                                     batch["cand_y_out"][item, side, place]], skip_special_tokens=True)
                assert texts == [SOURCES[source], TARGETS[target]]


def test_candidates_are_the_most_and_the_least_similar_inputs():
    rows = [[1, 2, 3], [1, 2, 4], [9, 9, 8], [7, 6], [1, 5, 5, 5]]
    found, cosines = candidates(rows, rows, 2, 1)
    assert found[0, :2].tolist() == [1, 4] and found[0, 2].item() in (2, 3)
    assert cosines[0, 0].tolist() == cosines[0, 1].tolist()  # sources are targets here
    assert cosines[0, 0, 0] > cosines[0, 0, 1] > cosines[0, 0, 2] == 0
    assert torch.equal(candidates(rows, rows, 2, 1)[0], found)
    assert len({candidates(rows, rows, 2, 1, seed=seed)[0][0, 2].item() for seed in range(9)}) == 2    # ties


def test_by_label_the_pairs_of_the_training_split_match_and_the_own_one_is_among_them():
    sources, targets = [[1, 2], [1, 3], [1, 2], [5]], [[7], [8], [8], [9]]
    chosen, scores = candidates(sources, targets, 2, 2, label=True)
    pairs = {(tuple(x), tuple(y)) for x, y in zip(sources, targets, strict=True)}
    for item in range(4):
        assert chosen[item, 0] == item and sorted(chosen[item].tolist()) == [0, 1, 2, 3]
        for place, other in enumerate(chosen[item].tolist()):
            expected = [(tuple(sources[x]), tuple(targets[y])) in pairs for x, y in ((other, item), (item, other))]
            assert scores[item, :, place].tolist() == expected
    assert 8 < scores.sum() < 32  # more than the pairs themselves, not all


def test_a_killed_training_goes_on_with_its_reference(tmp_path):
    def begun(store):
        case = Case("group_wise", tmp_path)
        task = PieceTask(case.model, case.batches, case.batches,
                         {"learning_rate": 0.01, "encoder_rate": 0.01, "micro_batch": 4}, 3)
        settings = Settings(epochs=8, batch_size=4, micro_batch=2)
        return fit(task, settings, store, partial(derived_seed, 3, "train")), task

    class Dying(Memory):
        def save(self, *state):
            super().save(*state)
            if self.saves == 12:
                raise Killed

    history, through = begun(Memory())
    store = Dying()
    with pytest.raises(Killed):
        begun(store)
    again, resumed = begun(store)
    assert again.rows == history.rows
    states = through.module.state_dict(), resumed.module.state_dict()
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
    assert any(name.startswith("reference_") for name in states[0])
    assert "train_group_contrast" in history.rows[-1] and "train_group_contrast" not in history.rows[0]
    words = states[0]["reference_embedder/words/weight"]
    assert not torch.equal(words, states[0]["model.embedder.words.weight"])
    assert F.cosine_similarity(words.flatten(), states[0]["model.embedder.words.weight"].flatten(), dim=0) > 0.5
