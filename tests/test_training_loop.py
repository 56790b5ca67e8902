"""The training loop: accumulation, schedule, selection, patience, and a resume that gives the same bytes."""

import random
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from memory_store import Killed, Memory
from torch import nn

from models.common.task import Parameters, Task
from models.common.training import Criterion, Settings, epoch_batches, fit, loaded_ahead
from stages.common.seeds import derived_seed
from stages.run.checkpoints import FolderCheckpoints

SEED = partial(derived_seed, 7, "test")


class RunningMean(nn.Module):
    """Subtracts a mean that is tracked in training, in a buffer, as batch normalisation does."""

    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x):
        if self.training:
            self.mean.lerp_(x.detach().float().mean(0), 0.1)
        return x - self.mean


class Regression(Task):
    """Dropout, two groups, a frozen and an unused parameter, a buffer that training changes."""

    def __init__(self, n=11, dropout=0.5, kill_at=None, validation=None):
        torch.manual_seed(3)
        self.module = nn.Sequential(nn.Linear(3, 8), RunningMean(8), nn.Dropout(dropout), nn.Linear(8, 1))
        self.module.unused = nn.Parameter(torch.ones(2))
        self.module.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.x, self.y = torch.randn(n, 3), torch.randn(n)
        self.train, self.kill_at, self.results = range(n), kill_at, validation
        self.seen, self.validated, self.begun = [], 0, []

    def parameter_groups(self):
        return [Parameters("lower", self.module[0].parameters(), 0.01),
                Parameters("upper", [p for n, p in self.module.named_parameters() if not n.startswith("0.")], 0.03)]

    def lengths(self):
        return [1 + (7 * item) % 5 for item in range(self.n_train)]

    def load(self, items):
        return {"items": torch.tensor(items), "x": self.x[items], "y": self.y[items]}

    def begin_step(self, step):
        self.begun.append(step.number)

    def train_batch(self, batch, step):
        if step.number == self.kill_at:
            raise Killed
        items = batch["items"].tolist()
        self.seen.append((step.epoch, step.number, items))
        noise = random.random() + np.random.rand()
        errors = (self.module(batch["x"]).squeeze(1).float() - batch["y"] * noise) ** 2
        return errors.sum() / len(step.batch), {"noise": noise * len(items) / len(step.batch)}

    def validate(self):
        self.validated += 1
        if self.results:
            return {"loss": self.results[self.validated - 1]}
        return {"loss": float(((self.module(self.x).squeeze(1) - self.y) ** 2).mean())}


SETTINGS = Settings(epochs=3, batch_size=4, micro_batch=3, warmup=0.2, weight_decay=0.01)
EVERYTHING = replace(SETTINGS, bucket=True, precision="bf16", schedule="constant", batch_size=3,
                     micro_batch=2)
ACCUMULATING = Settings(epochs=2, batch_size=7, micro_batch=2, clip=0.5, bucket=True)


def weights(task):
    return {name: tensor.clone() for name, tensor in task.module.state_dict().items()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


class Exact(Regression):
    """The same without dropout and noise."""

    def train_batch(self, batch, step):
        self.seen.append((step.epoch, step.number, batch["items"].tolist()))
        return ((self.module(batch["x"]).squeeze(1) - batch["y"]) ** 2).sum() / len(step.batch), {}


@pytest.mark.parametrize("changes", [{}, {"clip": None, "schedule": "constant"}], ids=str)
def test_a_step_is_the_optimisers_with_all_its_settings(changes):
    settings = replace(Settings(epochs=2, batch_size=4, betas=(0.5, 0.8), eps=1e-3, weight_decay=0.3, warmup=0.3,
                                clip=0.1), **changes)
    task, plain = Exact(dropout=0.0, validation=[2.0, 1.0]), Exact(dropout=0.0)
    fit(task, settings, Memory(), SEED)
    groups = plain.parameter_groups()
    optimiser = torch.optim.AdamW([{"params": list(group.parameters)} for group in groups], betas=settings.betas,
                                  eps=settings.eps, weight_decay=settings.weight_decay)
    for _, number, items in task.seen:
        for group, own in zip(optimiser.param_groups, groups, strict=True):
            group["lr"] = own.rate * settings.rate_factor(number, settings.total_steps(plain.n_train))
        optimiser.zero_grad()
        errors = plain.module(plain.x[items]).squeeze(1) - plain.y[items]
        (errors**2).mean().backward()
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(plain.module.parameters(), settings.clip)
        optimiser.step()
    for name, tensor in weights(task).items():
        torch.testing.assert_close(tensor, weights(plain)[name], atol=1e-6, rtol=1e-5, msg=name)


@pytest.fixture(scope="module")
def uninterrupted():
    task = Regression()
    history = fit(task, SETTINGS, Memory(), SEED)
    return weights(task), history


@pytest.mark.parametrize(("settings", "every"), [(SETTINGS, 1), (SETTINGS, 2), (SETTINGS, 10**6), (EVERYTHING, 1)])
def test_killed_at_any_step_and_resumed_ends_in_the_same_bytes(settings, every):
    """Whenever a state was saved within an epoch, or never."""
    whole = Regression()
    expected = fit(whole, settings, Memory(), SEED)
    for kill_at in range(expected.rows[-1]["step"]):
        store = Memory(every)
        with pytest.raises(Killed):
            fit(Regression(kill_at=kill_at), settings, store, SEED)
        torch.rand(5), random.random(), np.random.rand()  # a new process has other generator states
        task = Regression()
        assert fit(task, settings, store, SEED) == expected
        assert_same(weights(task), weights(whole))


def test_a_finished_training_is_not_repeated(uninterrupted):
    store = Memory()
    fit(Regression(), SETTINGS, store, SEED)
    again = Regression(kill_at=0)
    assert fit(again, SETTINGS, store, SEED) == uninterrupted[1]
    assert again.seen == [] and again.validated == 0
    assert_same(weights(again), uninterrupted[0])


def test_checkpoints_hold_plain_values_and_only_what_training_changes(tmp_path):
    fit(Regression(), SETTINGS, FolderCheckpoints(tmp_path, "k"), SEED)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()
                and p.suffix not in (".safetensors", ".json")]
    weights, optimiser, values = FolderCheckpoints(tmp_path, "k").load()
    best = FolderCheckpoints(tmp_path, "k").best()
    assert "0.weight" in weights and "1.mean" in weights and weights.keys() == best.keys()
    assert not [name for name in weights if "frozen" in name]
    assert any(name.endswith("/exp_avg_sq") for name in optimiser)
    assert values["step"] == 9 and values["epoch"] == 3 and values["finished"] is True


def test_states_are_saved_when_due_and_after_each_epoch_and_the_best_weights_once():
    """Two steps of three in each epoch are asked about; of the epochs, the second is the best."""
    class Spy(Memory):
        def save(self, weights, optimiser, values, best):
            super().save(weights, optimiser, values, best)
            kinds.append((values["step"], best))

    kinds = []
    fit(Regression(validation=[2, 1, 3]), SETTINGS, Spy(every=10**6), SEED)
    assert kinds == [(3, True), (6, True), (9, False)]
    kinds = []
    fit(Regression(validation=[2, 1, 3]), SETTINGS, Spy(every=2), SEED)
    assert kinds == [(2, False), (3, True), (5, False), (6, True), (8, False), (9, False)]


def test_accumulation_equals_the_big_batch():
    def gradient_norms(micro):
        task = Regression(dropout=0.0)
        task.module[1] = nn.Identity()  # running statistics depend on the cut into micro-batches
        task.y.zero_()
        history = fit(task, Settings(epochs=2, batch_size=11, micro_batch=micro, clip=0.5), Memory(), SEED)
        return weights(task), [(row["gradient_norm"], row["train_loss"]) for row in history.rows]

    (whole, norms), (parts, partial_norms) = gradient_norms(None), gradient_norms(3)
    for name in whole:
        torch.testing.assert_close(whole[name], parts[name])
    np.testing.assert_allclose(norms, partial_norms, rtol=1e-5)


def test_each_epoch_takes_every_item_once_in_a_new_seeded_order():
    first, second = Regression(), Regression()
    for task in (first, second):
        fit(task, SETTINGS, Memory(), SEED)
    assert first.seen == second.seen
    orders = [[i for epoch, _, items in first.seen if epoch == e for i in items] for e in range(3)]
    assert all(sorted(order) == list(range(11)) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    assert [len(items) for epoch, _, items in first.seen if epoch == 0] == [3, 1, 3, 1, 3]


def test_history_rows_are_plain_means_over_items(uninterrupted):
    _, history = uninterrupted
    assert [row["epoch"] for row in history.rows] == [1, 2, 3]
    assert [row["step"] for row in history.rows] == [3, 6, 9]
    assert all(type(value) in (int, float, bool) for row in history.rows for value in row.values())
    task = Regression()
    noises = []
    inner = task.train_batch

    def spy(batch, step):
        loss, parts = inner(batch, step)
        noises.append((step.epoch, parts["noise"] * len(step.batch)))
        return loss, parts

    task.train_batch = spy
    fit(task, SETTINGS, Memory(), SEED)
    for row in history.rows:
        expected = sum(noise for epoch, noise in noises if epoch == row["epoch"] - 1) / 11
        assert row["train_noise"] == pytest.approx(expected)
    assert history.rows[-1]["rate_upper"] == pytest.approx(3 * history.rows[-1]["rate_lower"])


def test_bf16_computes_products_short_and_keeps_weights_and_optimiser_long():
    kinds = []
    task = Regression()
    task.module[3].register_forward_hook(lambda *call: kinds.append((task.module.training, call[2].dtype)))
    store = Memory()
    history = fit(task, replace(SETTINGS, precision="bf16"), store, SEED)
    assert set(kinds) == {(True, torch.bfloat16), (False, torch.bfloat16)}
    assert {tensor.dtype for tensor in weights(task).values()} == {torch.float32}
    assert {tensor.dtype for part in store.stored[:2] for tensor in part.values()} == {torch.float32}
    full = fit(Regression(), SETTINGS, Memory(), SEED)
    assert history != full
    assert history.rows[0]["train_loss"] == pytest.approx(full.rows[0]["train_loss"], rel=0.02)


def test_parts_frozen_as_a_whole_have_no_dropout():
    task = Regression()
    lower, upper = (nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)) for _ in range(2))
    lower.requires_grad_(False)
    upper[0].bias.requires_grad_(False)
    task.module[1].parts = nn.ModuleList([lower, upper])
    modes = []
    inner = task.train_batch

    def spy(batch, step):
        modes.append((lower[1].training, upper[0].training, task.module[2].training))
        return inner(batch, step)

    task.train_batch = spy
    fit(task, SETTINGS, Memory(), SEED)
    assert set(modes) == {(False, True, True)}


def test_schedule_rises_then_falls_to_zero():
    rising = replace(SETTINGS, warmup=0.2)
    factors = [rising.rate_factor(step, 10) for step in range(11)]
    assert factors == pytest.approx([0.5, 1.0, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8, 0.0])
    assert [replace(rising, warmup=0.0).rate_factor(step, 4) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]
    assert [replace(rising, schedule="constant").rate_factor(step, 10) for step in range(11)] == [0.5, *[1.0] * 10]
    rows = fit(Regression(), replace(SETTINGS, schedule="constant"), Memory(), SEED).rows
    assert [row["rate_lower"] for row in rows] == [0.01] * 3


@pytest.mark.parametrize(("losses", "patience", "start", "epochs", "best"), [
    ([3, 2, 1, 2, 2, 0], 2, 0, 5, 3),     # two epochs without progress end it
    ([3, 2, 1, 2, 2, 0], 3, 0, 6, 6),
    ([1, 1, 1, 1, 1, 1], None, 0, 6, 1),  # the earliest of equals
    ([0, 1, 1, 5, 4, 4], 2, 4, 6, 5),     # of epochs that end at step 4 or later
    ([0, 0, 0, 1, 2, 3], 2, 4, 6, 4),     # and patience counts only them
    ([0, 1, 2, 3, 4, 5], 1, 7, 6, 6),     # no epoch was final: the last one
])
def test_patience_and_selection(losses, patience, start, epochs, best):
    settings = Settings(epochs=6, batch_size=11, patience=patience, final_from_step=start)
    snapshots = []
    task = Regression(validation=losses)
    inner = task.validate

    def spy():
        snapshots.append(weights(task))
        return inner()

    task.validate = spy
    history = fit(task, settings, Memory(), SEED)
    assert (len(history.rows), history.best_epoch) == (epochs, best)
    assert history.stopped_early == (epochs < 6)
    assert history.best == {"loss": losses[best - 1]} and history.final == (start <= 6)
    assert [row["best"] for row in history.rows].index(True) + 1 == max(1, min(start, 6))
    assert_same(weights(task), snapshots[best - 1])


def test_criteria_break_ties_in_order():
    values = iter([{"accuracy": 0.5, "loss": 1.0}, {"accuracy": 0.7, "loss": 3.0}, {"accuracy": 0.7, "loss": 2.0}])
    task = Regression()
    task.validate = lambda: next(values)
    select = (Criterion("accuracy", largest=True), Criterion("loss"))
    assert fit(task, Settings(epochs=3, batch_size=11, select=select), Memory(), SEED).best_epoch == 3


def test_frozen_parameters_stay_and_dropout_is_off_in_validation():
    task = Regression()
    modes = []
    task.validate = lambda: modes.append((task.module.training, torch.is_grad_enabled())) or {"loss": 1.0}
    fit(task, SETTINGS, Memory(), SEED)
    assert modes == [(False, False)] * 3
    assert torch.equal(task.module.frozen, torch.ones(2))
    assert not task.module.training


def test_non_finite_values_stop_the_training():
    task = Regression()
    task.x[5] = float("nan")
    with pytest.raises(FloatingPointError, match="the loss at step .* is nan; lower the learning rate"):
        fit(task, SETTINGS, Memory(), SEED)
    with pytest.raises(FloatingPointError, match="validation loss after epoch 1 is inf"):
        fit(Regression(validation=[float("inf")]), SETTINGS, Memory(), SEED)


def test_missing_items_and_foreign_checkpoints_are_named():
    with pytest.raises(ValueError, match="no training item"):
        fit(Regression(n=0), SETTINGS, Memory(), SEED)
    store = Memory()
    fit(Regression(), SETTINGS, store, SEED)
    other = Regression()
    other.module.extra = nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="another model: 'extra'"):
        fit(other, SETTINGS, store, SEED)


def test_what_goes_wrong_while_loading_comes_out():
    class Broken(Regression):
        def load(self, items):
            if 5 in items:
                raise OSError("item 5 cannot be read")
            return super().load(items)

    with pytest.raises(OSError, match="item 5"):
        fit(Broken(), SETTINGS, Memory(), SEED)


def test_buckets_take_every_item_once_and_pad_little():
    lengths = np.random.default_rng(0).integers(1, 30, 1003)
    batches, again, next_epoch = (epoch_batches(1003, 16, seed, lengths) for seed in (5, 5, 6))
    assert batches == again != next_epoch
    assert sorted(item for batch in batches for item in batch) == list(range(1003))
    assert sorted(map(len, batches)) == [11] + [16] * 62 and len(batches) == 63

    def padding(batches):
        return sum(len(batch) * max(lengths[batch]) for batch in batches) / lengths.sum() - 1

    assert padding(batches) < 0.06 < 0.5 < padding(epoch_batches(1003, 16, 5))
    means = [lengths[batch].mean() for batch in batches]
    assert means != sorted(means)  # short ones do not come first
    assert all((np.diff(lengths[batch]) >= 0).all() for batch in batches)


@pytest.mark.parametrize("ahead", [0, 2])
def test_batches_come_in_turn_and_so_do_errors_of_loading_and_the_thread_ends(ahead):
    def load(key):
        return 6 // key

    before = threading.active_count()
    with loaded_ahead(load, [3, 2, 1, 0, 1], ahead) as loaded:
        assert [next(loaded) for _ in range(3)] == [2, 3, 6]
        with pytest.raises(ZeroDivisionError):
            next(loaded)
    assert threading.active_count() == before
