"""DVC's DAG as a Prefect flow: DVC decides what runs and stores outs; Prefect orders, retries and records."""

import json
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keycontrast.errors import InputError, unwritten
from pipeline.dag import Dag, StageNode
from pipeline.worker import BEGUN, StageCrash, StageFailure, Workers, log_path

HOME = Path(".keycontrast", "prefect")
DATABASE, SERVER_LOG = HOME / "prefect.db", HOME / "server.log"
_API_URL = "PREFECT_API_URL"
# A person's own settings take precedence if they name a server of their own.
_SETTINGS = {"PREFECT_LOGGING_LEVEL": "INFO", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
             "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore", "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
             "DO_NOT_TRACK": "1"}
_START_SECONDS, _STOP_SECONDS, _DELIVERY_SECONDS = 600.0, 5, 30.0
_LOGGED_CHARACTERS = 100_000


@dataclass
class Session:
    """State that the tasks of a flow share; `outcomes` are ``cached``, ``done`` or ``failed``."""

    dag: Dag
    workers: Workers
    show: Any
    at_once: int = 2
    gpus: list[str] = field(default_factory=list)   # each once for every stage that may share it
    processes: int = 1  # GPUs of a parallel stage
    forced: frozenset[str] = frozenset()
    outcomes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, StageFailure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free, self._changed = list(self.gpus), threading.Condition()

    @contextmanager
    def place(self, node: StageNode) -> Iterator[list[str]]:
        """Wait until ``node`` may run, and yield its GPUs."""
        needed = (self.processes if node.parallel else 1) if node.gpu and self.gpus else 0
        with self._changed:
            self._changed.wait_for(lambda: self.workers.stopped or (
                self.at_once > 0 and len(set(self._free)) >= needed))
            gpus = list(dict.fromkeys(self._free))[:needed]
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

    def interrupt(self, *_: object) -> None:
        """End the running stages on a signal; no other starts, so that the flow ends."""
        if self.workers.stopped:
            raise KeyboardInterrupt
        self.show.interrupted()
        self.workers.end()
        with self._changed:
            self._changed.notify_all()


def run_flow(session: Session, say: Callable[[str], None]) -> None:
    """Bring the stages of ``session`` up to date, each as soon as its inputs are; a signal raises KeyboardInterrupt."""
    try:
        with _server(_set_environment(), say):
            _run(session)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"Prefect: {error}. Finished stages are kept; run the same command again, or `dvc repro`, "
                         f"which needs no Prefect.") from error
    if session.workers.stopped:
        raise KeyboardInterrupt


def _set_environment() -> socket.socket | None:
    """Set Prefect's settings before it is imported; return a socket for a server of our own."""
    if os.environ.get(_API_URL):
        os.environ |= {name: value for name, value in _SETTINGS.items() if name not in os.environ}
        return None
    for name in list(os.environ):  # a proxy cannot reach a server on this machine
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
    server, thread = _start(listener)
    if not server.started and DATABASE.exists():
        aside = HOME.rename(f"{HOME}-{time.strftime('%Y%m%d-%H%M%S')}")
        say(f"Prefect cannot use {DATABASE}, of another version or damaged: set aside in {aside}. It held only the "
            f"record of earlier runs.")
        server, thread = _start(listener)
    if not server.started:
        where = f" Its messages are in {SERVER_LOG}." if SERVER_LOG.exists() else ""
        raise InputError(f"the Prefect server did not start.{where} `keycontrast doctor` checks the installed "
                         f"versions; `dvc repro` runs without Prefect.")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_STOP_SECONDS)


def _start(listener: socket.socket) -> tuple[Any, threading.Thread]:
    """Return a server and its thread once it serves or has given up."""
    import uvicorn
    from prefect.server.api.server import create_app

    HOME.mkdir(parents=True, exist_ok=True)
    # As Prefect's own temporary server: no scheduler, no watch for late runs.
    app = create_app(ephemeral=True, final=True, ignore_cache=True)
    handler = logging.FileHandler(SERVER_LOG, "w", delay=True)  # after Prefect has set its own handlers
    for name in ("uvicorn", "prefect.server", "sqlalchemy", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.ERROR)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on",
                                           timeout_graceful_shutdown=_STOP_SECONDS))
    thread = threading.Thread(target=server.run, args=([listener],), name="prefect-server", daemon=True)
    thread.start()
    deadline = time.monotonic() + _START_SECONDS
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return server, thread


def _run(session: Session) -> None:
    from prefect import flow, task
    from prefect.events.worker import EventsWorker
    from prefect.task_runners import ThreadPoolTaskRunner

    def should_retry(_: Any, run: Any, state: Any) -> bool:  # noqa: ARG001 - as Prefect calls it
        again = isinstance(state.data, StageCrash) and not session.workers.stopped
        if again:
            session.show.say(f"        {run.name} is tried again. {state.data}", "yellow")
        return again

    def note_failure(_: Any, run: Any, state: Any) -> None:
        if not session.workers.stopped:
            failure = state.result(raise_on_failure=False)
            if not isinstance(failure, StageFailure):
                failure = StageFailure(unwritten(failure) or f"{type(failure).__name__}: {failure}")
            session.outcomes[run.name], session.failures[run.name] = "failed", failure
            session.show.ended(run.name, "failed", str(failure))

    def bring_up_to_date(node: StageNode) -> Any:  # Prefect would search a session among its arguments for futures
        return _bring_up_to_date(session, node)

    runner: Any = ThreadPoolTaskRunner(max_workers=len(session.dag))

    @flow(name="reproduce", description="Bring every artifact up to date.", task_runner=runner)
    def reproduce() -> None:
        # Prefect's own handler for a flow would wait for the running stages.
        handlers = {number: signal.signal(number, session.interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        futures: dict[str, Any] = {}
        for node in session.dag.values():
            stage: Any = task(name=node.name.partition("@")[0], description=node.description, task_run_name=node.name,
                              persist_result=False, retries=node.retries, retry_delay_seconds=2,
                              retry_condition_fn=should_retry, on_failure=[note_failure])(bring_up_to_date)
            before = [futures[name] for name in node.upstream if name in futures]
            futures[node.name] = stage.submit(node, wait_for=before)
        for future in futures.values():
            future.wait()
        for number, handler in handlers.items():
            signal.signal(number, handler)

    try:
        reproduce()
    finally:
        # Events left when the server ends would be retried ten times each as Python exits.
        logging.getLogger(EventsWorker.__name__).setLevel(logging.ERROR)
        EventsWorker.drain_all(timeout=_DELIVERY_SECONDS, at_exit=False)


def _bring_up_to_date(session: Session, node: StageNode) -> Any:
    """Bring one stage instance up to date, and record links, duration and metrics with its task run."""
    from prefect import get_run_logger
    from prefect.states import Completed

    outdated = node.changed or node.name in session.forced or "done" in map(session.outcomes.get, node.upstream)
    if not outdated:
        session.outcomes[node.name] = "cached"
        session.show.ended(node.name, "cached")
        return Completed(name="Cached", message="up to date")
    if node.foreign and node.name not in session.forced and not (BEGUN / node.name).exists():
        raise StageFailure(
            f"{', '.join(node.foreign)}: neither dvc.lock nor DVC's cache has these bytes. If they were copied from "
            f"another machine, `dvc commit {node.name}` takes them; `keycontrast run {node.name} --force` makes new "
            f"ones.")
    with session.place(node) as gpus:
        began = time.monotonic()
        session.show.started(node.name, node.description)
        try:
            changed = session.workers.repro(node.name, gpus, node.name in session.forced)
        finally:
            if (log := log_path(node.name)).exists():
                get_run_logger().info(log.read_text(encoding="utf-8", errors="replace")[-_LOGGED_CHARACTERS:])
        session.outcomes[node.name] = "done" if changed else "cached"  # before the next stage starts
    session.show.ended(node.name, session.outcomes[node.name])
    if not changed:
        return Completed(name="Cached", message="its inputs were made again with the same content")
    try:
        _leave_artifacts(node, time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 - the stage is done, whatever Prefect could record of it
        session.show.say(f"{node.name}: done, but Prefect could not record its results: {error}", "yellow")
    return Completed(message="done")


def _leave_artifacts(node: StageNode, seconds: float) -> None:
    """Record links to the outs of a stage, its duration and its metrics in Prefect."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    key = re.sub("[^a-z0-9]+", "-", node.name.lower()).strip("-")  # Prefect takes no other characters
    links = "\n".join(f"- [{out}]({Path(out).resolve().as_uri()})" for out in node.outs)
    create_markdown_artifact(f"{links}\n\nDuration: {seconds:.1f} s", key=key, description=node.description)
    for path in map(Path, node.metrics):
        rows = [{"run": run, **(values if isinstance(values, dict) else {"value": values})}
                for run, values in json.loads(path.read_text(encoding="utf-8")).items()]
        if rows:
            create_table_artifact(rows, key=f"metrics-{key}", description=str(path))
