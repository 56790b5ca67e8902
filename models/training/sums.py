"""Adding up the parts of a loss over micro-batches without waiting for the device at each of them."""

from collections.abc import Mapping

import torch
from torch import Tensor


class PartSums:
    """Named sums in double precision; tensors stay where they are until :meth:`read`.

    >>> sums = PartSums()
    >>> sums.add({"loss": torch.tensor(1.5), "share": 0.5})
    >>> sums.add({"loss": torch.tensor(2.0), "share": 0.5})
    >>> sums.read()
    {'loss': 3.5, 'share': 1.0}
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._tensors: list[Tensor] = []
        self._plain: list[tuple[str, float]] = []

    def add(self, parts: Mapping[str, float | Tensor]) -> None:
        """Add plain numbers and 0-d tensors to the sums of their names."""
        for name, value in parts.items():
            if isinstance(value, Tensor):
                self._names.append(name)
                self._tensors.append(value.detach())
            else:
                self._plain.append((name, float(value)))

    def read(self) -> dict[str, float]:
        """Return the sums; all tensors come from the device in one message."""
        numbers = torch.stack([tensor.double() for tensor in self._tensors]).tolist() if self._tensors else []
        sums: dict[str, float] = {}
        for name, value in [*zip(self._names, numbers, strict=True), *self._plain]:
            sums[name] = sums.get(name, 0.0) + value
        return sums
