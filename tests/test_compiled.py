"""torch.compile in trainings: off unless asked for, equal to rounding for every track, and clear where it cannot be."""

import shutil
from functools import partial

import pytest
import tiny_bert
import tiny_clld
import tiny_items
import torch
from memory_store import Memory
from test_gradient_cache import rewriter
from test_train_hcl import train as train_hcl
from torch import nn

from keycontrast.errors import InputError
from models.common.training import Settings, fit
from models.common.training.loop import layers_of
from stages.common.encoders import resolve_encoder
from stages.common.precision import check_compiler, settled_precision
from stages.common.seeds import derived_seed
from stages.run.checkpoints import FolderCheckpoints
from stages.tracks.hcl.items import joined_items

SEED = partial(derived_seed, 5, "test")
SETTINGS = Settings(epochs=1, batch_size=4, optimiser="adam", bucket=True)
NAMES = {"hcl": {"DecoderLayer", "BertLayer"}, "pgkpr": {"DecoderLayer", "EncoderLayer"}, "clld": {"BertLayer"}}


@pytest.fixture
def eager_kernels(monkeypatch):
    """Layers are traced and differentiated as for kernels, and run without them; what was traced."""
    compile_, traced = torch.compile, []

    def traced_alone(function, *, dynamic, options):
        assert dynamic and options == {"fallback_random": True}
        traced.append(type(function.__self__).__name__)
        # Differentiating the many pieces of a rewriter's layers takes a minute, tracing them seconds.
        rewriters = type(function.__self__).__module__.startswith("models.pgkpr")
        return compile_(function, dynamic=True, backend="eager" if rewriters else "aot_eager")

    monkeypatch.setattr(torch, "compile", traced_alone)
    torch._dynamo.reset()
    return traced


def hcl(folder, compile):  # noqa: A002
    encoder = resolve_encoder(f"path:{tiny_bert.save_encoder(folder / 'encoder')}")
    trained = train_hcl(encoder, FolderCheckpoints(folder, str(compile)), joined_items(**tiny_items.tables()),
                        compile=compile, epochs=1)
    return trained.model, trained.history


def pgkpr(folder, compile):  # noqa: A002
    task = rewriter({"sizes": {"layers": 1}}, dropout=True, micro_batch=4)
    task.module.float()
    return task.module, fit(task, Settings(**{**vars(SETTINGS), "compile": compile}), Memory(), SEED)


def clld(folder, compile):  # noqa: A002
    task = tiny_clld.task(tiny_clld.bert(contrast={"kind": "label_distance"}))
    return task.module, fit(task, Settings(**{**vars(SETTINGS), "compile": compile}), Memory(), SEED)


def assert_rounding(make, folder):
    """Compiled and not, weights and history agree up to rounding, and the module is left as it was."""
    plain, history = make(folder, False)
    other, found = make(folder, True)
    for name, value in plain.state_dict().items():
        # What all keys have in common changes no attention, and a normalisation takes off what all means have in
        # common: the gradient is rounding alone, which Adam makes steps of.
        if not name.endswith(("key.bias", "posterior.output.bias", "posterior.mean")):
            torch.testing.assert_close(other.state_dict()[name], value, rtol=1e-3, atol=1e-4)
    losses = [[row[f"{kind}_loss"] for row in one.rows] for one in (history, found) for kind in ("train", "validation")]
    assert losses[0] == pytest.approx(losses[2], rel=1e-4) and losses[1] == pytest.approx(losses[3], rel=1e-4)
    assert not any("forward" in vars(part) for part in other.modules())


@pytest.mark.parametrize("make", [
    pytest.param(hcl, marks=pytest.mark.nightly), pytest.param(pgkpr, marks=pytest.mark.nightly),
    pytest.param(clld, marks=pytest.mark.whole)], ids=lambda make: make.__name__)
def test_every_track_trains_the_same_up_to_rounding(make, tmp_path, eager_kernels):
    assert_rounding(make, tmp_path)
    assert NAMES[make.__name__] <= set(eager_kernels)


def test_nothing_is_compiled_unless_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(torch, "compile", lambda *_, **__: pytest.fail("compiled"))
    pgkpr(tmp_path, False)
    with pytest.raises(pytest.fail.Exception, match="compiled"):
        pgkpr(tmp_path, True)


def test_a_model_without_layers_says_so():
    task = tiny_clld.task(tiny_clld.textcnn())
    with pytest.raises(ValueError, match="compile: ClldModel has no layers that torch.compile could make faster; set"):
        fit(task, Settings(epochs=1, batch_size=4, compile=True), Memory(), SEED)
    recurrent = nn.ModuleList([nn.ModuleDict({"cell": nn.LSTM(2, 2), "out": nn.Linear(2, 2)}), nn.Linear(2, 2)])
    assert layers_of(nn.Sequential(recurrent)) == []


def test_a_machine_that_cannot_compile_says_what_is_missing(monkeypatch, tmp_path):
    training = {"precision": "fp32", "compile": True}
    runtime = type("Runtime", (), {"tf32": False})
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match=r"train_hcl.training.compile is true, and this machine has no C\+\+ compiler "
                                         r"\(no-such-compiler; CXX may name another\). Install one, or set it to"):
        settled_precision("cpu", runtime, training, "train_hcl.training")
    monkeypatch.setenv("CXX", shutil.which("true") or "true")
    assert settled_precision("cpu", runtime, training, "x")["compiled"] is True
    monkeypatch.setattr("stages.common.precision.find_spec", lambda name: None)
    with pytest.raises(InputError, match="Triton, which compiles for GPUs, is missing"):
        check_compiler("cuda", "train_hcl.training.compile")
