"""Timing side by side: interleaved repeats, medians and ratios, and the peak memory of a fresh process.

    rows = compare({"ours": ours, "the peer": peer}, repeats=5, items=1000, unit="texts")
    rows[1].ratio                      # how many times as long the peer takes
    peak_memory(work, 100_000)         # MiB
"""

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

from stages.common.settings import module_of

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Context:
    """What a benchmark is asked for.

    Attributes:
        repeats: counted runs of each contender.
        quick: sizes so small that the figures mean nothing, for the tests.
        peer: folder of the public PGKPR code; see ``benchmarks.pgkpr_parity``.
    """

    repeats: int = 5
    quick: bool = False
    peer: Path | None = None


@dataclass(frozen=True)
class Row:
    """One contender.

    Attributes:
        name: of the contender.
        median: seconds of a run.
        minimum: seconds of the fastest run.
        maximum: seconds of the slowest.
        rate: items per second at the median; None where nothing is counted.
        unit: name of the items.
        ratio: median over the first contender's median, so 10 means ten times as long as ours.
    """

    name: str
    median: float
    minimum: float
    maximum: float
    rate: float | None
    unit: str
    ratio: float


@dataclass(frozen=True)
class Section:
    """One comparison.

    Attributes:
        title: what is compared.
        workload: on what: how many texts of what length, how many threads.
        agreement: what was checked before anything was timed, with the figure.
        rows: contenders, ours first.
        notes: sentences on what the figures do not show.
        table: further measurements, such as a curve over sizes; rows with the same keys.
    """

    title: str
    workload: str
    agreement: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    table: list[dict[str, Any]] | None = None


class Disagreement(RuntimeError):
    """Two contenders do not give the same answers, so their times cannot be compared."""


def compare(contenders: dict[str, Callable[[], Any]], repeats: int, warmup: int = 1, items: int | None = None,
            unit: str = "texts") -> list[Row]:
    """Time ``contenders`` in turn (A B A B ...), so that a machine that slows down slows all of them.

    Args:
        contenders: name and work, ours first.
        repeats: counted runs of each.
        warmup: runs of each that are not counted.
        items: how many items one run works on.
        unit: name of an item.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(-warmup, repeats):
        for name, work in contenders.items():
            gc.collect()
            started = time.perf_counter()
            work()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - started)
    first = median(next(iter(seconds.values())))
    return [Row(name, median(runs), min(runs), max(runs), items / median(runs) if items else None, unit,
                median(runs) / first) for name, runs in seconds.items()]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch take ``count`` threads within the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_apart(name: str, context: Context) -> list[Section]:
    """Run benchmark ``name`` in a process of its own, so that none finds what another has loaded."""
    sys.stderr.write(f"benchmarks: {name} ...\n")
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(_run, name, context).result()


def _run(name: str, context: Context) -> list[Section]:
    return import_module(f"benchmarks.{name}").run(context)


def peak_memory(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the MiB that ``function(*arguments)`` needs at its peak above what its process had before.

    The process is fresh (spawned), so nothing else counts; ``function`` must be found by name and its arguments
    be picklable.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(_peak, function, arguments).result()


def _peak(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    gc.collect()
    if _RESET.exists():
        _RESET.write_text("5")  # the high-water mark begins anew at what is in use
    before = high_water()
    function(*arguments)
    return high_water() - before


def peak_anonymous(function: Callable[..., Any], *arguments: Any) -> float:
    """Return as :func:`peak_memory` does, of memory that only swap could free: files that are mapped do not count.

    Looked at fifty times a second; where the kernel does not tell it apart, all memory counts.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(_peak_anonymous, function, arguments).result()


def _peak_anonymous(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    if _anonymous() is None:
        return _peak(function, arguments)
    gc.collect()
    before, over, most = _anonymous() or 0.0, Event(), 0.0

    def look() -> None:
        nonlocal most
        while not over.wait(0.02):
            most = max(most, _anonymous() or 0.0)

    thread = Thread(target=look, daemon=True)
    thread.start()
    function(*arguments)
    over.set()
    thread.join()
    return max(most - before, 0.0)


def _anonymous() -> float | None:
    """Return the MiB in use that belong to no file; None where the kernel does not say."""
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    found = [line for line in lines if line.startswith("RssAnon:")]
    return int(found[0].split()[1]) / 1024 if found else None


def high_water() -> float:
    """Return the most memory this process has held, in MiB.

    Where the kernel says so it is read from there: ``ru_maxrss`` begins at the size of the parent.
    """
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**20 if sys.platform == "darwin" else 2**10)


def run_stage_in(folder: Path, stage: str, instance: str) -> None:
    """Run stage ``stage`` for ``instance`` in this process, with ``folder`` as the project's.

    Raises:
        RuntimeError: the stage failed; its message is on standard error.
    """
    before = Path.cwd()
    os.chdir(folder)
    try:
        if import_module(module_of(stage)).main([instance]) != 0:
            raise RuntimeError(f"stage {stage} failed in {folder}")
    finally:
        os.chdir(before)


def seconds_of(folder: Path, stage: str, instance: str) -> float:
    """Return how long the last run of a stage in ``folder`` took, its imports not counted."""
    return float(json.loads((folder / ".keycontrast" / "records" / f"{stage}@{instance}.json").read_text())["seconds"])
