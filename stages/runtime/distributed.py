"""One stage in several processes, as ``torchrun`` starts them: who is first, and how they meet.

``torchrun --nproc-per-node 2 -m stages.train_hcl NAME`` and ``runtime.processes: 2`` do the same.
"""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from stages.runtime.guard import ORCHESTRATOR, process_mark

# While the first process validates, the others wait for it; the default of ten minutes may be too short.
_PATIENCE = timedelta(hours=6)


def launched() -> bool:
    """Return whether this is one of several processes that ``torchrun`` started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Return whether this process writes, logs and shows progress for all; true for one that is alone."""
    return not launched() or int(os.environ["RANK"]) == 0


def launcher() -> list[str]:
    """Return the mark of the process that started this one of several, whose death must end it."""
    mark = process_mark(os.getppid()) if launched() else None
    return [mark] if mark else []


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the processes that ``torchrun`` started, and yield the device of this one; alone, do nothing.

    Args:
        device: ``cpu`` (joined by gloo) or ``cuda`` (by NCCL, one device per process of a machine).
    """
    if not launched():
        yield device
        return
    import torch
    from torch import distributed

    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("gloo" if device == "cpu" else "nccl", timeout=_PATIENCE)
    try:
        yield device
    finally:
        distributed.destroy_process_group()


def start_processes(arguments: Sequence[str], processes: int) -> int:
    """Run ``python ARGUMENTS`` in so many processes of this machine, and return the exit status.

    They find each other through this process, end when it ends, and all end when one fails.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    mark = process_mark(os.getpid())
    if mark:
        os.environ[ORCHESTRATOR] = mark
    if Path("/sys/class/net/lo").exists():  # one machine needs no other network, nor a name that resolves
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # What went wrong is said by the process itself.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=processes, run_id=str(os.getpid()),
                          rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0, monitor_interval=0.1)
    try:
        elastic_launch(config, sys.executable)(*arguments)
    except ChildFailedError as error:
        return max(1, error.get_first_failure()[1].exitcode)
    return 0
