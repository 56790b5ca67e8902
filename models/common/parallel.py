"""Sharing the micro-batches of a step among the processes of a ``torch.distributed`` group.

Without a group there is one process, and these functions do nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Return what ``compute`` gives in the first process, in every process; the others do not call it.

    What steers a training must be the same everywhere to the bit, or one process goes on while another has stopped.
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
    if len(values) == 1:
        return values
    distributed.all_gather_object(values, value)
    return values


def spread(tensors: Iterable[Tensor]) -> None:
    """Overwrite ``tensors`` in place by those of the first process, byte by byte and one after another."""
    if place()[1] == 1:
        return
    for tensor in tensors:
        flat = tensor.detach().contiguous()
        if flat.numel():
            distributed.broadcast(flat.view(-1).view(torch.uint8), src=0)
            tensor.detach().copy_(flat)


def tensors_of_first(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the first process's ``tensors`` in every process, on ``device``; what others give is not looked at."""
    if place()[1] == 1:
        return dict(tensors)
    shapes = from_first(lambda: {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()})
    found = {name: tensors[name].to(device) if place()[0] == 0 else torch.empty(shape, dtype=kind, device=device)
             for name, (shape, kind) in shapes.items()}
    spread(found.values())
    return found


def total_of_all(sums: dict[str, float]) -> dict[str, float]:
    """Return the sum of all processes' ``sums``, name by name; a name that one of them lacks counts as 0."""
    total: dict[str, float] = {}
    for own in gathered(sums):
        for name, value in own.items():
            total[name] = total.get(name, 0.0) + value
    return total


def add_gradients_of_all(parameters: Sequence[nn.Parameter]) -> None:
    """Put the sum of all processes' gradients into the parameters; without gradient in all, one stays without.

    Every process calls it once a step, also one that had no backward pass.
    """
    if place()[1] == 1:
        return
    without = [parameter.grad is None for parameter in parameters]
    there = torch.tensor([not lacks for lacks in without], dtype=torch.float32, device=parameters[0].device)
    distributed.all_reduce(there)
    flat = torch.cat([(torch.zeros_like(one) if one.grad is None else one.grad).flatten() for one in parameters])
    distributed.all_reduce(flat)
    for parameter, total in zip(parameters, flat.split([one.numel() for one in parameters]), strict=True):
        parameter.grad = total.view_as(parameter)
    if any(without):  # only then is the device waited for
        for parameter, count in zip(parameters, there.tolist(), strict=True):
            if not count:
                parameter.grad = None
