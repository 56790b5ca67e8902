"""What pretend_device.py cannot show, with torch.cuda patched: imports, the device's memory, page-locking."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from models.common import training
from models.common.training import History, Speed
from stages.common import training as stage_training

ROOT = Path(__file__).resolve().parents[1]
# Imports the stages, then every module of models/ and stages/, in a process where a question to CUDA's driver, which a
# fork would not survive, is an error; says what was asked and how many threads there are after the stages.
IMPORTS = """
import importlib, pkgutil, sys, threading, traceback
import torch, yaml
from stages.common.settings import module_of

asked_by_spacy = []

def refused(name):
    def asked(*args, **kwargs):
        if any("/thinc/" in frame.filename for frame in traceback.extract_stack()):
            asked_by_spacy.append(name)
            return 0  # in stages that compute on no device
        raise SystemExit(f"torch.cuda.{name} was called at import:\\n" + "".join(traceback.format_stack()))
    return asked

for name in ("init", "_lazy_init", "is_available", "device_count", "current_device", "get_device_name", "set_device",
             "get_device_properties", "get_device_capability", "is_bf16_supported", "current_stream", "empty_cache",
             "mem_get_info"):
    setattr(torch.cuda, name, refused(name))
for stage in yaml.safe_load(open("dvc.yaml"))["stages"]:
    importlib.import_module(module_of(stage))
print(len(asked_by_spacy), threading.active_count())
count = 0
for package in ("models", "stages"):
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        importlib.import_module(module.name)
        count += 1
print(count)
"""


@pytest.fixture(scope="module")
def imported():
    """The two lines of a process that has imported everything without a question to CUDA."""
    found = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout.splitlines()


@pytest.mark.whole
def test_no_module_touches_cuda_at_import(imported):
    assert int(imported[1]) == len([path for folder in ("models", "stages") for path in (ROOT / folder).rglob("*.py")
                                    if path.parent != ROOT / folder or path.name != "__init__.py"])


def test_importing_any_stage_asks_for_no_gpu(imported):
    """A GPU that is in use before a fork cannot be used after it; nor is a thread there."""
    assert imported[0] == "0 1"


def test_a_thread_locks_batches_in_memory_under_the_own_device(monkeypatch):
    """Copies overlap computing from page-locked memory alone; a thread of its own begins with the first device."""
    under, pinned = [], []

    @contextmanager
    def on(device):
        under.append(device)
        yield
        under.append(None)

    def pin(tensor):
        assert under[-1] == torch.device("cuda:1")
        pinned.append(tensor)
        return tensor.clone()

    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    batch = {"ids": torch.arange(3), "mask": torch.ones(3, dtype=torch.bool)}
    one = SimpleNamespace(task=SimpleNamespace(load=lambda items: batch), device=torch.device("cuda:1"))
    found = training._Loop._load(one, [0])
    assert [id(tensor) for tensor in pinned] == [id(tensor) for tensor in batch.values()]
    assert all(torch.equal(found[name], batch[name]) for name in batch)
    one.device = torch.device("cpu")
    assert training._Loop._load(one, [0]) is batch and len(under) == 2


def test_the_record_has_the_peak_of_the_devices_memory(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: asked.append(device) or 3 * 2**20 + 5)
    speed = Speed(steps=2, items=8, seconds=4.0, recent=[2.0, 2.0])
    history = History([], 1, {}, False, speed=speed)
    record = stage_training.training_record(history, {"products": "bf16"}, "cuda:1", 2)
    assert record["peak_device_memory_mib"] == 3 and asked == ["cuda:1"]
    assert record["items_per_second"] == 2.0 and record["processes"] == 2
    assert "peak_device_memory_mib" not in stage_training.training_record(history, {"products": "fp32"}, "cpu", 1)
