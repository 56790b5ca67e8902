"""One stage in several processes, started by ``runtime.processes`` or, on several machines, by ``torchrun``."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from keycontrast.errors import InputError
from stages.run.processes import ORCHESTRATOR

# Messages of gloo after another process has ended.
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused",
         "Socket closed", "Timed out waiting")
# The other processes wait while the first one validates, which may take longer than the default of ten minutes.
_PATIENCE = timedelta(hours=6)


class PeerLost(Exception):
    """Another process of this training has ended."""


def launched() -> bool:
    """Return whether ``torchrun`` started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Return whether this process is the first or the only one, which writes, logs and shows progress for all."""
    return not launched() or int(os.environ["RANK"]) == 0


def speaks() -> bool:
    """Return whether this process reports errors: the first of its machine."""
    return not launched() or int(os.environ.get("LOCAL_RANK", os.environ["RANK"])) == 0


def visible_gpus(device: str) -> list[str]:
    """Return the GPUs that stages may use under ``runtime.device``, as ``CUDA_VISIBLE_DEVICES`` names them."""
    if device == "cpu":
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [part.strip() for part in chosen.split(",") if part.strip() not in ("", "-1")]
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^GPU (\d+):", listing.stdout, re.MULTILINE) if listing.returncode == 0 else []


def check_devices(processes: int, devices: int) -> None:
    """Raise :class:`InputError` unless each process of this machine can have a GPU of its own."""
    if processes > devices:
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        visible = f"{devices} GPU{'s are' if devices != 1 else ' is'} visible"
        visible += f" (CUDA_VISIBLE_DEVICES={shown})" if shown is not None else ""
        raise InputError(f"{processes} processes are to share a training here, and {visible}. Set runtime.processes to "
                         f"at most {devices}, or runtime.device to cpu.")


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the processes by gloo (CPU) or NCCL (GPUs), and yield this one's device; PeerLost if another ends."""
    if not launched():
        yield device
        return
    import torch
    from torch import distributed

    if device == "cuda":
        rank, devices = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if devices == 1:
            device = "cuda:0"  # a scheduler may show each process only its own GPU; NCCL needs one per process
        else:
            check_devices(rank + 1, devices)
            device = f"cuda:{rank}"
        torch.cuda.set_device(device)
    distributed.init_process_group("gloo" if device == "cpu" else "nccl", timeout=_PATIENCE)
    try:
        yield device
    except RuntimeError as error:  # the base class of all errors of torch.distributed
        if not any(words in str(error) for words in _LOST):
            raise
        raise PeerLost("another process of this training has ended, or its machine, or the network between them. Run "
                       "the same command on every machine again: the training continues from the last checkpoint of "
                       "machine 0.") from error
    finally:
        distributed.destroy_process_group()


def start_processes(arguments: Sequence[str], count: int) -> int:
    """Run ``python ARGUMENTS`` in ``count`` processes, which end together, and return the exit status."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[ORCHESTRATOR] = str(os.getpid())
    if Path("/sys/class/net/lo").exists():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=count, max_restarts=0, monitor_interval=0.1,
                          run_id=str(os.getpid()), rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    try:
        elastic_launch(config, sys.executable)(*arguments)
    except ChildFailedError as error:
        # The exit code of a process that a signal ended is minus the number of the signal.
        return code if (code := error.get_first_failure()[1].exitcode) > 0 else 128 - code
    return 0
