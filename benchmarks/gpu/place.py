"""Where a part computes, and how its process is set up."""

from typing import Any

import torch

from benchmarks.gpu.sizes import Job
from benchmarks.gpu.subjects import Subject, subject_of
from benchmarks.gpu.texts import SEED
from stages.runtime.seeds import derived_seed, seed_everything

Figures = dict[str, Any]


def begin(job: Job) -> Subject:
    """Set this process up as a stage does: seeds, deterministic algorithms."""
    seed_everything(derived_seed(SEED, "gpu"), torch.get_num_threads(), deterministic=True)
    return subject_of(job)


def autocast(device: str, precision: str) -> torch.autocast:
    """Return the precision of products as a block."""
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16")


def synchronise(device: str) -> None:
    """Wait until the device has done everything."""
    if device == "cuda":
        torch.cuda.synchronize()


def forget_peak(device: str) -> None:
    """Begin to measure the peak of the device's memory anew."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def memory(device: str) -> Figures:
    """Return that peak; nothing on a CPU."""
    return {"peak MiB of the device": torch.cuda.max_memory_allocated() / 2**20} if device == "cuda" else {}
