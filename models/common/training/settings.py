"""Settings of the training loop, and its schedules, which are functions of the step alone."""

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Literal

from models.common.precision import PRECISIONS

_WORDS = {"optimiser": ("adamw", "adam"), "schedule": ("linear", "constant"), "precision": PRECISIONS}


@dataclass(frozen=True)
class Criterion:
    """One validation value by which epochs are compared; ``largest`` if more is better."""

    name: str = "loss"
    largest: bool = False


@dataclass(frozen=True)
class Settings:
    """How to train; plain values, so that validated params of any kind can fill it.

    Attributes:
        epochs: passes over the training items at most; 0 keeps the module as it begins, validated once.
        batch_size: items per optimiser step; the last batch of an epoch may be smaller.
        micro_batch: items per forward pass; None takes the whole batch at once.
        optimiser: ``adamw`` or ``adam``.
        betas: decay of Adam's two averages.
        eps: Adam's epsilon.
        weight_decay: decoupled under ``adamw``, added to the gradient under ``adam``.
        warmup: share of all steps over which the rates rise linearly from 0.
        schedule: of the rates after that: ``linear``, down to 0, or ``constant``.
        precision: ``fp32``, or ``bf16`` for the matrix products of forward and backward passes (autocast);
            weights, gradients and optimiser are fp32 either way, and the task sees to it that losses are.
        bucket: batches of items of similar length, drawn anew each epoch; the task needs ``lengths()``.
        prefetch: micro-batches that a thread loads ahead of the one in work; 0 loads each when it is due.
        clip: largest norm of the accumulated gradient, over all groups together; None clips nothing.
        patience: epochs in a row without a better validation result that end the training; None for never.
        patience_from: patience counts epochs that end at this optimiser step or later (end of annealing).
        select: the best epoch is the one with the best first criterion; the next ones break its ties, and
            the earliest of equal epochs wins.
    """

    epochs: int
    batch_size: int
    micro_batch: int | None = None
    optimiser: Literal["adamw", "adam"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    warmup: float = 0.0
    schedule: Literal["linear", "constant"] = "linear"
    precision: Literal["fp32", "bf16"] = "fp32"
    bucket: bool = False
    prefetch: int = 2
    clip: float | None = 1.0
    patience: int | None = None
    patience_from: int = 0
    select: tuple[Criterion, ...] = (Criterion(),)

    def __post_init__(self) -> None:
        """Refuse values that would fail late or train something else than was meant.

        Raises:
            ValueError: a count below 1 (of epochs, 0), a warm-up outside [0, 1), an unknown word or no criterion.
        """
        if self.epochs < 0:
            raise ValueError(f"epochs must be at least 0, found {self.epochs}")
        counts = {"batch_size": self.batch_size, "micro_batch": self.micro_batch,
                  "patience": self.patience}
        for name, value in counts.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, found {value}")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup is a share of all steps in [0, 1), found {self.warmup}")
        if self.prefetch < 0:
            raise ValueError(f"prefetch must be at least 0, found {self.prefetch}")
        for name, words in _WORDS.items():
            if (found := getattr(self, name)) not in words:
                raise ValueError(f"{name} must be {' or '.join(map(repr, words))}, found {found!r}")
        if (self.clip is not None and not (isfinite(self.clip) and self.clip > 0)) or not self.select:
            raise ValueError("clip must be a positive number, or None, and select must name a criterion")

    def steps_per_epoch(self, n_train: int) -> int:
        """Return the number of optimiser steps of one epoch over ``n_train`` items."""
        return ceil(n_train / self.batch_size)

    def total_steps(self, n_train: int) -> int:
        """Return the number of optimiser steps of all epochs, early stopping aside."""
        return self.epochs * self.steps_per_epoch(n_train)

    def micro_batches(self, batch: list[int]) -> list[list[int]]:
        """Cut ``batch`` into runs of ``micro_batch`` items."""
        size = self.micro_batch or self.batch_size
        return [batch[start:start + size] for start in range(0, len(batch), size)]

    def rate_factor(self, step: int, total: int) -> float:
        """Return the factor on every learning rate at the 0-based ``step`` of ``total``."""
        if self.schedule == "constant":
            return warmup_then_constant(step, total, self.warmup)
        return warmup_then_decay(step, total, self.warmup)


def warmup_then_decay(step: int, total: int, warmup: float) -> float:
    """Return the factor on every learning rate at optimiser step ``step``.

    The rate rises over the first ``round(warmup * total)`` steps, reaches its full value at the last of
    them, and falls linearly so that it would be 0 at step ``total``, just after the end.

    Args:
        step: 0-based optimiser step.
        total: number of steps of all epochs.
        warmup: share of all steps.
    """
    rising = round(warmup * total)
    if step < rising:
        return (step + 1) / rising
    return (total - step) / max(1, total - rising)


def warmup_then_constant(step: int, total: int, warmup: float) -> float:
    """Return the factor on every learning rate: rising as in :func:`warmup_then_decay`, and 1 from then on."""
    rising = round(warmup * total)
    return (step + 1) / rising if step < rising else 1.0
