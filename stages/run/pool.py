"""Fixed chunks over worker processes of our own, or over a Dask cluster: the same results, in the same order.

Work is cut into chunks without regard to who does it. Chunks are drawn from an iterator as workers become
free, few are under way at a time, and results are handed on in order, so memory stays flat however long the
corpus is.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any, TypeVar

from keycontrast.errors import InputError
from keycontrast.progress import progress_bar
from stages.common.chunk_store import Store
from stages.run.cluster_map import Cluster, cluster_jobs
from stages.run.processes import die_with
from stages.run.progress import advance

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
Make = Callable[..., Callable[[Chunk], Result]]

# In a worker process: makes the function that it works with, once.
_MAKER: list[Callable[[], Callable[[Any], Any]]] = []


@dataclass(frozen=True)
class Workers:
    """Who does the work.

    Attributes:
        submit: begins the work on a chunk and returns what waits for its result.
        width: how many chunks may be under way; asked anew each time, since a cluster grows and shrinks.
    """

    submit: Callable[[Any], Callable[[], Any]]
    width: Callable[[], int]


def map_chunks(make: Make[Chunk, Result], arguments: tuple[Any, ...], chunks: Iterable[Chunk], workers: int,
               what: str, *, cluster: Cluster | None = None, store: Store | None = None, total: int | None = None,
               unit: str = "chunk", gpu: bool = False,
               measure: Callable[[Chunk], int] | None = None) -> Iterator[Result]:
    """Yield ``make(*arguments)(chunk)`` for each chunk, in order, under a progress bar.

    Args:
        make: makes the function that does the work; called once per process, so that each worker loads its
            model once. A function of a module, since workers find it by name.
        arguments: what ``make`` needs; picklable.
        chunks: the pieces of work, cut without regard to ``workers``; picklable, as are the results. An
            iterator is drawn from only as fast as the work goes on.
        workers: processes; with one, or one chunk, the work is done in this process.
        what: name shown by the bar.
        cluster: whose workers then take the place of processes of our own.
        store: where finished chunks are kept until the caller clears it; chunks that it has are not worked on
            again.
        total: what ``measure`` gives for all chunks together; by default the number of chunks, if they have one.
        unit: name of what ``measure`` counts.
        gpu: whether workers of the cluster that have a GPU are to do it.
        measure: how much a chunk counts for the bar; 1 by default.

    Raises:
        InputError: a worker was killed, most often for want of memory; or the cluster cannot be used.
    """
    if total is None and measure is None and isinstance(chunks, Sized):
        total = len(chunks)
    first = list(islice(rest := iter(chunks), 2))
    found = _workers(make, arguments, workers if len(first) > 1 else 1, what, cluster, gpu)
    with progress_bar(what, total, unit) as bar, found as free:
        for chunk, restored, result in _in_order(chain(first, rest), free, store):
            yield result
            advance(bar, measure(chunk) if measure else 1, restored)


def _workers(make: Make[Any, Any], arguments: tuple[Any, ...], workers: int, what: str,
             cluster: Cluster | None, gpu: bool) -> AbstractContextManager[Workers]:
    if cluster is not None:
        return _cluster(make, arguments, what, cluster, gpu)
    return _here(make, arguments) if workers <= 1 else _processes(make, arguments, workers, what)


def _in_order(chunks: Iterator[Any], workers: Workers, store: Store | None) -> Iterator[tuple[Any, bool, Any]]:
    """Yield each chunk, whether its result was in the store, and the result."""

    def begin(chunk: Any) -> tuple[Any, bool, Callable[[], Any]]:
        path = store.find(chunk) if store else None
        if store and path:
            return chunk, True, partial(store.read, path)
        return chunk, False, workers.submit(chunk)

    # Few chunks under way at a time, so that neither chunks nor results pile up.
    pending = deque(map(begin, islice(chunks, workers.width())))
    while pending:
        chunk, restored, wait = pending.popleft()
        result = wait()
        if store and not restored:
            store.keep(chunk, result)
        pending.extend(map(begin, islice(chunks, max(1 - len(pending), workers.width() - len(pending), 0))))
        yield chunk, restored, result


@contextmanager
def _here(make: Make[Any, Any], arguments: tuple[Any, ...]) -> Iterator[Workers]:
    # Made only when there is a chunk to work on: a finished run that goes on loads no model.
    made = cache(partial(make, *arguments))
    yield Workers(lambda chunk: lambda: made()(chunk), lambda: 1)


@contextmanager
def _processes(make: Make[Any, Any], arguments: tuple[Any, ...], workers: int, what: str) -> Iterator[Workers]:
    # Spawned, not forked: this process runs threads (guard, progress bar), whose locks a fork would copy.
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin,
                             (os.getpid(), make, arguments)) as executor:
        try:
            yield Workers(lambda chunk: executor.submit(_work, chunk).result, lambda: 2 * workers)
        except BrokenProcessPool as error:
            raise InputError(f"{what}: a worker process ended before its work was done, most often for want of "
                             f"memory. Lower runtime.workers (now {workers}) and try again.") from error
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, make: Make[Any, Any], arguments: tuple[Any, ...]) -> None:
    """Prepare a worker: it dies with its parent and knows what to make."""
    die_with([parent])
    # Made with the first chunk and not before, so that what `make` raises arrives as it is.
    _MAKER[:] = [cache(partial(make, *arguments))]


def _work(chunk: Any) -> Any:
    return _MAKER[0]()(chunk)


@contextmanager
def _cluster(make: Make[Any, Any], arguments: tuple[Any, ...], what: str, cluster: Cluster,
             gpu: bool) -> Iterator[Workers]:
    with cluster_jobs(make, arguments, what, cluster, gpu) as (submit, width):
        yield Workers(submit, width)
