"""The pretend device refuses what CUDA refuses, counts what a GPU waits for, and leaves the rest of torch alone."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pretend import DEVICE, NAME, recording, switched_on, workloads
from pretend.measure import deterministic, micro_batch
from torch import nn
from torch.nn import functional as F

from models.clld import ClldModel, ClldTask
from models.common.training import loop
from stages.run.checkpoints import FolderCheckpoints

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def on():
    with switched_on(), deterministic():
        yield


def there(*values, **options):
    return torch.tensor(values, device=NAME, **options)


REFUSED = {
    "two devices": (lambda: there(1.0, 2.0) + torch.ones(2), RuntimeError, "at least two devices"),
    "two devices in a list": (lambda: torch.cat([there(1.0), torch.ones(1)]), RuntimeError, "at least two devices"),
    "a mask on the CPU": (lambda: there(1.0, 2.0).masked_fill(torch.tensor([True, False]), 0.0), RuntimeError,
                          "at least two devices"),
    "indices on the CPU": (lambda: there(1.0, 2.0).gather(0, torch.tensor([1])), RuntimeError, "at least two devices"),
    "an index of rows on the CPU": (lambda: F.embedding(torch.tensor([0]), there([1.0])), RuntimeError,
                                    "at least two devices"),
    "values on the CPU, indexed from the device": (lambda: torch.ones(2)[there(1)], RuntimeError,
                                                   "at least two devices"),
    "attention with a mask on the CPU": (
        lambda: F.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 4, device=NAME)] * 3,
                                               attn_mask=torch.ones(2, 2, dtype=torch.bool)), RuntimeError,
        "at least two devices"),
    "numpy": (lambda: there(1.0).numpy(), TypeError, "Use Tensor.cpu"),
    "numpy, of a detached one": (lambda: there(1.0).detach().numpy(), TypeError, "Use Tensor.cpu"),
    "np.asarray": (lambda: np.asarray(there(1.0)), TypeError, "Use Tensor.cpu"),
    "cumsum of floats": (lambda: there(1.0, 2.0).cumsum(0), RuntimeError, "deterministic implementation"),
    "median with indices": (lambda: there(1.0, 2.0).median(0), RuntimeError, "deterministic implementation"),
    "bincount with weights": (lambda: there(1, 2).bincount(there(1.0, 2.0)), RuntimeError,
                              "deterministic implementation"),
    "histc": (lambda: there(1.0, 2.0).histc(2), RuntimeError, "deterministic implementation"),
    "a product scattered": (lambda: there(1.0).scatter_reduce(0, there(0), there(2.0), "prod"), RuntimeError,
                            "deterministic implementation"),
    "interpolation, backward": (
        lambda: F.interpolate(torch.ones(1, 1, 2, device=NAME, requires_grad=True), size=4,
                              mode="linear").sum().backward(), RuntimeError, "deterministic implementation"),
    "LSTM states that are not contiguous": (
        lambda: nn.LSTM(2, 2, num_layers=2).to(NAME)(torch.ones(1, 3, 2, device=NAME), (
            torch.ones(3, 2, 2, device=NAME).transpose(0, 1), torch.ones(2, 3, 2, device=NAME))), RuntimeError,
        "hx is not contiguous"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses_is_refused(name):
    compute, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        compute()


def test_what_cuda_takes_is_taken():
    mixed = there(1.0, 2.0) * torch.tensor(2.0)  # a number, wherever it is
    assert mixed.tolist() == [2.0, 4.0] and there(1, 2).cumsum(0).tolist() == [1, 3]
    assert there(1.0, 2.0)[torch.tensor([1])].tolist() == [2.0]  # an index on the CPU, at the price of a copy
    torch.use_deterministic_algorithms(False)
    assert there(1.0, 2.0).cumsum(0).tolist() == [1.0, 3.0]


COUNTED = {
    "item": (lambda t: t.sum().item(), {"_local_scalar_dense"}),
    "if": (lambda t: bool(t[0] > 1), {"_local_scalar_dense"}),
    "tolist": (lambda t: t.tolist(), {"tolist"}), "cpu": (lambda t: t.cpu(), {"copy to the host"}),
    "copy": (lambda t: torch.zeros(3).copy_(t), {"copy to the host"}), "nonzero": (lambda t: t.nonzero(), {"nonzero"}),
    "where": (lambda t: torch.where(t > 1), {"nonzero"}), "mask": (lambda t: t[t > 1], {"index by a mask"}),
    "masked_select": (lambda t: t.masked_select(t > 1), {"masked_select"}),
    "unique": (lambda t: t.unique(), {"_unique2"}),
    "equal": (lambda t: torch.equal(t, t), {"equal"}), "bincount": (lambda t: t.long().bincount(), {"bincount"}),
    "repeat": (lambda t: t.repeat_interleave(t.long()), {"repeat_interleave without output_size"}),
    "repeat, size known": (lambda t: t.repeat_interleave(t.long(), output_size=6), set()),
    "numbers by mask": (lambda t: t.masked_fill(t > 1, 0), set()),
    "one number put by mask": (lambda t: t.clone().__setitem__(t > 1, 0.0), set()),
    "argmax": (lambda t: t.argmax(), set()), "slice": (lambda t: t[1:], set())}


@pytest.mark.parametrize("name", COUNTED)
def test_the_host_waits_where_it_must(name):
    compute, expected = COUNTED[name]
    tensor = there(1.0, 2.0, 3.0)
    with recording() as record:
        compute(tensor)
    assert {what for what, _ in record.waits} == expected


def test_copies_and_sorts_are_counted_and_views_are_not():
    tensor = torch.zeros(4, 2).to(NAME, non_blocking=True)
    with recording() as record:
        tensor.view(8)[2:].unsqueeze(0).transpose(0, 1).detach()
        torch.empty(3, device=NAME)
    assert record.figures() == {"operations": 0, "waits": 0, "blocking": 0, "sorts": 0}
    with recording() as record:
        index = torch.tensor([0, 2]).to(NAME)
        torch.ones(2).to(NAME, non_blocking=True)
        tensor.index_copy_(0, index, torch.ones(2, 2, device=NAME))
        tensor.index_add_(0, index, torch.ones(2, 2, device=NAME))
        tensor.index_select(0, index)
    assert record.blocking.total() == 1 and record.copies.total() == 1 and record.sorts.total() == 2
    torch.use_deterministic_algorithms(False)
    with recording() as record:
        tensor.index_copy_(0, index, torch.ones(2, 2, device=NAME))
    assert record.sorts.total() == 0


class Small(nn.Module):
    """Tied embeddings, an LSTM, attention and dropout."""

    def __init__(self):
        super().__init__()
        self.words, self.scores, self.dropout = nn.Embedding(20, 8), nn.Linear(8, 20), nn.Dropout(0.3)
        self.lstm = nn.LSTM(8, 8, 2, batch_first=True)
        self.scores.weight = self.words.weight

    def forward(self, ids):
        states, _ = self.lstm(self.words(ids))
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        return self.scores(self.dropout(F.scaled_dot_product_attention(states, states, states, attn_mask=mask)))


def trained(device, steps=3, dropout=0.0):
    torch.manual_seed(0)
    model = Small()
    model.dropout.p = dropout
    model.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    ids = torch.randint(0, 20, (3, 5), generator=torch.Generator().manual_seed(1)).to(device)
    torch.manual_seed(2)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model


def test_a_model_trains_to_the_weights_of_the_cpu():
    model, expected = trained(NAME), trained("cpu")
    assert model.scores.weight is model.words.weight  # still tied
    assert all(value.device == DEVICE for value in model.parameters())
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name].cpu(), value)
    copied = copy.deepcopy(model)
    assert copied.scores.weight is copied.words.weight and copied.scores.weight is not model.scores.weight


def test_attention_and_recurrent_layers_are_one_operation_each_way():
    with recording() as record:
        trained(NAME, steps=1)
    for name in ("_cudnn_rnn", "scaled_dot_product_attention"):
        assert record.operations[name] == record.operations[f"{name}_backward"] == 1


def test_the_device_draws_from_a_generator_of_its_own():
    torch.manual_seed(3)
    there, here = torch.rand(4, device=NAME), torch.rand(4)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4), here)
    state = torch.pretend.get_rng_state()
    assert torch.equal(torch.rand(4, device=NAME).cpu(), there.cpu())
    assert not torch.equal(torch.rand(4, device=NAME).cpu(), there.cpu())
    torch.pretend.set_rng_state(state)
    assert torch.equal(torch.rand(4, device=NAME).cpu(), there.cpu())
    one, other = trained(NAME, dropout=0.5), trained(NAME, dropout=0.5)
    assert torch.equal(one.scores.bias.cpu(), other.scores.bias.cpu())


# Faults as they were once made, in the very code that would have them.
def _mask_stays(monkeypatch):
    moved = loop.moved
    monkeypatch.setattr(loop, "moved", lambda batch, device: {
        **moved(batch, device), "attention_mask": batch["attention_mask"]})


def _cumsum(monkeypatch):
    encode = ClldModel.encode
    monkeypatch.setattr(ClldModel, "encode", lambda self, ids, mask: encode(self, ids, mask) + mask.float().cumsum(1)[
        :, -1:])


def _numpy(monkeypatch):
    inner = ClldTask.train_batch

    def train_batch(self, batch, step):
        loss, parts = inner(self, batch, step)
        return loss, {**parts, "accuracy": float(parts["accuracy"].numpy())}

    monkeypatch.setattr(ClldTask, "train_batch", train_batch)


@pytest.mark.parametrize(("plant", "kind", "message"), [
    (_mask_stays, RuntimeError, "at least two devices"), (_cumsum, RuntimeError, "cumsum of floating-point numbers"),
    (_numpy, TypeError, "Use Tensor.cpu")], ids=["mask", "cumsum", "numpy"])
def test_a_fault_planted_in_a_training_is_found(tmp_path, monkeypatch, plant, kind, message):
    work = workloads.trainings(tmp_path)["cl-textcnn"]()
    plant(monkeypatch)
    work.train("cpu", FolderCheckpoints(tmp_path, "a"))  # nobody would see it there
    with pytest.raises(kind, match=message):
        micro_batch(work.stage, work.train)


def test_waits_have_places():
    work = workloads.trainings(Path())["transformer"]()
    record = micro_batch(work.stage, work.train)
    assert all(where.partition(":")[0].endswith(".py") or where == "backward" for _, where in record.waits)
    assert not record.recurrent


def test_the_device_leaves_others_alone():
    code = ("import torch; from pretend import switched_on\n"
            "with switched_on(): torch.ones(2, device='pretend')\n"
            "assert torch.inference_mode is not torch.no_grad\n"
            "with torch.inference_mode(): assert torch.ones(1).is_inference()\n"
            "assert not torch.cuda.is_available() and torch.tensor([1.0]).device.type == 'cpu'\n"
            "assert not torch.__future__.get_swap_module_params_on_conversion()\n"
            "layer = torch.nn.Linear(2, 2); layer.weight.grad = None; weight = layer.weight\n"
            "assert layer.to(torch.float64).weight is weight\n"
            "assert torch._C._len_torch_function_stack() == 0")
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tests", capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
