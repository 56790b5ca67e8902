"""Training of CLLD classifiers: loss of a batch, shares, updates of the matrix, resume, overfit, processes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from memory_store import Killed, Memory
from tiny_clld import bert, task, textcnn, texts
from torch.nn.functional import cross_entropy

from models.clld.clld import (
    label_distance_contrast,
    supervised_contrast,
    twin_contrast,
    update_label_distance,
)
from models.common.task import Step
from models.common.training import Criterion, Settings, fit
from stages.common.seeds import derived_seed
from stages.run.checkpoints import FolderCheckpoints

SEED = partial(derived_seed, 5, "test")
CONTRAST = {"kind": "label_distance"}
ADAPTIVE = {"contrast": CONTRAST, "distance": {"kind": "adaptive"}}
SETTINGS = Settings(epochs=6, batch_size=2, schedule="constant",
                    select=(Criterion("accuracy", largest=True), Criterion("loss")))
WHOLE = Step(0, 1, 0, range(12))


def weights(one):
    return {name: tensor.clone() for name, tensor in one.module.state_dict().items()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def gradients(one, loss):
    one.module.zero_grad()
    loss.backward()
    return {name: parameter.grad for name, parameter in one.module.named_parameters()}


@pytest.mark.parametrize(("contrast", "formula"), [
    (CONTRAST, lambda h, y, ldm: label_distance_contrast(h, y, ldm)),
    ({**CONTRAST, "temperature": 0.3}, lambda h, y, ldm: label_distance_contrast(h, y, ldm, 0.3)),
    ({"kind": "supervised"}, lambda h, y, ldm: supervised_contrast(h, y, 0.05)),
    ({"kind": "twin"}, lambda h, y, ldm: twin_contrast(h, 0.05))])
@pytest.mark.parametrize("views", ["first", "both"])
def test_the_loss_is_half_cross_entropy_and_half_contrast(contrast, formula, views):
    distance = {"kind": "static_tau_pairs", "pairs": [[0, 1]]}
    one = task(textcnn(contrast=contrast, distance=distance, ce_views=views))
    model, batch = one.module, one.load(range(12))
    loss, parts = one.train_batch(batch, WHOLE)
    count = model.config.views
    h = model.encode(batch["input_ids"].repeat(count, 1), batch["attention_mask"].repeat(count, 1))
    labels = batch["labels"].repeat(count)
    kept = slice(None) if views == "both" else slice(12)
    entropy = cross_entropy(model.classifier(h[kept]), labels[kept])
    wanted = formula(h if model.head is None else model.head(h), labels, getattr(model, "ldm", None))
    torch.testing.assert_close(parts["ce"], entropy)
    torch.testing.assert_close(parts["contrast"], wanted)
    torch.testing.assert_close(loss, 0.5 * entropy + 0.5 * wanted)
    right = (model.classifier(h[:12]).argmax(-1) == batch["labels"]).float().mean()
    assert float(parts["accuracy"]) == pytest.approx(right.item())


@pytest.mark.parametrize("make", [textcnn, bert])
def test_ct_has_the_gradients_of_cross_entropy_exactly(make):
    one = task(make())
    one.module.train()
    torch.manual_seed(3)
    loss, parts = one.train_batch(one.load(range(12)), WHOLE)
    assert "contrast" not in parts
    found = gradients(one, loss)
    plain = make().train()
    batch = texts().batch(range(12))
    torch.manual_seed(3)
    answers = plain(batch["input_ids"], batch["attention_mask"])
    cross_entropy(answers, batch["labels"], reduction="sum").div(12).backward()
    assert_same(found, {name: parameter.grad for name, parameter in plain.named_parameters()})


def test_validation_counts_confusions_with_rows_true_and_columns_predicted():
    one = task(textcnn())
    with torch.no_grad():
        values, confusion = one.judge()
        logits = torch.cat([one.module(*(one.validation.batch([item])[name] for name in
                                         ("input_ids", "attention_mask"))) for item in range(9)])
    expected = torch.zeros(3, 3, dtype=torch.int64)
    for label, answer in zip(one.validation.labels.tolist(), logits.argmax(-1).tolist(), strict=True):
        expected[label, answer] += 1
    assert torch.equal(confusion, expected)
    labels = torch.from_numpy(one.validation.labels)
    scores = []
    for number in range(3):
        right = expected[number, number].item()
        scores.append(2 * right / max(1, expected[number].sum().item() + expected[:, number].sum().item()))
    assert values == pytest.approx({"loss": cross_entropy(logits, labels).item(), "macro_f1": np.mean(scores),
                                    "accuracy": expected.diagonal().sum().item() / 9}, rel=1e-5)


def run(settings=SETTINGS, store=None, make=textcnn, kill_at=None, changes=ADAPTIVE):
    one = task(make(**changes), settings=settings)
    if kill_at is not None:
        inner = one.train_batch

        def deadly(batch, step):
            if step.number == kill_at:
                raise Killed
            return inner(batch, step)

        one.train_batch = deadly
    return one, fit(one, settings, store or Memory(), SEED)


@pytest.fixture(scope="module")
def uninterrupted():
    return run()


def test_the_matrix_moves_at_every_tenth_evaluation_by_the_confusions_of_validation(uninterrupted):
    one, history = uninterrupted
    assert one.evaluate_every == 1 and [row["step"] for row in one.updates] == [10, 20, 30]
    assert [row["epoch"] for row in one.updates] == [2, 4, 5]  # six steps each; an epoch is a fifth of them
    ldm = torch.ones(3, 3)
    for row in one.updates:
        assert row["strength"] == pytest.approx(1 - row["step"] / 36)
        assert sum(map(sum, row["confusion"])) == 9
        ldm = update_label_distance(ldm, torch.tensor(row["confusion"]), row["strength"])
        assert row["ldm"] == ldm.tolist()
    assert one.updates[0]["ldm"] != torch.ones(3, 3).tolist()  # there were errors
    # the model has the matrix of its best epoch
    past = [row["ldm"] for row in one.updates if row["step"] <= 6 * history.best_epoch]
    assert one.module.ldm.tolist() == (past[-1] if past else torch.ones(3, 3).tolist())


def test_no_update_in_the_first_fifth_of_the_epochs():
    one, _ = run(replace(SETTINGS, epochs=10))
    assert [row["step"] for row in one.updates] == [20, 30, 40, 50, 60]  # step 10 is of epoch 2 of 10
    still, _ = run(replace(SETTINGS, epochs=10), changes={"contrast": CONTRAST})
    assert still.evaluate_every is None and still.updates == [] and torch.equal(still.module.ldm, torch.ones(3, 3))
    assert any(not torch.equal(tensor, weights(still)[name]) for name, tensor in weights(one).items() if name != "ldm")


@pytest.mark.parametrize("kill_at", [1, 10, 11, 35])
def test_killed_and_resumed_ends_in_the_same_bytes(kill_at, uninterrupted, tmp_path):
    expected, history = uninterrupted
    with pytest.raises(Killed):
        run(store=FolderCheckpoints(tmp_path, "k"), kill_at=kill_at)
    torch.rand(3)
    one, again = run(store=FolderCheckpoints(tmp_path, "k"))
    assert_same(weights(one), weights(expected))
    assert again == history
    assert one.updates == expected.updates
    finished, same = run(store=FolderCheckpoints(tmp_path, "k"), kill_at=0)  # nothing is left to do
    assert same == history and finished.updates == expected.updates
