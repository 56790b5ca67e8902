"""Sharing the micro-batches of a step among the processes of a ``torch.distributed`` group.

Without a group there is one process, and these functions do nothing.
"""

from collections.abc import Sequence

import torch
from torch import distributed, nn


def place() -> tuple[int, int]:
    """Return the number of this process and the number of processes; (0, 1) without a group."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def wait() -> None:
    """Wait until every process has come here."""
    if place()[1] > 1:
        distributed.barrier()


def add_up(parameters: Sequence[nn.Parameter], sums: dict[str, float]) -> dict[str, float]:
    """Put the sum of all processes' gradients into ``parameters``, and return the sum of their ``sums``.

    A parameter without gradient in every process stays without.
    """
    _, world = place()
    if world == 1:
        return sums
    _add_gradients(parameters)
    gathered: list[dict[str, float]] = [{} for _ in range(world)]
    distributed.all_gather_object(gathered, sums)
    total: dict[str, float] = {}
    for one in gathered:
        for name, value in one.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _add_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """One message for all gradients; the last entries count who has which."""
    there = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
    flat = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
    message = torch.cat([*flat, there])
    distributed.all_reduce(message)
    parts = message.split([p.numel() for p in parameters] + [len(parameters)])
    for parameter, gradient, count in zip(parameters, parts[:-1], parts[-1].tolist(), strict=True):
        parameter.grad = gradient.view_as(parameter).clone() if count else None
