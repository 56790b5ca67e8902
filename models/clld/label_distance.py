"""Label distance matrices: static ones, and the one that follows a model's confusions (CLLD, Algorithm 1).

A matrix LDM (N, N) holds d_ab >= 1 of each pair of classes. 1 everywhere is plain supervised contrast; tau = 5.0 is
the distance of pairs that a static matrix names, and the largest of an adaptive one (METHODS D.3).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import combinations
from math import ceil, inf
from typing import Literal

import torch
from torch import Tensor

from models.common.training import Settings

Rule = Literal["minmax_sym", "counts_sym", "prob", "log1p", "raw"]
RULES: tuple[Rule, ...] = ("minmax_sym", "counts_sym", "prob", "log1p", "raw")
ShareOf = Literal["texts", "errors"]
TAU = 5.0

# Classes of 20 Newsgroups that are hard to tell apart: every pair within a line (METHODS D.3, ours).
NEWSGROUPS: tuple[tuple[str, ...], ...] = (
    ("alt.atheism", "soc.religion.christian", "talk.religion.misc"),
    ("comp.*",),
    ("talk.politics.*",),
    ("rec.autos", "rec.motorcycles"),
    ("rec.sport.baseball", "rec.sport.hockey"),
)


def uniform_distance(n_classes: int) -> Tensor:
    """Return the matrix of ones (N, N): CT+CL, and where an adaptive matrix begins."""
    return torch.ones(n_classes, n_classes)


def static_tau_pairs(n_classes: int, pairs: Iterable[tuple[int, int]], tau: float = TAU) -> Tensor:
    """Return tau at the places of ``pairs``, both ways, and 1 elsewhere, the diagonal among them (N, N).

    Args:
        n_classes: N.
        pairs: indices of confusable classes, unordered.
        tau: their distance.

    Raises:
        ValueError: a pair is of one class, or names a class that there is not.
    """
    ldm = uniform_distance(n_classes)
    for a, b in pairs:
        if a == b or not (0 <= a < n_classes and 0 <= b < n_classes):
            raise ValueError(f"static_tau_pairs: ({a}, {b}) is no pair of two of the classes 0 .. {n_classes - 1}")
        ldm[a, b] = ldm[b, a] = tau
    return ldm


def static_tau_all(n_classes: int, tau: float = TAU) -> Tensor:
    """Return tau off the diagonal and 1 on it (N, N)."""
    return torch.full((n_classes, n_classes), float(tau)).fill_diagonal_(1.0)


def pairs_within(groups: Iterable[Sequence[str]], classes: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of classes that are together in a group, as sorted indices (a, b) with a < b.

    Args:
        groups: class names, or patterns such as ``comp.*``, that belong together; e.g. ``NEWSGROUPS``.
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


def given_distance(rows: Sequence[Sequence[float]], n_classes: int) -> Tensor:
    """Return a matrix that is given as rows (N, N).

    Raises:
        ValueError: it is not N x N, or a distance is below 1 or no number.
    """
    if len(rows) != n_classes or any(len(row) != n_classes for row in rows):
        raise ValueError(f"given_distance: {len(rows)} rows of {sorted({len(row) for row in rows})} distances are no "
                         f"matrix of {n_classes} classes")
    if not all(1 <= distance < inf for row in rows for distance in row):
        raise ValueError("given_distance: a distance is a finite number of 1 or more")
    return torch.tensor(rows, dtype=torch.float32)


def counted_distance(confusion: Tensor, rule: Rule = "minmax_sym", tau: float = TAU, share_of: ShareOf = "texts",
                     least_support: int = 1) -> Tensor:
    """Return the matrix NEW = COUNT(CM) that a confusion matrix asks for (N, N) float64.

    Rules, with P_ij the share of class i that is taken for class j, and 1 on the diagonal except for ``raw``:

    - ``minmax_sym``: 1 + (tau - 1) S_ij / max S with S = (P + P^T) / 2: symmetric, in [1, tau];
    - ``counts_sym``: the same with S = CM + CM^T, of numbers of texts: two classes that swap one text are near 1 where
      others swap thirty, however small they are (of shares, one text of a class of one is the largest there is);
    - ``prob``: 1 + (tau - 1) P_ij, in [1, tau];
    - ``log1p``: 1 + log(1 + CM_ij), without bound;
    - ``raw``: max(1, CM_ij), the diagonal too: literal, for study alone (a similarity times 300 overflows).

    Args:
        confusion: counts on the validation set (N, N), rows true, columns predicted.
        rule: ``ald_count``.
        tau: the largest distance of ``minmax_sym``, ``counts_sym`` and ``prob``.
        share_of: P divides by the ``texts`` of class i, right ones too, or by its ``errors``, which gives a class with
            a single error the largest share.
        least_support: a pair that is confused fewer times than this, both ways together, counts as never confused: its
            distance is 1. 1 leaves nothing out.

    Raises:
        ValueError: the rule is unknown, or the matrix is not square.

    References:
        CLLD, Algorithm 1, lines 6-8; METHODS D.3.
    """
    if confusion.dim() != 2 or len(confusion) != confusion.shape[1]:
        raise ValueError(f"counted_distance: the confusion matrix is {tuple(confusion.shape)}, expected (N, N)")
    if rule not in RULES:
        raise ValueError(f"counted_distance: ald_count is {rule!r}, expected one of {', '.join(RULES)}")
    counts = confusion.double()
    mistaken = counts.clone().fill_diagonal_(0.0)
    errors = mistaken.masked_fill(mistaken + mistaken.t() < least_support, 0.0)
    if rule == "raw":
        return (errors + counts.diagonal().diag()).clamp(min=1.0)
    if rule == "log1p":
        return 1.0 + errors.log1p()
    if rule == "counts_sym":
        return _scaled(errors + errors.t(), tau)
    whole = counts if share_of == "texts" else mistaken
    shares = errors / whole.sum(1, keepdim=True).clamp(min=1.0)  # P; a class without a text has none
    if rule == "prob":
        return 1.0 + (tau - 1.0) * shares
    return _scaled((shares + shares.t()) / 2, tau)


def _scaled(symmetric: Tensor, tau: float) -> Tensor:
    """Return S (N, N) scaled to [1, tau]; 1 where S is 0 everywhere."""
    largest = symmetric.max()
    return 1.0 + (tau - 1.0) * symmetric / torch.where(largest > 0, largest, torch.ones_like(largest))


def update_label_distance(ldm: Tensor, confusion: Tensor, strength: float, rule: Rule = "minmax_sym",
                          tau: float = TAU, share_of: ShareOf = "texts", least_support: int = 1) -> Tensor:
    """Return LDM + e (NEW - LDM), without a gradient: how far the matrix goes towards what the confusions ask for.

    >>> confusion = torch.tensor([[8, 2], [0, 10]])
    >>> update_label_distance(torch.ones(2, 2), confusion, strength=0.5, rule="prob")
    tensor([[1.0000, 1.4000],
            [1.0000, 1.0000]])

    Args:
        ldm: the running matrix (N, N).
        confusion: counts on the validation set (N, N), rows true, columns predicted.
        strength: e in [0, 1]; 0 changes nothing, 1 gives NEW.
        rule, tau, share_of, least_support: see :func:`counted_distance`.

    Raises:
        ValueError: a strength outside [0, 1], matrices of different sizes, or as of :func:`counted_distance`.

    References:
        CLLD, Algorithm 1, line 10, read as METHODS D.3 resolves it (as printed it changes nothing).
    """
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"update_label_distance: the strength is {strength}, expected a number in [0, 1]")
    if ldm.shape != confusion.shape:
        raise ValueError(f"update_label_distance: LDM is {tuple(ldm.shape)}, the confusion matrix "
                         f"{tuple(confusion.shape)}")
    new = counted_distance(confusion, rule, tau, share_of, least_support).to(ldm.device)
    return torch.lerp(ldm.detach().double(), new, strength).to(ldm.dtype)  # exact at both ends


@dataclass(frozen=True)
class AdaptiveSchedule:
    """When an adaptive matrix is updated, and how far (Algorithm 1).

    Attributes:
        epochs: n, as planned.
        steps_per_epoch: optimiser steps.
        per_update: evaluations per update.
        per_epoch: evaluations per epoch, as near as whole steps allow (ours).
        start: share of all steps before the first update.
    """

    epochs: int
    steps_per_epoch: int
    per_update: int = 10
    per_epoch: int = 10
    start: float = 0.2

    @classmethod
    def of(cls, settings: Settings, n_train: int, per_update: int = 10, per_epoch: int = 10,
           start: float = 0.2) -> "AdaptiveSchedule":
        """Return the schedule of a training of so many items under the settings of the loop."""
        return cls(settings.epochs, settings.steps_per_epoch(n_train), per_update, per_epoch, start)

    @property
    def interval(self) -> int:
        """Optimiser steps between evaluations, k."""
        return max(1, self.steps_per_epoch // self.per_epoch)

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all epochs as planned: early stopping does not change it."""
        return self.epochs * self.steps_per_epoch

    def epoch_of(self, steps: int) -> int:
        """Return the 1-based epoch that the last of ``steps`` optimiser steps belongs to."""
        return ceil(steps / self.steps_per_epoch)

    def updates(self, steps: int) -> bool:
        """Return whether the matrix is updated after so many optimiser steps.

        It is at the end of every tenth evaluation, after a fifth of all steps: from the 11th of 50 epochs on. Of three
        epochs, half a share is one and a half.
        """
        return steps % (self.interval * self.per_update) == 0 and steps > self.waiting

    @property
    def waiting(self) -> float:
        """Optimiser steps after which the first update may be."""
        return round(self.start * self.total_steps, 6)  # 0.07 * 1000 is a little more than 70

    def update_steps(self) -> list[int]:
        """Return after how many optimiser steps an update comes that a later step can feel."""
        between = self.interval * self.per_update
        return [steps for steps in range(between, self.total_steps, between) if self.updates(steps)]

    def strength(self, steps: int) -> float:
        """Return e = 1 - steps / total steps."""
        return 1.0 - steps / self.total_steps
