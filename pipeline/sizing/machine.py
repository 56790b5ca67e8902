"""What a machine is, as far as sizes and estimates go by it: cores, memory, the first CUDA device."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """A machine, whatever else runs on it at the moment.

    Attributes:
        cores: processor cores that this process may use.
        memory_gib: memory, the limit of a container included.
        gpu_gib: memory of the smallest CUDA device that stages may take; 0 without one.
    """

    cores: int
    memory_gib: float
    gpu_gib: float = 0.0

    def __str__(self) -> str:
        gpu = f", GPU of {self.gpu_gib:.0f} GiB" if self.gpu_gib else ", no GPU"
        return f"{self.cores} core{'s' if self.cores > 1 else ''}, {self.memory_gib:.0f} GiB{gpu}"


def this_machine(device: str) -> Machine:
    """Return the machine that this runs on.

    Args:
        device: ``runtime.device`` of the params; under ``cpu`` no device is looked for.
    """
    # Only Linux tells the cores that this process may use from the machine's.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = psutil.virtual_memory().total
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and limit.read_text().strip() != "max":
        memory = min(memory, int(limit.read_text()))
    return Machine(cores, round(memory / _GIB, 1), _gpu_gib() if visible_gpus(device) else 0.0)


def _gpu_gib() -> float:
    """Return the memory of the smallest CUDA device; 0 if torch can use none, or if the driver's tool is not there.

    Torch is not asked for it: this process would hold a part of the device's memory from then on.
    """
    try:
        listing = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                                 capture_output=True, text=True, timeout=30, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return 0.0
    found = [int(line) / 1024 for line in re.findall(r"^\s*(\d+)\s*$", listing.stdout, re.MULTILINE)]
    import torch

    return round(min(found), 1) if found and torch.cuda.is_available() else 0.0


def visible_gpus(device: str) -> list[str]:
    """Return the devices that stages may take; empty where they compute on the CPU.

    Args:
        device: ``runtime.device`` of the params.
    """
    if device == "cpu":
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [part.strip() for part in chosen.split(",") if part.strip() not in ("", "-1")]
    return list(_installed_gpus())


def _installed_gpus() -> Iterator[str]:
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return
    if listing.returncode == 0:
        yield from re.findall(r"^GPU (\d+):", listing.stdout, re.MULTILINE)
