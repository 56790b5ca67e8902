"""One stage in several processes, as ``torchrun`` starts them: who is first, and how they meet.

``torchrun --nproc-per-node 2 -m stages.tracks.hcl.train NAME`` and ``runtime.processes: 2`` do the same; so do
``torchrun --nnodes 2 --node-rank 0 --master-addr HOST --master-port PORT`` and ``runtime.rendezvous`` on several
machines.
"""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from stages.run.errors import InputError
from stages.run.guard import ORCHESTRATOR

# What gloo says when another process has ended, by a kill for instance.
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused",
         "Socket closed", "Timed out waiting")
# While the first process validates, the others wait for it; the default of ten minutes may be too short.
_PATIENCE = timedelta(hours=6)
# Within this all must be there that share a training.
MEETING = timedelta(minutes=10)


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


@dataclass(frozen=True)
class Processes:
    """The processes of one training.

    Attributes:
        here: on this machine, and on each other.
        nodes: machines.
        node: number of this machine; the processes of machine 0 come first.
        endpoint: HOST:PORT of machine 0, where several machines meet.
    """

    here: int = 1
    nodes: int = 1
    node: int = 0
    endpoint: str = ""

    @property
    def count(self) -> int:
        """How many there are on all machines together."""
        return self.here * self.nodes


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
        InputError: there are fewer devices than processes, or not all processes come.
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
    # Collectives are patient because of validation; that a process is missing at the start is known sooner.
    store, rank, count = next(distributed.rendezvous("env://", timeout=MEETING))
    _meet(store, rank, count, _name_of(device))
    distributed.init_process_group("gloo" if device == "cpu" else "nccl", timeout=_PATIENCE, store=store, rank=rank,
                                   world_size=count)
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
        return "cuda:0"  # that no other process has the same is seen when they meet
    check_devices(number + 1, devices)
    return f"cuda:{number}"


def _name_of(device: str) -> str:
    """Return what no other process may have: machine and GPU, or on CPUs nothing that is shared."""
    import torch

    return "" if device == "cpu" else f"{socket.gethostname()}, GPU {torch.cuda.get_device_properties(device).uuid}"


def _meet(store: Any, rank: int, count: int, device: str) -> None:
    """Wait until all processes are there, each with a device of its own.

    Raises:
        InputError: one does not come, or two have the same device, which NCCL would not say so plainly.
    """
    from torch import distributed

    store.set(f"here/{rank}", device)
    try:
        store.wait([f"here/{other}" for other in range(count)], MEETING)
    except distributed.DistError as error:
        raise InputError(f"not all of the {count} processes that share this training came within "
                         f"{MEETING.total_seconds() / 60:.0f} minutes; see what the others say.") from error
    devices = [store.get(f"here/{other}").decode() for other in range(count)]
    same = [str(other) for other in range(count) if device and devices[other] == device]
    if len(same) > 1:
        raise InputError(f"processes {' and '.join(same)} have the same device ({device}). Set runtime.processes to "
                         f"the number of GPUs, or let the scheduler show each process another one.")


def start_processes(arguments: Sequence[str], processes: Processes) -> int:
    """Run ``python ARGUMENTS`` in this machine's share of ``processes``, and return the exit status.

    They find each other through the first machine's process, end when this one ends, and all end when one fails.

    Raises:
        InputError: the machines do not meet.
    """
    from torch import distributed
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[ORCHESTRATOR] = str(os.getpid())
    if processes.nodes == 1 and Path("/sys/class/net/lo").exists():
        # One machine needs no other network, nor a name that resolves.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # What went wrong is said by the process itself.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(min_nodes=processes.nodes, max_nodes=processes.nodes, nproc_per_node=processes.here,
                          max_restarts=0, monitor_interval=0.1, **_meeting(processes))
    try:
        elastic_launch(config, sys.executable)(*arguments)
    except ChildFailedError as error:
        return max(1, error.get_first_failure()[1].exitcode)
    except distributed.DistError as error:
        raise InputError(f"runtime.rendezvous: the {processes.nodes} machines did not meet at {processes.endpoint} "
                         f"({str(error).splitlines()[0]}). Start the same stage on each, and see that they can reach "
                         f"that address.") from error
    return 0


def _meeting(processes: Processes) -> dict[str, Any]:
    """Return where and as whom this machine meets the others.

    Machine 0 writes what is trained, so it must be the same that DVC runs on: numbers are given, not drawn. The others
    may come long before it, for they have no other work.
    """
    if processes.nodes == 1:
        return {"run_id": str(os.getpid()), "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    patience = MEETING if processes.node == 0 else _PATIENCE
    return {"run_id": "keycontrast", "rdzv_backend": "static", "rdzv_endpoint": processes.endpoint,
            "rdzv_configs": {"rank": processes.node, "timeout": int(patience.total_seconds())}}
