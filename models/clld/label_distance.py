"""Label distance matrices: static ones, and the one that follows a model's confusions (CLLD, Algorithm 1).

A matrix LDM (N, N) holds d_ab >= 1 of each pair of classes. 1 everywhere is plain supervised contrast; tau = 5.0 is
the distance of pairs that a static matrix names, and the largest of an adaptive one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import combinations
from math import ceil

import torch
from torch import Tensor

TAU = 5.0
_EVALUATIONS = 10  # of an epoch
_PER_UPDATE = 10  # evaluations from one update to the next; none is in the first fifth of all steps

def static_tau_pairs(n_classes: int, pairs: Iterable[tuple[int, int]]) -> Tensor:
    """Return tau at the places of ``pairs``, both ways, and 1 elsewhere, the diagonal among them (N, N).

    Args:
        n_classes: N.
        pairs: indices of confusable classes, unordered.

    Raises:
        ValueError: a pair is of one class, or names a class that there is not.
    """
    ldm = torch.ones(n_classes, n_classes)
    for a, b in pairs:
        if a == b or not (0 <= a < n_classes and 0 <= b < n_classes):
            raise ValueError(f"static_tau_pairs: ({a}, {b}) is no pair of two of the classes 0 .. {n_classes - 1}")
        ldm[a, b] = ldm[b, a] = TAU
    return ldm


def pairs_within(groups: Iterable[Sequence[str]], classes: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of classes that are together in a group, as sorted indices (a, b) with a < b.

    Args:
        groups: class names, or patterns such as ``comp.*``, that belong together.
        classes: name of each class, by index.

    Raises:
        ValueError: a name or pattern fits no class.
    """
    pairs: set[tuple[int, int]] = set()
    for group in groups:
        members = {number for pattern in group for number in _fitting(pattern, classes)}
        pairs.update(combinations(sorted(members), 2))
    return sorted(pairs)


def _fitting(pattern: str, classes: Sequence[str]) -> list[int]:
    found = [number for number, name in enumerate(classes) if fnmatchcase(name, pattern)]
    if not found:
        near = get_close_matches(pattern, classes, n=1, cutoff=0.0)
        raise ValueError(f"label distance: no class fits {pattern!r}; the nearest is {', '.join(near) or 'none'}")
    return found


def counted_distance(confusion: Tensor) -> Tensor:
    """Return the matrix NEW = COUNT(CM) that a confusion matrix asks for (N, N) float64, symmetric and in [1, tau].

    NEW_ij = 1 + (tau - 1) S_ij / max S with S = (P + P^T) / 2, P_ij the share of class i that is taken for class j, and
    P_ii = 0. All of it is 1 where nothing is confused.

    Args:
        confusion: counts on the validation set (N, N), rows true, columns predicted.

    Raises:
        ValueError: the matrix is not square.

    References:
        CLLD, Algorithm 1, lines 6-8, as docs/clld.md reads it.
    """
    if confusion.dim() != 2 or len(confusion) != confusion.shape[1]:
        raise ValueError(f"counted_distance: the confusion matrix is {tuple(confusion.shape)}, expected (N, N)")
    counts = confusion.double()
    # P; a class without a text has none
    shares = counts.clone().fill_diagonal_(0.0) / counts.sum(1, keepdim=True).clamp(min=1.0)
    symmetric = (shares + shares.t()) / 2
    largest = symmetric.max()
    return 1.0 + (TAU - 1.0) * symmetric / torch.where(largest > 0, largest, torch.ones_like(largest))


def update_label_distance(ldm: Tensor, confusion: Tensor, strength: float) -> Tensor:
    """Return LDM + e (NEW - LDM), without a gradient: how far the matrix goes towards what the confusions ask for.

    >>> confusion = torch.tensor([[8, 2], [0, 10]])
    >>> update_label_distance(torch.ones(2, 2), confusion, strength=0.5)
    tensor([[1., 3.],
            [3., 1.]])

    Args:
        ldm: the running matrix (N, N).
        confusion: counts on the validation set (N, N), rows true, columns predicted.
        strength: e in [0, 1]; 0 changes nothing, 1 gives NEW.

    Raises:
        ValueError: a strength outside [0, 1], or matrices of different sizes.

    References:
        CLLD, Algorithm 1, line 10, as docs/clld.md reads it (as printed it changes nothing).
    """
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"update_label_distance: the strength is {strength}, expected a number in [0, 1]")
    if ldm.shape != confusion.shape:
        raise ValueError(f"update_label_distance: LDM is {tuple(ldm.shape)}, the confusion matrix "
                         f"{tuple(confusion.shape)}")
    new = counted_distance(confusion).to(ldm.device)
    return torch.lerp(ldm.detach().double(), new, strength).to(ldm.dtype)  # exact at both ends


@dataclass(frozen=True)
class AdaptiveSchedule:
    """When an adaptive matrix is updated, and how far (Algorithm 1).

    An update is at every tenth evaluation, and an epoch has ten evaluations, as near as whole steps allow (ours).

    Attributes:
        epochs: n, as planned.
        steps_per_epoch: optimiser steps.
    """

    epochs: int
    steps_per_epoch: int

    @property
    def interval(self) -> int:
        """Optimiser steps between evaluations, k."""
        return max(1, self.steps_per_epoch // _EVALUATIONS)

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all epochs as planned: early stopping does not change it."""
        return self.epochs * self.steps_per_epoch

    def epoch_of(self, steps: int) -> int:
        """Return the 1-based epoch that the last of ``steps`` optimiser steps belongs to."""
        return ceil(steps / self.steps_per_epoch)

    def updates(self, steps: int) -> bool:
        """Return whether the matrix is updated after so many optimiser steps: from the 11th of 50 epochs on."""
        return steps % (self.interval * _PER_UPDATE) == 0 and 5 * steps > self.total_steps

    def update_steps(self) -> list[int]:
        """Return after how many optimiser steps an update comes that a later step can feel."""
        between = self.interval * _PER_UPDATE
        return [steps for steps in range(between, self.total_steps, between) if self.updates(steps)]

    def strength(self, steps: int) -> float:
        """Return e = 1 - steps / total steps."""
        return 1.0 - steps / self.total_steps
