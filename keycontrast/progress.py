"""A progress bar with rate and estimate; plain lines where no terminal is attached."""

import sys
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


def progress(items: Iterable[Item], what: str, unit: str = "it") -> Iterator[Item]:
    """Yield ``items`` under a bar."""
    with progress_bar(what, len(items) if isinstance(items, Sized) else None, unit) as bar:
        for item in items:
            yield item
            bar.update()


def progress_bar(what: str, total: int | None, unit: str = "it", done: int = 0, delay: float = 0.0) -> tqdm:
    """Return a bar to be updated by hand, shown after ``delay`` seconds; an interrupted run has ``done`` some items."""
    interval = 0.5 if sys.stderr.isatty() else 30.0
    return tqdm(total=total, desc=what, unit=unit, initial=done, mininterval=interval, file=sys.stderr,
                dynamic_ncols=True, leave=False, delay=delay)
