"""The state of a training as tensors and plain values, from which it goes on exactly.

There is no generator state: the loop seeds every micro-batch by name (step and position), and the order
of an epoch likewise, so ``step``, ``epoch`` and ``batch`` stand for every random state and for the
position in the data. The schedule is a function of ``step``. Parameters that are not trained are not
stored; the task builds them again.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

_RECENT = 500  # steps whose durations are kept, for their median


@dataclass
class Speed:
    """Durations of the steps of a training, added up over the runs that it was resumed in; they enter no artifact.

    Attributes:
        steps: optimiser steps, without those that a kill undid.
        items: training items.
        seconds: of all steps, with waiting for data, without validation and checkpoints.
        recent: seconds of each of the last 500 steps.
        checkpoints: saved states.
        checkpoint_seconds: of saving them; a resumed training does not count the state that it resumed from.
    """

    steps: int = 0
    items: int = 0
    seconds: float = 0.0
    recent: list[float] = field(default_factory=list)
    checkpoints: int = 0
    checkpoint_seconds: float = 0.0

    def add(self, items: int, seconds: float) -> None:
        """Count one optimiser step."""
        self.steps, self.items, self.seconds = self.steps + 1, self.items + items, self.seconds + seconds
        self.recent = [*self.recent[1 - _RECENT:], seconds]

    def add_checkpoint(self, seconds: float) -> None:
        """Count one saved state."""
        self.checkpoints, self.checkpoint_seconds = self.checkpoints + 1, self.checkpoint_seconds + seconds

    def summary(self) -> dict[str, Any]:
        """Return the values for the record of the stage; items per second are over steps and checkpoints together."""
        if not self.steps:
            return {}
        return {"steps": self.steps, "items_per_second": self.items / (self.seconds + self.checkpoint_seconds),
                "seconds_per_step_median": median(self.recent), "checkpoints": self.checkpoints,
                "checkpoint_seconds": self.checkpoint_seconds}


@dataclass
class State:
    """The plain values of a training in progress.

    Attributes:
        step: optimiser steps done.
        epoch: epochs done.
        batch: batches of the current epoch done.
        items: items of the current epoch done.
        sums: running sums of the current epoch: parts times items, and gradient norms.
        rows: history of the epochs done.
        best_key: criteria of the best epoch, smaller is better; None before the first validation.
        best_epoch: its 1-based number; 0 before.
        stale: epochs in a row that patience has counted.
        finished: nothing is left to do.
        memory: of a task that evaluates within epochs.
        speed: how long the steps took; steps that a kill undid do not count.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    items: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    best_key: list[float] | None = None
    best_epoch: int = 0
    stale: int = 0
    finished: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    speed: Speed = field(default_factory=Speed)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "State":
        """Return the state of :meth:`as_values`."""
        return cls(**{**values, "speed": Speed(**values["speed"])})

    def as_values(self) -> dict[str, Any]:
        """Return plain values that JSON keeps exactly."""
        return asdict(self)


def trained_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return what training changes in ``module``: trainable parameters and persistent buffers, by name.

    Tied parameters appear once. The tensors are the module's own, not copies.
    """
    tensors = {name: parameter.data for name, parameter in module.named_parameters() if parameter.requires_grad}
    kept = set(module.state_dict())
    tensors |= {name: buffer for name, buffer in module.named_buffers() if name in kept}
    return tensors


def load_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy ``tensors`` into the tensors of the same names.

    Raises:
        ValueError: the names differ, so the tensors belong to another model.
    """
    own = trained_tensors(module)
    if set(own) != set(tensors):
        other = sorted(set(own) ^ set(tensors))
        raise ValueError(f"the checkpoint is of another model: {other[0]!r} is in one of them only")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return what ``optimiser`` remembers, by ``number of the parameter/name``: its own tensors, not copies."""
    return {f"{number}/{slot}": tensor for number, slots in optimiser.state_dict()["state"].items()
            for slot, tensor in slots.items()}


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Let ``optimiser`` remember ``tensors``, named as :func:`optimiser_tensors` names them."""
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, slot = name.partition("/")
        slots.setdefault(int(number), {})[slot] = tensor
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": slots, "param_groups": groups})
