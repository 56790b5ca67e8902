"""A progress bar with rate and estimate; plain lines where no terminal is attached."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


def progress(items: Iterable[Item], what: str, total: int | None = None, unit: str = "it",
             done: int = 0) -> Iterator[Item]:
    """Yield ``items`` while showing how many are done, how fast, and how long the rest will take.

    Args:
        items: what to go through.
        what: a short name, such as ``train_hcl``.
        total: number of items, if ``items`` has no length.
        unit: name of one item.
        done: items finished by an earlier, interrupted run.
    """
    bar = progress_bar(what, total if total is not None else _length(items), unit, done)
    with bar:
        for item in items:
            yield item
            bar.update()


def progress_bar(what: str, total: int | None, unit: str = "it", done: int = 0) -> tqdm:
    """Return a bar to be updated by hand (same settings as :func:`progress`)."""
    interval = 0.5 if sys.stderr.isatty() else 30.0
    return tqdm(total=total, desc=what, unit=unit, initial=done, mininterval=interval, file=sys.stderr,
                dynamic_ncols=True, leave=False)


class TrainingBar:
    """The progress of a training: a bar of its steps, and in a log a line of each epoch.

    Args:
        what: name of the training, such as ``train_hcl@hcl``.
        total: steps in all.
        done: steps that an earlier, interrupted run has done.
        scratch: folder of its checkpoints.
    """

    def __init__(self, what: str, total: int, done: int, scratch: Path) -> None:
        self._what, self._total, self._first, self._done = what, total, done, done
        self._began = time.monotonic()
        self._bar = progress_bar(what, total, "step", done)
        if not sys.stderr.isatty():
            self._bar.write(f"{what}: step {done} of {total}; a line follows per epoch, and checkpoints are written to "
                            f"{scratch}", file=sys.stderr)

    def update(self, n: int = 1) -> None:
        """Count ``n`` more steps as done."""
        self._done += n
        self._bar.update(n)

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Write the line of an epoch, given its row of the history, where there is no terminal."""
        if sys.stderr.isatty():
            return
        left = (time.monotonic() - self._began) / max(self._done - self._first, 1) * (self._total - self._done)
        epochs = round(self._total * row["epoch"] / row["step"])
        values = "".join(f", {name} {value:.4g}" for name, value in row.items()
                         if name == "train_loss" or name.startswith("validation_"))
        self._bar.write(f"{self._what}: epoch {row['epoch']}/{epochs}{values}{', best so far' * row['best']}; "
                        f"{left:.0f} s left", file=sys.stderr)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()


def advance(bar: tqdm, amount: int, restored: bool = False) -> None:
    """Move ``bar`` on by ``amount``; what an earlier run had finished counts as done, but not in the rate."""
    if not restored:
        bar.update(amount)
        return
    bar.initial += amount
    bar.n += amount
    bar.last_print_n += amount


def _length(items: object) -> int | None:
    return len(items) if hasattr(items, "__len__") else None
