"""Fixed chunks over worker processes of our own: the same results, in the same order, for any number."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

from stages.runtime.errors import InputError
from stages.runtime.guard import die_with, process_mark
from stages.runtime.progress import progress

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

_MADE: list[Callable[[Any], Any]] = []


def map_chunks(make: Callable[..., Callable[[Chunk], Result]], arguments: tuple[Any, ...],
               chunks: Sequence[Chunk], workers: int, what: str) -> Iterator[Result]:
    """Yield ``make(*arguments)(chunk)`` for each chunk, in order, under a progress bar.

    Args:
        make: makes the function that does the work; called once per process, so that each worker loads its
            model once. A function of a module, since workers find it by name.
        arguments: what ``make`` needs; picklable.
        chunks: the pieces of work, cut without regard to ``workers``; picklable, as are the results.
        workers: processes; with one, or one chunk, the work is done in this process.
        what: name shown by the bar.

    Raises:
        InputError: a worker was killed, most often for want of memory.
    """
    results = (_inline if min(workers, len(chunks)) <= 1 else _spread)(make, arguments, chunks, workers, what)
    yield from progress(results, what, total=len(chunks), unit="chunk")


def _inline(make: Callable[..., Callable[[Chunk], Result]], arguments: tuple[Any, ...], chunks: Sequence[Chunk],
            workers: int, what: str) -> Iterator[Result]:
    return map(make(*arguments), chunks)


def _spread(make: Callable[..., Callable[[Chunk], Result]], arguments: tuple[Any, ...], chunks: Sequence[Chunk],
            workers: int, what: str) -> Iterator[Result]:
    workers = min(workers, len(chunks))
    # Spawned, not forked: this process runs threads (guard, progress bar), whose locks a fork would copy.
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin,
                             (process_mark(os.getpid()), make, arguments)) as executor:
        try:
            rest = iter(chunks)
            # Few chunks under way at a time, so that neither chunks nor results pile up.
            pending: deque[Future[Result]] = deque(executor.submit(_work, c) for c in islice(rest, 2 * workers))
            while pending:
                result = pending.popleft().result()
                pending.extend(executor.submit(_work, chunk) for chunk in islice(rest, 1))
                yield result
        except BrokenProcessPool as error:
            raise InputError(f"{what}: a worker process ended before its work was done, most often for want of "
                             f"memory. Lower runtime.workers (now {workers}) and try again.") from error
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _begin(parent: str | None, make: Callable[..., Callable[[Chunk], Result]], arguments: tuple[Any, ...]) -> None:
    """Prepare a worker: it dies with its parent and makes its function once."""
    die_with([parent] if parent else [])
    _MADE[:] = [make(*arguments)]


def _work(chunk: Any) -> Any:
    return _MADE[0](chunk)
