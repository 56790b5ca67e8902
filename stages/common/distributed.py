"""One stage in several processes, as ``torchrun`` starts them.

``runtime.processes: 2`` and ``torchrun --nproc-per-node 2 -m stages.tracks.hcl.train NAME`` do the same. On several
machines, start ``torchrun`` with its own flags on each of them.
"""

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

# What gloo says when another process has ended, by a kill for instance.
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused",
         "Socket closed", "Timed out waiting")
# While the first process validates, the others wait for it; the default of ten minutes may be too short.
_PATIENCE = timedelta(hours=6)


class PeerLost(Exception):
    """Another process of this training has ended, and with it what they share."""


def launched() -> bool:
    """Return whether this is one of several processes that ``torchrun`` started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Return whether this process writes, logs and shows progress for all; true for one that is alone."""
    return not launched() or int(os.environ["RANK"]) == 0


def launcher() -> list[int]:
    """Return the process that started this one of several, whose death must end it."""
    return [os.getppid()] if launched() else []


def speaks() -> bool:
    """Return whether this process says what is wrong with an input: the first of its machine."""
    return not launched() or int(os.environ.get("LOCAL_RANK", os.environ["RANK"])) == 0


def visible_gpus(device: str) -> list[str]:
    """Return the GPUs that stages may take, as ``CUDA_VISIBLE_DEVICES`` names them; none if they compute on the CPU.

    Args:
        device: ``runtime.device`` of the params.
    """
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
    """Make sure that each process of this machine can have a GPU of its own.

    Raises:
        InputError: it cannot.
    """
    if processes > devices:
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise InputError(f"{processes} processes are to share a training here, and {devices} GPU"
                         f"{'s are' if devices != 1 else ' is'} visible"
                         + (f" (CUDA_VISIBLE_DEVICES={shown})" if shown is not None else "")
                         + f". Set runtime.processes to at most {devices}, or runtime.device to cpu.")


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the processes that ``torchrun`` started, and yield the device of this one; alone, do nothing.

    Args:
        device: ``cpu`` (joined by gloo) or ``cuda`` (by NCCL, one device per process of a machine).

    Raises:
        InputError: there are fewer devices than processes.
        PeerLost: another process, or its machine, has ended.
    """
    if not launched():
        yield device
        return
    import torch
    from torch import distributed

    if device == "cuda":
        device = _own_device(int(os.environ["LOCAL_RANK"]), torch.cuda.device_count())
        torch.cuda.set_device(device)
    distributed.init_process_group("gloo" if device == "cpu" else "nccl", timeout=_PATIENCE)
    try:
        yield device
    except RuntimeError as error:  # of which all errors of torch.distributed are kinds
        if not any(words in str(error) for words in _LOST):
            raise
        raise PeerLost("another process of this training has ended, or its machine, or the network between them. Give "
                       "the same command on every machine again: the training goes on from the last checkpoint of "
                       "machine 0.") from error
    finally:
        distributed.destroy_process_group()


def _own_device(number: int, devices: int) -> str:
    """Return the device of process ``number`` of this machine; a scheduler may show it one of its own alone."""
    if devices == 1:
        return "cuda:0"  # NCCL refuses two processes on one device
    check_devices(number + 1, devices)
    return f"cuda:{number}"


def start_processes(arguments: Sequence[str], count: int) -> int:
    """Run ``python ARGUMENTS`` in ``count`` processes of this machine, and return the exit status.

    They end when this one ends, and all end when one fails.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[ORCHESTRATOR] = str(os.getpid())
    if Path("/sys/class/net/lo").exists():
        # One machine needs no other network, nor a name that resolves.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # What went wrong is said by the process itself.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=count, max_restarts=0, monitor_interval=0.1,
                          run_id=str(os.getpid()), rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    try:
        elastic_launch(config, sys.executable)(*arguments)
    except ChildFailedError as error:
        return max(1, error.get_first_failure()[1].exitcode)
    return 0
