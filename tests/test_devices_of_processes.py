"""Which GPU each process of a training takes, with torch.cuda patched: nothing here needs one."""

import pytest
import tiny_training
import torch
from torch import distributed as group

from keycontrast.errors import InputError
from stages.common import device, distributed, training
from stages.common.distributed import process_group


@pytest.fixture
def joined(monkeypatch):
    """Pretend to be one of two processes; returns what each call to torch was."""
    calls = []
    monkeypatch.setattr(group, "init_process_group", lambda backend, **more: calls.append(backend))
    monkeypatch.setattr(group, "destroy_process_group", lambda: calls.append("left"))
    monkeypatch.setattr(torch.cuda, "set_device", calls.append)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def be(rank, devices):
        for name, value in (("WORLD_SIZE", 2), ("RANK", rank), ("LOCAL_RANK", rank)):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
        return calls

    return be


@pytest.mark.parametrize("rank", [0, 1])
def test_each_process_takes_a_device_of_its_own_and_nccl_joins_them(joined, rank):
    calls = joined(rank, devices=2)
    with process_group("cuda") as found:
        assert found == f"cuda:{rank}" and calls == [found, "nccl"]
    assert calls[-1] == "left"


def test_processes_that_a_scheduler_shows_one_device_each_take_that(joined):
    calls = joined(1, devices=1)
    with process_group("cuda") as found:
        assert found == "cuda:0" and calls == ["cuda:0", "nccl"]


def test_on_cpus_no_device_is_asked_for_and_gloo_joins(joined):
    calls = joined(1, devices=0)
    with process_group("cpu") as found:
        assert found == "cpu" and calls == ["gloo"]


def test_more_processes_than_devices_are_refused(joined, monkeypatch):
    joined(1, devices=0)
    with (pytest.raises(InputError, match="2 processes are to share a training here, and 0 GPUs are visible"),
          process_group("cuda")):
        pass
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    with pytest.raises(InputError, match=r"and 2 GPUs are visible \(CUDA_VISIBLE_DEVICES=3,5\). Set runtime.processes "
                                         "to at most 2"):
        distributed.check_devices(3, 2)


def test_the_stage_counts_devices_before_it_starts_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tiny_training.write_params(tmp_path, runtime={"device": "auto", "processes": 2})
    assert device.choose_device("auto") == "cuda" and training.processes() == 2
    tiny_training.write_params(tmp_path, runtime={"device": "auto", "processes": 4})
    with pytest.raises(InputError, match="4 processes are to share a training here, and 2 GPUs are visible"):
        training.processes()
    tiny_training.write_params(tmp_path, runtime={"device": "cpu", "processes": 4})
    assert training.processes() == 4
