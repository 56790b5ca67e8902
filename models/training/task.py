"""What the training loop asks of a task, of a checkpoint store and of a progress bar."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

Parts = Mapping[str, float | Tensor]


@dataclass(frozen=True)
class Parameters:
    """A named group of parameters with its own learning rate; frozen ones are left out by the loop."""

    name: str
    parameters: Iterable[nn.Parameter]
    rate: float


@dataclass(frozen=True)
class Step:
    """The optimiser step that a micro-batch belongs to.

    Attributes:
        number: 0-based count of optimiser steps, from which annealed weights are computed.
        total: number of steps of all epochs.
        epoch: 0-based epoch.
        batch: every item of the step's whole batch, of which a micro-batch is a run.
    """

    number: int
    total: int
    epoch: int
    batch: Sequence[int]


class Task(Protocol):
    """What is trained, on what, and how it is judged.

    Items are numbers ``0 .. n_train - 1``. The task moves its tensors to the module's device.
    """

    @property
    def module(self) -> nn.Module:
        """What is trained, on its device."""

    @property
    def n_train(self) -> int:
        """Number of training items."""

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the parameters to train; the order must be the same every time."""

    def train_batch(self, items: Sequence[int], step: Step) -> tuple[Tensor, Parts]:
        """Return the share of ``items`` in the loss of the whole batch, and its parts.

        Shares add up: the sum over micro-batches is the loss of ``step.batch``, and the gradient that of
        one big batch. So divide by what belongs to the batch (``len(step.batch)``, or the number of its
        items that have an impostor), never by the size of ``items``.

        Returns:
            A scalar with a graph, and named values (plain or 0-d), which are added up in the same manner
            and averaged over the items of an epoch.
        """

    def validate(self) -> Mapping[str, float]:
        """Return validation values by name; called in evaluation mode, without gradients."""


class CheckpointStore(Protocol):
    """Keeps one state, tensors and plain values (JSON); handed in, so that this package opens no file."""

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Replace the stored state, whole or not at all."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the stored state; None if there is none."""


class Bar(Protocol):
    """A progress bar; ``tqdm`` is one."""

    def update(self, n: int = 1) -> object:
        """Count ``n`` more optimiser steps as done."""

    def close(self) -> None:
        """Take the bar away."""


@dataclass(frozen=True)
class History:
    """What a training did.

    Attributes:
        rows: one per epoch, plain values: ``epoch`` (1-based), ``step`` (optimiser steps so far), ``rate_*``
            (last learning rate of each group), ``gradient_norm`` (mean, before clipping), ``train_*`` (the
            loss and its parts, means over items), ``validation_*`` and ``best`` (best epoch so far).
        best_epoch: the 1-based epoch whose weights the module now holds.
        best: its validation values.
        stopped_early: patience ended the training.
    """

    rows: list[dict[str, Any]]
    best_epoch: int
    best: dict[str, float]
    stopped_early: bool
