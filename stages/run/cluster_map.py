"""Chunks over a Dask cluster: submitted a few at a time to workers that run the same code as this process.

Dask is an optional extra and is imported only when an address is given. Start a cluster with
``dask scheduler`` and, on each machine, ``dask worker tcp://HOST:8786 --nworkers N --nthreads 1``. Scheduler and
workers need an environment that has this project.
"""

import asyncio
import hashlib
import importlib
import importlib.util
import logging
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from keycontrast.errors import InputError
from stages.run.log import logger

Answer = TypeVar("Answer")

# Functions that a worker keeps: stages that share a cluster take turns without loading their models anew.
_KEPT = 4
_MADE: dict[str, Callable[[Any], Any]] = {}
# A worker with several threads works on one chunk at a time: language pipelines are not made for two.
_LOCK = Lock()
# Seconds after which one who waits for a result looks whether there is still a connection.
_LOOK = 10.0
# A client whose scheduler is gone raises the first, and one that has given it up the others: there is nothing to ask.
_UNANSWERED = (OSError, AttributeError, KeyError)
_TALKATIVE = ("distributed.client", "distributed.batched")

LOCAL = "local"
GPU = "GPU"


@dataclass(frozen=True)
class Cluster:
    """Block ``cluster`` of the params: where chunks are worked on; never decides bytes.

    Attributes:
        address: of a Dask scheduler; ``local`` starts one here.
        scheduler_file: that ``dask scheduler --scheduler-file`` writes, in place of an address.
        connect_timeout: seconds in which the scheduler must answer and have a worker.
        workers: processes of a local one.
    """

    address: str | None = None
    scheduler_file: str | None = None
    connect_timeout: float = 60.0
    workers: int = 1

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Cluster | None":
        """Return what all ``params`` of a stage ask for; None if the work stays with processes of its own."""
        block = params["cluster"]
        if block["address"] is None and block["scheduler_file"] is None:
            return None
        return cls(**block, workers=params["runtime"]["workers"])

    @property
    def place(self) -> str:
        """What messages call it."""
        return self.address or f"that {self.scheduler_file} names"

    @property
    def given(self) -> tuple[str, str | None]:
        """The param that names it, and what that says."""
        return ("cluster.scheduler_file", self.scheduler_file) if self.address is None else (
            "cluster.address", self.address)


@contextmanager
def cluster_jobs(make: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...], what: str, cluster: Cluster,
                 gpu: bool = False) -> Iterator[tuple[Callable[[Any], Callable[[], Any]], Callable[[], int]]]:
    """Yield what submits a chunk to ``cluster`` and returns what waits for its result, and how many may be under way.

    Each worker process makes its function once and keeps it for later chunks and later runs. With ``gpu``, chunks go to
    workers that were started with ``--resources GPU=1``, if there are any; to all of them if there are none, which is
    logged.

    Raises:
        InputError: Dask is not installed, the scheduler cannot be reached, it has no workers, one of them runs
            other code, or workers were lost.
    """
    if importlib.util.find_spec("distributed") is None:
        raise InputError("cluster.address needs Dask, which is not installed: pip install 'keycontrast[cluster]', "
                         "or set cluster.address to null to use processes of this machine.")
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    maker = maker_name(make)
    packed = pickle.dumps((maker, arguments))
    key, address = hashlib.sha256(packed).hexdigest(), cluster.place
    lost = InputError(f"{what}: the connection to the scheduler at {address} was lost. Start it again; finished chunks "
                      f"are not worked on twice.")
    with _without_tracebacks(), _client(cluster, lost) as client:
        try:
            resources = {GPU: 1} if gpu and _workers_with_gpu(client, what, address, lost) else None
            # A result of its own, and not part of every job: it goes to each worker once, from one to the next, and is
            # made anew if the worker that held it is lost, which data that were scattered are not. It is cancelled with
            # the connection, for good.
            held = client.submit(bytes, packed, pure=False)

            def connected() -> Any:
                if held.cancelled():  # known at once; whoever asks all the same waits as long as one may to connect
                    raise lost
                return client

            yield (lambda chunk: partial(_result, connected().submit(work, key, held, code_fingerprint(), chunk,
                                                                     pure=False, resources=resources), held, lost),
                   lambda: 2 * max(1, len(_answer(connected().nthreads, lost))))
        except KilledWorker as error:
            raise InputError(f"{what}: workers at {address} died again and again over one chunk, most often for want "
                             f"of memory. Give them more, or lower the number of texts per chunk.") from error
        except (CancelledError, CommClosedError, ClosedClientError) as error:
            raise lost from error
        except RuntimeError as error:
            if "deserialization" not in str(error):
                raise
            raise InputError(f"{what}: the scheduler at {address} does not know this project's code. Start it, and its "
                             f"workers, in an environment where this project is installed.") from error


def _result(job: Any, held: Any, lost: InputError) -> Any:
    """Return the result of ``job``; raise what it raised, or ``lost`` with the connection.

    The client calls off what it knows of when the connection goes, which may not be what another thread submits at that
    very moment; ``held`` it does know.
    """
    while True:
        try:
            job.exception(timeout=_LOOK)
            break
        except TimeoutError as error:
            if held.cancelled():
                raise lost from error
    try:
        return job.result()
    except OSError as error:
        if job.status == "error":  # the chunk's own
            raise
        raise lost from error


def _answer(question: Callable[[], Answer], lost: InputError) -> Answer:
    try:
        return question()
    except _UNANSWERED as error:
        raise lost from error


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Keep the client's thread from telling, with tracebacks, of a connection that is lost: that is said in words."""

    def told(record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or not issubclass(kind, (OSError, asyncio.CancelledError))

    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    for each in loggers:
        each.addFilter(told)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(told)


@contextmanager
def _client(cluster: Cluster, lost: InputError) -> Iterator[Any]:
    client = _connected(cluster)
    try:
        if cluster.address != LOCAL:
            _wait_for_workers(client, cluster, lost)
        yield client
    finally:
        ours = client.cluster  # started for this call alone; None if it is somebody's
        client.close()
        if ours is not None:
            ours.close()


def _connected(cluster: Cluster) -> Any:
    from distributed import Client, LocalCluster

    if cluster.address == LOCAL:
        return Client(LocalCluster(n_workers=cluster.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"),
                      set_as_default=False)
    param, named = cluster.given
    given: dict[str, Any] = {"address": cluster.address}
    if cluster.address is None:
        if not Path(str(cluster.scheduler_file)).exists():
            raise InputError(f"cluster.scheduler_file: {named!r} is not there. Start a scheduler with `dask scheduler "
                             f"--scheduler-file {named}`, correct the name, or set it to null.")
        given = {"scheduler_file": cluster.scheduler_file}
    try:
        return Client(**given, timeout=cluster.connect_timeout, set_as_default=False)
    except (OSError, ValueError) as error:  # nobody listens; no address at all
        raise InputError(f"{param}: no Dask scheduler answers at {named!r} ({error}). Start one with `dask scheduler`, "
                         f"correct {param}, or set it to null.") from error


def _wait_for_workers(client: Any, cluster: Cluster, lost: InputError) -> None:
    from distributed.exceptions import WorkerStartTimeoutError

    param, named = cluster.given
    try:
        client.wait_for_workers(1, timeout=cluster.connect_timeout)
    except WorkerStartTimeoutError as error:
        given_to_workers = cluster.address or f"--scheduler-file {named}"
        raise InputError(f"{param}: the scheduler at {named!r} has no workers after {cluster.connect_timeout:g} "
                         f"seconds. Start some with `dask worker {given_to_workers} --nthreads 1`, or raise "
                         f"cluster.connect_timeout where they take longer to come.") from error
    except _UNANSWERED as error:
        raise lost from error


def _workers_with_gpu(client: Any, what: str, place: str, lost: InputError) -> bool:
    workers = _answer(lambda: client.scheduler_info(n_workers=-1)["workers"], lost)
    found = any(GPU in worker["resources"] for worker in workers.values())
    if not found:
        logger("cluster").warning("%s: no worker of the cluster %s was started with --resources GPU=1, so any may take "
                                  "its chunks", what, place)
    return found


def work(key: str, packed: bytes, code: str, chunk: Any) -> Any:
    """Work on ``chunk`` in a worker of the cluster, with the function that it has made once.

    Args:
        key: SHA-256 of ``packed``, by which a worker keeps its functions.
        packed: module and name of what makes the function, and what that needs, pickled.
        code: fingerprint of the code of the process that asks.
        chunk: piece of work.

    Raises:
        InputError: this worker was started with other code, whose results might differ.
    """
    if code_fingerprint() != code:
        raise InputError("cluster.address: a worker runs another version of this project's code. Bring the code on "
                         "its machine up to date and restart the workers.")
    with _LOCK:
        if key not in _MADE:
            while len(_MADE) >= _KEPT:
                del _MADE[next(iter(_MADE))]
            maker, arguments = pickle.loads(packed)  # noqa: S301 - from the process that asks, as is the job itself
            module, _, name = maker.partition(":")
            _MADE[key] = getattr(importlib.import_module(module), name)(*arguments)
        return _MADE[key](chunk)


def maker_name(make: Callable[..., Any]) -> str:
    """Return ``module:name`` of a function, under which any process finds it.

    A stage that runs as ``python -m stages.annotate.annotate`` is called ``__main__`` in its own process alone.
    """
    module = make.__module__
    if module == "__main__":
        spec = sys.modules["__main__"].__spec__
        if spec is None:
            raise ValueError(f"{make.__qualname__} stands in a script, where workers cannot find it")
        module = spec.name
    return f"{module}:{make.__qualname__}"


@cache
def code_fingerprint() -> str:
    """Return a hash of the code that workers run, all but that of ``pipeline``, as it was when first asked for.

    A worker asks with its first chunk, when it imports that code; if files change afterwards its answer does
    not, which is right, because neither does what it runs.
    """
    root = Path(__file__).resolve().parents[2]  # of a clone
    digest = hashlib.sha256()
    for path in sorted((path for name in ("keycontrast", "models", "stages") for path in (root / name).rglob("*.py")),
                       key=lambda path: path.relative_to(root).as_posix()):
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
