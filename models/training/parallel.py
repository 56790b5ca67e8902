"""Sharing the micro-batches of a step among the processes of a ``torch.distributed`` group.

Without a group there is one process, and these functions do nothing.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import distributed, nn

Value = TypeVar("Value")


def place() -> tuple[int, int]:
    """Return the number of this process and the number of processes; (0, 1) without a group."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def wait() -> None:
    """Wait until every process has come here."""
    if place()[1] > 1:
        distributed.barrier()


def from_first(compute: Callable[[], Value]) -> Value:
    """Return what ``compute`` gives in the first process, in every process; the others do not call it.

    What steers a training (validation values, above all) must be the same everywhere to the bit, or one
    process goes on while another has stopped.
    """
    rank, world = place()
    if world == 1:
        return compute()
    message = [compute() if rank == 0 else None]
    distributed.broadcast_object_list(message, src=0)
    return message[0]  # type: ignore[return-value]


def add_values(sums: dict[str, float]) -> dict[str, float]:
    """Return the sum of all processes' ``sums``, name by name; a name that one of them lacks counts as 0."""
    _, world = place()
    if world == 1:
        return sums
    gathered: list[dict[str, float]] = [{} for _ in range(world)]
    distributed.all_gather_object(gathered, sums)
    total: dict[str, float] = {}
    for one in gathered:
        for name, value in one.items():
            total[name] = total.get(name, 0.0) + value
    return total


def add_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Put the sum of all processes' gradients into ``parameters``; without gradient in all, one stays without.

    One message carries all gradients; its last entries count who has which.
    """
    if place()[1] == 1:
        return
    there = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
    flat = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
    message = torch.cat([*flat, there])
    distributed.all_reduce(message)
    parts = message.split([p.numel() for p in parameters] + [len(parameters)])
    for parameter, gradient, count in zip(parameters, parts[:-1], parts[-1].tolist(), strict=True):
        parameter.grad = gradient.view_as(parameter).clone() if count else None
