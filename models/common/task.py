"""The interface of the training loop: a module with its items, losses and validation values."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Batch = Mapping[str, Tensor]
Parts = Mapping[str, float | Tensor]


@dataclass(frozen=True)
class Parameters:
    """A named group of parameters with its own learning rate; the loop skips frozen ones."""

    name: str
    parameters: Iterable[nn.Parameter]
    rate: float


@dataclass(frozen=True)
class Step:
    """The optimiser step that a micro-batch belongs to."""

    number: int             # 0-based count of optimiser steps, from which annealed weights are computed
    total: int              # steps of all epochs
    epoch: int              # 0-based
    batch: Sequence[int]    # all items of the step; a micro-batch is a contiguous part of them


class Task:
    """The module to train, its data and its losses. Items are numbers ``0 .. n_train - 1``."""

    module: Any  # nn.Module on its device
    train: Any  # has a length, and is indexed by items unless load() is overridden
    validation: Any
    learning_rate: float  # of every parameter, unless parameter_groups() is overridden
    batch_size: int  # items per forward pass in validation
    evaluate_every: int | None = None  # optimiser steps from one evaluate() to the next

    @property
    def contrasts(self) -> bool:
        """Whether the loss contrasts the items of a batch; several micro-batches then need gradient caching."""
        return False

    @property
    def n_train(self) -> int:
        """Number of training items."""
        return len(self.train)

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the groups of parameters to train, always in the same order."""
        return [Parameters("all", list(self.module.parameters()), self.learning_rate)]

    def lengths(self) -> Sequence[int]:
        """Return the length of each training item, in any unit; needed for batches of similar lengths."""
        raise NotImplementedError

    def load(self, items: Sequence[int]) -> Batch:
        """Return the tensors of ``items``, on the CPU; a thread calls it, so it must draw nothing at random."""
        return self.tensors([self.train[item] for item in items])

    def begin_step(self, step: Step) -> None:
        """Act before an optimiser step; called in every process, which need not have a micro-batch of it."""

    def train_batch(self, batch: Batch, step: Step) -> tuple[Tensor, Parts]:
        """Return the share of a micro-batch in the loss of ``step.batch``, a scalar with a graph, and its parts.

        Shares and parts add up: divide by ``len(step.batch)``, never by the size of ``batch``.
        """
        raise NotImplementedError

    def without_contrast(self, batch: Batch, step: Step) -> tuple[Tensor, Parts, Tensor]:
        """Return :meth:`train_batch` without the contrast, and the vectors to contrast (M, W); called twice."""
        raise NotImplementedError

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, Parts]:
        """Return the weighted contrast of ``step.batch`` from its vectors (B, W), a scalar with a graph, and parts."""
        raise NotImplementedError

    def validate(self) -> Mapping[str, float]:
        """Return validation values by name; called in evaluation mode, without gradients."""
        raise NotImplementedError

    def load_validation(self, items: Sequence[int]) -> Batch:
        """Return the tensors of validation items, on the CPU."""
        return self.tensors([self.validation[item] for item in items])

    def tensors(self, rows: Sequence[Any]) -> Batch:
        """Return the tensors of ``rows`` of ``train`` or ``validation``."""
        raise NotImplementedError

    def validation_sums(self, sums: Callable[[Batch], Parts]) -> dict[str, float]:
        """Return the totals of ``sums`` of each batch of validation items, by name."""
        total = PartSums()
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            total.add(sums(batch))
        return total.read()

    def evaluate(self, steps: int) -> Any:
        """Return plain values of the model in evaluation mode; only the first process calls it."""
        raise NotImplementedError

    def on_evaluation(self, steps: int, values: Any) -> None:
        """Act on the values of :meth:`evaluate`; called in every process."""

    def extra_state(self) -> dict[str, Any]:
        """Return plain values that :meth:`on_evaluation` changes, for the checkpoint; buffers are saved anyway."""
        return {}

    def load_extra(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`extra_state`."""


class PartSums:
    """Named sums in double precision; tensors stay on their device until :meth:`read`."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, float | Tensor]] = []

    def add(self, parts: Parts) -> None:
        """Add plain numbers and 0-d tensors to the sums of their names."""
        self._parts += [(name, value.detach() if isinstance(value, Tensor) else float(value))
                        for name, value in parts.items()]

    def read(self) -> dict[str, float]:
        """Return the sums, those of tensors first, which are copied from the device at once."""
        parts = sorted(self._parts, key=lambda part: not isinstance(part[1], Tensor))
        tensors = [value.double() for _, value in parts if isinstance(value, Tensor)]
        numbers = iter(torch.stack(tensors).tolist() if tensors else [])
        sums: dict[str, float] = {}
        for name, value in parts:
            sums[name] = sums.get(name, 0.0) + (next(numbers) if isinstance(value, Tensor) else value)
        return sums


def moved(tensors: Batch, device: torch.device) -> dict[str, Tensor]:
    """Return ``tensors`` on ``device``, copied asynchronously; names that end in ``_sizes`` stay on the CPU."""
    return {name: tensor if name.endswith("_sizes") else tensor.to(device, non_blocking=True)
            for name, tensor in tensors.items()}


def batches_in_order(load: Callable[[Sequence[int]], Batch], count: int, size: int,
                     device: torch.device) -> Iterator[dict[str, Tensor]]:
    """Yield ``load`` of the items ``0 .. count - 1`` on ``device``, ``size`` items at a time."""
    for start in range(0, count, size):
        yield moved(load(range(start, min(start + size, count))), device)
