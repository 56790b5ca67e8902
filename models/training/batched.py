"""What tasks over numbered items share: one rate for all parameters, and validation in batches of one size."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import torch
from torch import Tensor, nn

from models.training.prefetch import moved
from models.training.sums import PartSums
from models.training.task import Parameters


def batches_in_order(load: Callable[[Sequence[int]], Mapping[str, Tensor]], count: int, size: int,
                     device: torch.device) -> Iterator[dict[str, Tensor]]:
    """Yield ``load`` of the items ``0 .. count - 1`` on ``device``, ``size`` of them at a time.

    Args:
        load: returns the tensors of items, on the CPU.
        count: number of items.
        size: items per batch; the last may have fewer.
        device: of the model.
    """
    for start in range(0, count, size):
        yield moved(load(range(start, min(start + size, count))), device)


class BatchedTask:
    """Base of tasks that train every parameter at one rate, and whose validation values are sums over batches.

    Attributes:
        module: what is trained, on its device.
        train: the training items.
        validation: the validation items.
        learning_rate: of every parameter.
        batch_size: items per forward pass in validation.
    """

    module: Any  # nn.Module; a subclass says which
    train: Sized
    validation: Sized
    learning_rate: float
    batch_size: int

    @property
    def n_train(self) -> int:
        """Number of training items."""
        return len(self.train)

    def parameter_groups(self) -> list[Parameters]:
        """Return one group: everything at one rate."""
        module: nn.Module = self.module
        return [Parameters("all", list(module.parameters()), self.learning_rate)]

    def load_validation(self, items: Sequence[int]) -> Mapping[str, Tensor]:
        """Return the tensors of validation items, on the CPU."""
        raise NotImplementedError

    def validation_sums(self, sums: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]) -> dict[str, float]:
        """Return what ``sums`` finds of each batch of validation items, added up name by name."""
        total = PartSums()
        for batch in batches_in_order(self.load_validation, len(self.validation), self.batch_size,
                                      self.module.device):
            total.add(sums(batch))
        return total.read()
