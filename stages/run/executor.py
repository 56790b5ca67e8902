"""A new part for each part of a table, made by this process, by several, or by workers of a Dask cluster."""

import importlib
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

from keycontrast.errors import InputError
from keycontrast.files import flush_path, sha256_of
from keycontrast.progress import progress_bar
from stages.common.settings import Values, hash_code
from stages.common.tables import TableWriter, footers
from stages.run.process import StageProcess
from stages.run.processes import die_with

# Reads a part, writes the new one to the second path, and returns counts as JSON values.
MakePart = Callable[[Path, Path], Mapping[str, Any]]
Job = tuple[Path, Path, Path]     # pickled maker and arguments, part, new part
# The function that makes parts, by its pickle: loaded once per process, used by one thread at a time.
_LOADED: dict[Path, MakePart] = {}
_LOCK = Lock()


@dataclass(frozen=True)
class Executor:
    """Makes parts by processes, or by the cluster of a block ``cluster``; finished parts are kept in ``folder``."""

    what: str
    folder: Path
    workers: int = 1
    cluster: Values | None = None

    @classmethod
    def of(cls, process: StageProcess, key: str) -> "Executor":
        """Return the executor of a stage's params; ``key`` is a hash of all that decides the parts but the input."""
        cluster = process.params.cluster
        return cls(process.name, process.scratch / "parts" / key, process.params.runtime.workers,
                   cluster if cluster.address or cluster.scheduler_file else None)

    def make(self, source: Path, maker: Callable[..., MakePart], arguments: tuple[Any, ...],
             writer: TableWriter) -> list[Mapping[str, Any]]:
        """Add a part to ``writer`` for each part of table ``source``, and return the counts of each.

        ``maker``, a function of a module, is called once per process with ``arguments`` and returns a ``MakePart``.
        """
        for other in self.folder.parent.glob("*"):
            if other.name != self.folder.name:
                # Made with other params or other code; a worker of a cluster may still write to it.
                shutil.rmtree(other, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        work = self.folder / "work.pickle"
        _LOADED.clear()
        work.write_bytes(pickle.dumps(((maker.__module__, maker.__qualname__), arguments)))
        rows = {part: footer.num_rows for part, footer in footers(source).items()}
        results = {part: self.folder / f"{sha256_of(part)}.parquet" for part in rows}
        missing = [part for part, result in results.items() if not result.exists()]
        total = sum(rows.values())
        with progress_bar(self.what, total, "text", total - sum(rows[part] for part in missing)) as bar:
            for number in self._finished([(work, part, results[part]) for part in missing]):
                bar.update(rows[missing[number]])
        for result in results.values():
            writer.add_part(result)
        return [json.loads(result.with_suffix(".json").read_text()) for result in results.values()]

    def clear(self) -> None:
        """Remove finished parts, once the table is there."""
        shutil.rmtree(self.folder.parent)

    def _finished(self, jobs: list[Job]) -> Iterator[int]:
        """Yield the number of each job when it is done."""
        if self.cluster is not None:
            yield from self._on_cluster(jobs, self.cluster)
        elif min(self.workers, len(jobs)) > 1:
            yield from self._by_processes(jobs)
        else:
            for number, job in enumerate(jobs):
                make_part(*job)
                yield number

    def _by_processes(self, jobs: list[Job]) -> Iterator[int]:
        # Spawned, not forked: this process runs threads (guard, progress bar), whose locks a fork would copy.
        with ProcessPoolExecutor(self.workers, get_context("spawn"), die_with, (os.getpid(),)) as pool:
            numbers = {pool.submit(make_part, *job): number for number, job in enumerate(jobs)}
            try:
                for future in as_completed(numbers):
                    future.result()
                    yield numbers[future]
            except BrokenProcessPool as error:
                raise InputError(f"{self.what}: a worker process ended before its work was done, most often for lack "
                                 f"of memory. Lower runtime.workers (now {self.workers}) and try again; finished "
                                 f"parts are not made again.") from error
            finally:
                pool.shutdown(cancel_futures=True)

    def _on_cluster(self, jobs: list[Job], cluster: Values) -> Iterator[int]:
        if find_spec("distributed") is None:
            raise InputError("cluster.address needs Dask, which is not installed: pip install 'keycontrast[cluster]', "
                             "or set cluster.address to null to use processes of this machine.")
        from distributed import KilledWorker
        from distributed import as_completed as completed
        from distributed.comm.core import CommClosedError

        with _client(cluster, self.workers) as client:
            numbers = {client.submit(make_part, *(path.resolve() for path in job), code_fingerprint(), Path.cwd(),
                                     pure=False): number for number, job in enumerate(jobs)}
            try:
                for future in completed(numbers, loop=client.loop):
                    future.result()
                    yield numbers[future]
            except KilledWorker as error:
                raise InputError(f"{self.what}: workers of the cluster died repeatedly at one part, most often for "
                                 f"lack of memory. Give them more and try again.") from error
            except (CancelledError, CommClosedError) as error:
                raise InputError(f"{self.what}: the connection to the scheduler was lost. Start it again; finished "
                                 f"parts are not made again.") from error


@contextmanager
def _client(cluster: Values, workers: int) -> Iterator[Any]:
    """Yield a client of a cluster that has workers."""
    from distributed import Client, LocalCluster

    if cluster.address == "local":
        with (LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as own,
              Client(own, set_as_default=False) as client):
            yield client
        return
    param = "cluster.address" if cluster.address else "cluster.scheduler_file"
    place, wait = f"{param}: {cluster.address or cluster.scheduler_file!r}", cluster.connect_timeout
    try:
        if cluster.scheduler_file:
            Path(cluster.scheduler_file).stat()  # the client would wait for it
        client = Client(cluster.address, scheduler_file=cluster.scheduler_file, timeout=wait, set_as_default=False)
    except (OSError, ValueError) as error:  # no scheduler there, no such file, or not an address
        raise InputError(f"{place}: no Dask scheduler answers ({error}). Start one with `dask scheduler`, correct "
                         f"{param}, or set it to null.") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=wait)
        except TimeoutError as error:
            raise InputError(f"{place}: the scheduler has no workers after {wait:g} seconds. Start some with `dask "
                             f"worker --nthreads 1`, or raise cluster.connect_timeout.") from error
        yield client


def make_part(work: Path, part: Path, result: Path, code: str | None = None, folder: Path | None = None) -> None:
    """Make one part; on a cluster, with paths relative to ``folder``, after a check of files and code."""
    if code is not None and code != code_fingerprint():
        raise InputError("cluster.address: a worker runs another version of this project's code. Bring the code on "
                         "its machine up to date and restart the workers.")
    if not work.exists():
        raise InputError(f"cluster.address: a worker does not see {work}. All machines of the cluster need the file "
                         f"system that the project is on, under the same path.")
    with _LOCK:
        os.chdir(folder or ".")
        if work not in _LOADED:
            _LOADED.clear()
            (module, name), arguments = pickle.loads(work.read_bytes())  # noqa: S301 - written by this project
            _LOADED[work] = getattr(importlib.import_module(module), name)(*arguments)
        unfinished = result.with_suffix(f".{os.getpid()}.tmp")
        counts = _LOADED[work](part, unfinished)
        result.with_suffix(".json").write_text(json.dumps(counts))
        flush_path(result.with_suffix(".json"))
        flush_path(unfinished)
        unfinished.replace(result)


@cache
def code_fingerprint() -> str:
    """Return a hash of this project's code at the first call."""
    folders = (Path(__file__).resolve().parents[2] / name for name in ("keycontrast", "models", "stages"))
    return hash_code(path for folder in folders for path in folder.rglob("*.py"))
