"""Several processes of a ``torch.distributed`` group; without a group there is one process, and nothing is sent."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

Value = TypeVar("Value")


def place() -> tuple[int, int]:
    """Return the number of this process and the number of processes; (0, 1) without a group."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def from_first(compute: Callable[[], Value]) -> Value:
    """Return ``compute()`` of the first process, in every process; the others do not call it.

    Values that a training's course depends on must be the same everywhere, or processes wait for others for ever.
    """
    rank, world = place()
    if world == 1:
        return compute()
    message = [compute() if rank == 0 else None]
    distributed.broadcast_object_list(message, src=0)
    return message[0]  # type: ignore[return-value]


def gathered(value: Value) -> list[Value]:
    """Return every process's ``value``, by the number of the process."""
    values: list[Any] = [value] * place()[1]
    if len(values) > 1:
        distributed.all_gather_object(values, value)
    return values


def total_of_all(sums: dict[str, float]) -> dict[str, float]:
    """Return the sum of all processes' ``sums``, name by name; a missing name counts as 0."""
    total: dict[str, float] = {}
    for own in gathered(sums):
        for name, value in own.items():
            total[name] = total.get(name, 0.0) + value
    return total


def broadcast(tensors: Iterable[Tensor]) -> None:
    """Overwrite ``tensors`` in place by those of the first process, byte by byte and one after another."""
    if place()[1] == 1:
        return
    for tensor in tensors:
        flat = tensor.detach().contiguous()
        if flat.numel():
            distributed.broadcast(flat.view(-1).view(torch.uint8), src=0)
            tensor.detach().copy_(flat)


def add_gradients_of_all(parameters: Sequence[nn.Parameter]) -> None:
    """Put the sum of all processes' gradients into the parameters; every process calls it once a step."""
    if place()[1] == 1:
        return
    missing = [parameter.grad is None for parameter in parameters]
    counts = torch.tensor([not is_missing for is_missing in missing], dtype=torch.float32, device=parameters[0].device)
    distributed.all_reduce(counts)
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
    distributed.all_reduce(flat)
    for parameter, total in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = total.view_as(parameter)
    if any(missing):  # only then is the device waited for
        for parameter, count in zip(parameters, counts.tolist(), strict=True):
            if not count:
                parameter.grad = None
