"""What the training loop asks of a task, of a checkpoint store and of a progress bar."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from models.common.training.state import Speed

Batch = Mapping[str, Tensor]
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

    Items are numbers ``0 .. n_train - 1``. A task may also be :class:`Lengthy`, :class:`Evaluating` and so on.
    """

    @property
    def module(self) -> nn.Module:
        """What is trained, on its device."""

    @property
    def n_train(self) -> int:
        """Number of training items."""

    def parameter_groups(self) -> Sequence[Parameters]:
        """Return the parameters to train; the order must be the same every time."""

    def load(self, items: Sequence[int]) -> Batch:
        """Return the tensors of ``items``, on the CPU.

        It runs in a thread, ahead of the micro-batch in work, so it must draw nothing at random and share
        nothing with :meth:`train_batch`; the loop moves what it returns to the module's device.
        """

    def train_batch(self, batch: Batch, step: Step) -> tuple[Tensor, Parts]:
        """Return the share of a micro-batch in the loss of the whole batch, and its parts.

        Shares add up: the sum over micro-batches is the loss of ``step.batch``, and the gradient that of
        one big batch. So divide by what belongs to the whole batch (``len(step.batch)``, or the number of
        its items that have an impostor), never by the size of ``batch``.

        Args:
            batch: what :meth:`load` returned, on the module's device.
            step: the optimiser step, with the items of its whole batch.

        Returns:
            A scalar with a graph, and named values (plain or 0-d), which are added up in the same manner
            and averaged over the items of an epoch.
        """

    def validate(self) -> Mapping[str, float]:
        """Return validation values by name; called in evaluation mode, without gradients."""


@runtime_checkable
class Lengthy(Protocol):
    """A task whose items can be put into batches of similar length."""

    def lengths(self) -> Sequence[int]:
        """Return the length of each training item, in any unit."""


@runtime_checkable
class Evaluating(Protocol):
    """A task that looks at its model within epochs too, and may change its objective by what it finds.

    What it changes is kept in checkpoints if it is a buffer of the module, or part of :meth:`memory`.
    """

    @property
    def evaluate_every(self) -> int | None:
        """Optimiser steps between evaluations, counted from the beginning of the training; None for never."""

    def evaluate(self, steps: int) -> Any:
        """Return what the model does after ``steps`` optimiser steps, as plain values that JSON keeps.

        Called in evaluation mode, without gradients, and in the first of several processes alone.
        """

    def act_on(self, steps: int, found: Any) -> None:
        """Act on what :meth:`evaluate` found; called in every process."""

    def memory(self) -> dict[str, Any]:
        """Return plain values for the checkpoint."""

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go back to :meth:`memory`."""


@runtime_checkable
class Contrasting(Protocol):
    """A task a part of whose loss contrasts the items of a batch with each other, so that no micro-batch has a share.

    A batch of several micro-batches is trained by gradient caching (:mod:`models.common.training.accumulation`): the
    number of
    micro-batches then changes the result by rounding alone, and by what dropout draws in each.
    """

    @property
    def module(self) -> nn.Module:
        """What is trained, on its device."""

    @property
    def contrasts(self) -> bool:
        """Whether the loss has such a part; without one, :meth:`Task.train_batch` is all that is called."""

    def train_apart(self, batch: Batch, step: Step) -> tuple[Tensor, Parts, Tensor]:
        """Return :meth:`Task.train_batch` without the contrast, and what is contrasted: a vector (W) for each item.

        Called twice for a micro-batch, under one seed.
        """

    def contrast(self, vectors: Tensor, step: Step) -> tuple[Tensor, Parts]:
        """Return the weighted contrast of the whole batch, a scalar with a graph, and its parts.

        Args:
            vectors: of the items of ``step.batch``, in its order (B, W).
            step: the optimiser step.
        """


class CheckpointStore(Protocol):
    """Keeps one state, tensors and plain values (JSON); handed in, so that this package opens no file.

    Of several processes, the first alone asks it for anything.
    """

    def due(self) -> bool:
        """Tell whether so much would be lost by a kill that a state is worth saving within an epoch.

        Whatever it answers, the training ends in the same bytes.
        """

    def save(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], values: Mapping[str, Any],
             best: bool) -> None:
        """Replace the stored state, whole or not at all; ``best`` weights are kept until others are the best."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]] | None:
        """Return weights, optimiser and values of the stored state; None if there is none."""

    def best(self) -> dict[str, Tensor]:
        """Return the weights that were saved as the best; called after such a save only."""


class Bar(Protocol):
    """Shows how far a training has come."""

    def update(self, n: int = 1) -> object:
        """Count ``n`` more optimiser steps as done."""

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Show an epoch, whose row of the history is ``row``."""

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
        speed: how fast it went; no part of equality, for it is never the same twice.
    """

    rows: list[dict[str, Any]]
    best_epoch: int
    best: dict[str, float]
    stopped_early: bool
    speed: Speed = field(default_factory=Speed, compare=False)
