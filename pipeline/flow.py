"""DVC's DAG as a Prefect flow: DVC decides what is out of date and stores; Prefect orders, retries and records."""

import json
import logging
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.dag import Dag, StageNode
from pipeline.worker import BEGUN, StageCrash, StageFailure, Workers, log_path
from stages.run.errors import InputError

HOME = Path(".keycontrast", "prefect")
DATABASE, SERVER_LOG = HOME / "prefect.db", HOME / "server.log"
_API_URL = "PREFECT_API_URL"
# Those of a person who names a server of their own win over these.
_SETTINGS = {"PREFECT_LOGGING_LEVEL": "INFO", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
             "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore", "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
             "PREFECT_SERVER_UI_ENABLED": "false", "DO_NOT_TRACK": "1"}
_START_SECONDS, _STOP_SECONDS, _DELIVERY_SECONDS = 600.0, 5, 30.0
_LOGGED_CHARACTERS = 100_000


@dataclass
class Session:
    """What the tasks of one flow share; `gpus` has each GPU once for every stage that may share it.

    A parallel stage takes `processes` GPUs; `outcomes` are ``cached``, ``done`` or ``failed``.
    """

    dag: Dag
    workers: Workers
    show: Any
    at_once: int = 2
    gpus: list[str] = field(default_factory=list)
    processes: int = 1
    forced: frozenset[str] = frozenset()
    seconds: Mapping[str, float] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, StageFailure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, after = self.dag.upstream(node.name for node in self.dag.nodes if node.first), dict[str, float]()
        self._rank: dict[str, tuple[bool, float]] = {}
        for node in reversed(self.dag.nodes):  # by the longest way from a stage to the end
            way = self.seconds.get(node.name, 1.0) + after.get(node.name, 0.0)
            self._rank[node.name] = node.name not in first, -way
            after |= {name: max(after.get(name, 0.0), way) for name in node.upstream}
        self._waiting: list[StageNode] = []
        self._free, self._changed = list(self.gpus), threading.Condition()

    @contextmanager
    def place(self, node: StageNode) -> Iterator[list[str]]:
        """Wait until ``node`` may run, and yield its GPUs; all are taken under one lock."""
        with self._changed:
            self._waiting.append(node)
            self._changed.wait_for(lambda: self.workers.stopped or self._is_next(node))
            self._waiting.remove(node)
            gpus = list(dict.fromkeys(self._free))[:self._needed(node)]
            for gpu in gpus:
                self._free.remove(gpu)
            self.at_once -= 1
        try:
            yield gpus
        finally:
            with self._changed:
                self._free += gpus
                self.at_once += 1
                self._changed.notify_all()

    def stop(self) -> None:
        """End the stages that run; no other begins."""
        self.workers.end()
        with self._changed:
            self._changed.notify_all()

    def is_current(self, node: StageNode) -> bool:
        """Tell whether DVC found it up to date, and nothing that it reads has been made again since."""
        return not (node.changed or node.name in self.forced or "done" in map(self.outcomes.get, node.upstream))

    def _needed(self, node: StageNode) -> int:
        return (self.processes if node.parallel else 1) if node.gpu and self.gpus else 0

    def _is_next(self, node: StageNode) -> bool:
        """Tell whether there is room for ``node``, and for none that goes before it."""
        gpus = len(set(self._free))
        for other in sorted(self._waiting, key=lambda waiting: self._rank[waiting.name]):
            needed = self._needed(other)
            if self.at_once > 0 and needed <= gpus:
                return other is node
            if needed:
                gpus = 0  # they are kept for it
        return False


def run_flow(session: Session, say: Callable[[str], None]) -> None:
    """Bring the stages of ``session`` up to date, each as soon as what it reads is there.

    The flow has a thread of its own, so that an interrupt reaches this one at once.
    """
    listener = _settle()
    problems: list[Exception] = []
    over = threading.Event()  # an interrupted `join` takes the thread for ended

    def work() -> None:
        try:
            with _server(listener, say):
                _run(session)
        except Exception as error:  # noqa: BLE001 - raised again below, in the thread that waits
            problems.append(error)
        finally:
            over.set()

    threading.Thread(target=work, name="flow").start()
    try:
        while not over.wait(0.2):
            pass
    except BaseException:
        session.stop()
        session.show.interrupted()
        over.wait()
        raise
    for problem in problems:
        if isinstance(problem, InputError):
            raise problem
        raise InputError(f"Prefect: {problem}. What is done is kept; give the same command again, or `dvc repro`, "
                         f"which needs no Prefect.") from problem


def _settle() -> socket.socket | None:
    """Set Prefect's settings, which it reads as it is imported; return a socket for a server of our own."""
    if os.environ.get(_API_URL):
        os.environ |= {name: value for name, value in _SETTINGS.items() if name not in os.environ}
        return None
    for name in list(os.environ):  # a proxy would be asked for a server on this machine
        if name.startswith("PREFECT_") or name.lower().endswith("_proxy"):
            del os.environ[name]
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    os.environ |= {**_SETTINGS, "PREFECT_HOME": str(HOME.resolve()),
                   _API_URL: f"http://127.0.0.1:{listener.getsockname()[1]}/api"}
    return listener


@contextmanager
def _server(listener: socket.socket | None, say: Callable[[str], None]) -> Iterator[None]:
    """Serve Prefect's API in a thread: a process of its own would outlive a killed command."""
    if listener is None:
        yield
        return
    import uvicorn
    from prefect.server.api.server import create_app

    HOME.mkdir(parents=True, exist_ok=True)
    for name in ("uvicorn", "prefect.server"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.FileHandler(SERVER_LOG, "w", delay=True)], False
        logger.setLevel(logging.ERROR)
    for attempt in (1, 2):
        # The marks that Prefect's own temporary server carries: no scheduler, no late-run watch.
        app = create_app(ephemeral=True, final=True, ignore_cache=True)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on",
                                               timeout_graceful_shutdown=_STOP_SECONDS))
        thread = threading.Thread(target=server.run, args=([listener],), name="prefect-server", daemon=True)
        thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        if server.started:
            break
        where = f" Its messages are in {SERVER_LOG}." if SERVER_LOG.exists() else ""
        if attempt == 2 or thread.is_alive() or not DATABASE.exists():
            raise InputError(f"the Prefect server did not start.{where} `keycontrast doctor` checks the installed "
                             f"versions; `dvc repro` runs without Prefect.")
        aside = DATABASE.with_name(f"prefect.db.{time.strftime('%Y%m%d-%H%M%S')}")
        for ending in ("", "-wal", "-shm"):
            if (path := Path(f"{DATABASE}{ending}")).exists():
                path.rename(f"{aside}{ending}")
        say(f"Prefect cannot use {DATABASE}, of another version or damaged: set aside as {aside.name}. Only the "
            f"record of earlier runs was in it.")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_STOP_SECONDS)


def _run(session: Session) -> None:
    from prefect import flow, task
    from prefect.events.worker import EventsWorker
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.task_runners import ThreadPoolTaskRunner

    def worth_another(_: Any, run: Any, state: Any) -> bool:  # noqa: ARG001 - as Prefect calls it
        return isinstance(state.data, StageCrash) and not session.workers.stopped

    runner: Any = ThreadPoolTaskRunner(max_workers=len(session.dag.nodes))

    @flow(name="reproduce", description="Bring every artifact up to date.",
          task_runner=runner)
    def reproduce() -> None:
        futures: dict[str, Any] = {}
        for node in session.dag.nodes:
            stage: Any = task(name=node.stage, description=node.description, task_run_name=node.name,
                              persist_result=False, retries=node.retries, retry_delay_seconds=2,
                              retry_condition_fn=worth_another)(_bring_up_to_date)
            before = [futures[name] for name in node.upstream if name in futures]
            futures[node.name] = stage.submit(session, node, wait_for=before)
            futures[node.name].add_done_callback(lambda future, name=node.name: _note_failure(session, name, future))
        for future in futures.values():
            future.wait()

    try:
        # Heartbeats tell a lasting server of a crash; a flow would wait up to a second for theirs as it ends.
        with temporary_settings(updates={PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            reproduce()
    finally:
        # Events that wait when the server ends would be tried ten times each as Python exits.
        logging.getLogger(EventsWorker.__name__).setLevel(logging.ERROR)
        EventsWorker.drain_all(timeout=_DELIVERY_SECONDS, at_exit=False)


def _bring_up_to_date(session: Session, node: StageNode) -> Any:
    """Bring one stage instance up to date, and leave links, duration and metrics with its task run."""
    from prefect import get_run_logger
    from prefect.states import Completed

    if session.is_current(node):
        session.outcomes[node.name] = "cached"
        session.show.ended(node.name, "cached")
        return Completed(name="Cached", message="up to date")
    if node.foreign and node.name not in session.forced and not (BEGUN / node.name).exists():
        raise StageFailure(
            f"{', '.join(node.foreign)}: neither dvc.lock nor DVC's cache has these bytes; copied back from another "
            f"machine? `dvc commit {node.name}` takes them, `keycontrast run {node.name} --force` makes them anew.")
    with session.place(node) as gpus:
        began = time.monotonic()
        session.show.started(node.name, node.description)
        try:
            changed = session.workers.repro(node.name, gpus, node.name in session.forced)
        finally:
            if (log := log_path(node.name)).exists():
                get_run_logger().info(log.read_text(encoding="utf-8", errors="replace")[-_LOGGED_CHARACTERS:])
        session.outcomes[node.name] = "done" if changed else "cached"  # within its place: the next are judged by it
    session.show.ended(node.name, session.outcomes[node.name])
    if not changed:
        return Completed(name="Cached", message="its inputs were made again with the same content")
    _leave_artifacts(node, time.monotonic() - began)
    return Completed(message="done")


def _note_failure(session: Session, name: str, future: Any) -> None:
    future.wait()
    failure = future.state.result(raise_on_failure=False) if future.state.is_failed() else None
    if failure is not None and not session.workers.stopped:
        if not isinstance(failure, StageFailure):
            failure = StageFailure(f"{type(failure).__name__}: {failure}")
        session.outcomes[name], session.failures[name] = "failed", failure
        session.show.ended(name, "failed", str(failure))


def _leave_artifacts(node: StageNode, seconds: float) -> None:
    """Leave links to what a stage made, its duration and its metrics in Prefect's interface."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    key = re.sub("[^a-z0-9]+", "-", node.name.lower()).strip("-")  # Prefect takes no other characters
    links = "\n".join(f"- [{out}]({Path(out).resolve().as_uri()})" for out in node.outs)
    create_markdown_artifact(f"{links}\n\nDuration: {seconds:.1f} s", key=key, description=node.description)
    for path in map(Path, node.metrics):
        rows = [{"run": run, **(values if isinstance(values, dict) else {"value": values})}
                for run, values in json.loads(path.read_text(encoding="utf-8")).items()]
        if rows:
            create_table_artifact(rows, key=f"metrics-{key}", description=str(path))


def visible_gpus(device: str) -> list[str]:
    """Return the devices that stages may take; empty where they compute on the CPU.

    Args:
        device: ``runtime.device`` of the params.
    """
    if device == "cpu":
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [part.strip() for part in chosen.split(",") if part.strip() not in ("", "-1")]
    return list(_installed_gpus())


def _installed_gpus() -> Iterator[str]:
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return
    if listing.returncode == 0:
        yield from re.findall(r"^GPU (\d+):", listing.stdout, re.MULTILINE)
