"""The Prefect flow ``reproduce``: DVC's DAG, each stage instance a task that waits for those it reads from.

DVC decides what is up to date and stores what is made; Prefect orders, runs side by side, retries and records. A stage
is brought up to date by DVC itself, in one of a few lasting processes, so that the artifacts and the ``dvc.lock`` are
those that ``dvc repro`` makes.
"""

import json
import logging
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate
from prefect.client.schemas.objects import State, TaskRun
from prefect.concurrency.sync import concurrency
from prefect.events.worker import EventsWorker
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.states import Completed
from pydantic import Field
from rich.console import Console

from pipeline.running.dag import Dag, StageNode
from pipeline.running.display import RunDisplay, duration
from pipeline.running.server import is_own_server
from pipeline.running.turns import Turns
from pipeline.running.workers import AT_ONCE, BadInput, LockLost, StageCrash, Workers, log_path
from stages.common.distributed import check_devices
from stages.common.params import Runtime
from stages.run.process import RECORDS

# Prefect's concurrency limits, which its interface shows and lets a person change on a server of their own.
PROCESSOR, GPU = "keycontrast-processor", "keycontrast-gpu"
_LOCK_RETRIES = 5
_RETRY_DELAY_SECONDS = 2
_DELIVERY_SECONDS = 30.0
_LOGGED_CHARACTERS = 100_000

Status = Literal["cached", "restored", "done", "failed", "skipped"]
RecipeName = Annotated[str, Field(pattern=r"^[\w.-]+$", description="a recipe whose params are to be in force")]
Target = Annotated[str, Field(pattern=r"^\w+(@[\w.-]+)?$", description="a stage, or an instance such as train_hcl@hcl")]


class StagesFailed(Exception):
    """Some stages failed; what depends on them did not run, everything else did."""


@dataclass
class Session:
    """One invocation of ``reproduce``: what its tasks share.

    Attributes:
        dag: the stage instances to bring up to date.
        display: where progress is shown.
        gpus: all devices that stages may take.
        training_processes: of one training, each of which takes a device.
        jobs: stages that share a device, or those at a time where there is none; None for one, and two at a time.
        forced: stage instances that run though nothing has changed.
        workers: the processes that run stages.
        seconds: that stage instances are expected to take.
        outcomes: how each stage instance ended.
        turns: in which order they run; on a server of somebody's own its limits alone say how many at a time.
    """

    dag: Dag
    display: RunDisplay
    gpus: list[str] = field(default_factory=list)
    training_processes: int = 1
    jobs: int | None = None
    forced: frozenset[str] = frozenset()
    workers: Workers = field(default_factory=Workers)
    seconds: Mapping[str, float] = field(default_factory=dict)
    outcomes: dict[str, Status] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._users, self._guard = dict.fromkeys(self.gpus, 0), threading.Lock()
        limits = self.limits if is_own_server() else {PROCESSOR: len(self.dag.nodes), GPU: sum(
            map(self.needed_gpus, self.dag.nodes))}
        self.turns = Turns(self.dag, self.seconds, limits[PROCESSOR], limits.get(GPU, 0), self.needed_gpus,
                           self.is_current)

    @property
    def limits(self) -> dict[str, int]:
        """How many stages may run at a time, and on how many devices, each counted once per stage on it."""
        share = self.jobs or 1
        at_once = max(AT_ONCE, len(self.gpus)) if self.jobs is None else share * max(1, len(self.gpus))
        return {PROCESSOR: at_once, **({GPU: share * len(self.gpus)} if self.gpus else {})}

    def needed_gpus(self, node: StageNode) -> int:
        """Return how many devices a stage instance takes: a training one for each of its processes."""
        return (self.training_processes if node.is_training else 1) if node.gpu and self.gpus else 0

    @contextmanager
    def devices(self, node: StageNode) -> Iterator[tuple[str, ...]]:
        """Yield the devices that ``node`` now has, those with the fewest stages on them."""
        with self._guard:
            gpus = tuple(sorted(self._users, key=lambda gpu: self._users[gpu])[:self.needed_gpus(node)])
            for gpu in gpus:
                self._users[gpu] += 1
        try:
            yield gpus
        finally:
            with self._guard:
                for gpu in gpus:
                    self._users[gpu] -= 1

    def is_current(self, node: StageNode) -> bool:
        """Tell whether DVC found it up to date, and nothing that it reads has been made again since."""
        return not node.changed and node.name not in self.forced and all(
            self.outcomes.get(name) not in ("done", "restored") for name in node.upstream)

    def failed(self) -> list[str]:
        """Return the stage instances that failed themselves."""
        return [name for name, status in self.outcomes.items() if status == "failed"]


_SESSION: ContextVar[Session] = ContextVar("session")


@contextmanager
def session_of(dag: Dag, console: Console, runtime: Runtime, workers: Workers, jobs: int | None = None,
               forced: Sequence[str] = (), seconds: Mapping[str, float] | None = None) -> Iterator[Session]:
    """Yield the session in which ``reproduce`` runs.

    Args:
        dag: the stage instances to bring up to date.
        console: where progress is shown.
        runtime: of the params: device, and processes of a training.
        workers: the processes that run stages.
        jobs, forced, seconds: as of :class:`Session`.

    Raises:
        InputError: a training is to have more processes than there are devices.
    """
    gpus = visible_gpus(runtime.device)
    if gpus and any(node.gpu and node.is_training for node in dag.nodes):
        check_devices(runtime.processes, len(gpus))
    display = RunDisplay(console, len(dag.nodes))
    session = Session(dag, display, gpus, runtime.processes, jobs, frozenset(forced), workers, seconds or {})
    token = _SESSION.set(session)
    try:
        with session.display.live():
            yield session
    finally:
        _SESSION.reset(token)


def without_heartbeats() -> AbstractContextManager[Any]:
    """Return a context in which flows emit no heartbeats.

    They tell a lasting server that a flow has crashed. Ours ends with the command, and each flow would wait up
    to a second for its heartbeat thread.
    """
    return temporary_settings(updates={PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None})


@contextmanager
def events_delivered() -> Iterator[None]:
    """Let Prefect's events, which a thread of its own sends, reach the server before the block ends.

    Events that are still waiting when the server ends would be tried ten times each as Python exits, a second apart,
    and then be printed whole.
    """
    try:
        yield
    finally:
        logging.getLogger(EventsWorker.__name__).setLevel(logging.ERROR)  # it would warn that it is not done yet
        EventsWorker.drain_all(timeout=_DELIVERY_SECONDS, at_exit=False)


@flow(name="reproduce", description="Bring every artifact up to date.")
def reproduce(recipe: RecipeName | None = None, targets: list[Target] | None = None, force: bool = False) -> None:
    """Bring ``targets`` and what they need up to date; everything by default.

    Args:
        recipe: whose params are to be in force, as ``keycontrast use`` writes them; by default those that are.
        targets: stages or instances such as ``evaluate_hcl@hcl``.
        force: run the targets, or everything, though nothing has changed.

    Raises:
        StagesFailed: at least one stage failed. All that did not depend on it has been done.
    """
    session = _SESSION.get(None)
    if session is None:
        from pipeline.running.reproduction import reproduce_project

        # Started by a Prefect worker rather than by the command line.
        console = Console(stderr=True)
        if not reproduce_project(targets or [], console, recipe=recipe, force=force, within_flow=True):
            raise StagesFailed("the logs of the task runs say why")
        return
    run_stages(session)
    if session.failed():
        raise StagesFailed(f"{', '.join(session.failed())} failed")


def run_stages(session: Session) -> None:
    """Run the stage instances of ``session`` within the present flow run, each as soon as what it reads is there."""
    set_limits(session)
    futures: dict[str, PrefectFuture[Any]] = {}
    try:
        for node in session.dag.nodes:
            # A task that waits holds a thread, and nothing else.
            before = {name: futures[name] for name in node.upstream if name in futures}
            futures[node.name] = _as_task(session, node).submit(node, wait_for=list(before.values()))
            futures[node.name].add_done_callback(partial(_note_end, session, node, before))
        pages = [make_first_page.submit(node, wait_for=[futures[node.name]], return_state=False)
                 for node in session.dag.nodes if node.first]
        for future in [*futures.values(), *pages]:
            future.wait()
    except BaseException:
        # Threads of the task runner wait for their workers: without this an interrupt would wait too.
        session.workers.end()
        session.turns.stop()
        raise


def set_limits(session: Session) -> None:
    """Set Prefect's concurrency limits; on a server of somebody's own, only those that it lacks or a person asks for.

    Our own server has nobody but this run: what a killed one has left taken is free again.
    """
    with get_client(sync_client=True) as client:
        known = {one.name for one in client.read_global_concurrency_limits(limit=200)}
        for name, limit in session.limits.items():
            if is_own_server() or session.jobs is not None or name not in known:
                client.upsert_global_concurrency_limit_by_name(name, limit)
            if is_own_server():
                client.update_global_concurrency_limit(name, GlobalConcurrencyLimitUpdate(active_slots=0))


@task(name="stage", persist_result=False)
def run_stage_instance(node: StageNode) -> State[Any]:
    """Bring one stage instance up to date and leave its output, its metrics and links to what it made."""
    session = _SESSION.get()
    if session.is_current(node):
        session.outcomes[node.name] = "cached"
        session.turns.ended(node, done=True)
        session.display.ended(node.name, "cached")
        return Completed(name="Cached", message="up to date")
    with ExitStack() as held:
        held.enter_context(session.turns.turn(node))
        if needed := session.needed_gpus(node):
            held.enter_context(concurrency(GPU, occupy=needed))
        held.enter_context(concurrency(PROCESSOR))
        gpus = held.enter_context(session.devices(node))
        started = time.monotonic()
        session.display.started(node.name, node.description)
        try:
            made = session.workers.repro(node.name, gpus, force=node.name in session.forced)
            session.outcomes[node.name] = made  # before the turn ends: by it the next are judged
        finally:
            _log_output(node)
    seconds = time.monotonic() - started
    session.display.ended(node.name, made)
    if made == "cached":
        return Completed(name="Cached", message="its inputs were made again with the same content")
    leave_artifacts(node, seconds)
    return Completed(name="Restored", message="from DVC's cache") if made == "restored" else Completed(message="done")


@task(name="first page", task_run_name="first page of {node.key}", persist_result=False)
def make_first_page(node: StageNode) -> None:
    """Make the first page of the data set whose graph ``node`` has made, and say where it is.

    Where the graph was there already, only a page that is missing is made: a command may have been killed before it.
    """
    from pipeline.first_page import place_of, write_first_page

    session = _SESSION.get()
    outcome = session.outcomes.get(node.name)
    if outcome not in ("done", "restored") and (outcome != "cached" or place_of(node.key).exists()):
        return
    try:
        session.display.say(f"First page, of keywords and graph: {write_first_page(node.key)}")
    except Exception as error:  # what follows needs no page, and the report is made by the same code
        session.display.say(f"No first page of {node.key}: {error}")
        raise


def _log_output(node: StageNode) -> None:
    """Give Prefect what the stage wrote, the end of it if that is much."""
    log = log_path(node.name)
    if log.exists() and (text := log.read_text(encoding="utf-8", errors="replace")[-_LOGGED_CHARACTERS:].strip()):
        get_run_logger().info(text)


def leave_artifacts(node: StageNode, seconds: float) -> None:
    """Leave metrics as tables, links to the outs of ``node``, its duration and its peak memory with the task run."""
    record = RECORDS / f"{node.stage}@{node.key or 'all'}.json"
    memory = json.loads(record.read_text())["peak_memory_mib"] if record.exists() else None
    lines = [f"- [{out}]({Path(out).resolve().as_uri()})" for out in node.outs]
    lines += ["", f"Duration: {duration(seconds)}", "",
              f"Peak memory: {memory} MiB" if memory is not None else "Peak memory: not recorded"]
    create_markdown_artifact("\n".join(lines), key=_artifact_key(node.name), description=node.description or node.name)
    for path in map(Path, node.metrics):
        rows = [{"run": run, **values} for run, values in json.loads(path.read_text(encoding="utf-8")).items()]
        if rows:
            create_table_artifact(rows, key=_artifact_key(f"metrics-{path.stem}"), description=str(path))


def _artifact_key(name: str) -> str:
    # Prefect takes lower-case letters, digits and dashes only.
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


def _as_task(session: Session, node: StageNode) -> Any:
    """Return the task of one stage instance, with the retries that make sense for it."""

    def worth_another(_: Any, run: TaskRun, state: State[Any]) -> bool:
        if session.workers.stopped:
            return False
        return isinstance(state.data, LockLost) or isinstance(state.data, StageCrash) and run.run_count <= node.retries

    return run_stage_instance.with_options(
        name=node.stage, task_run_name=node.name, retries=max(_LOCK_RETRIES, node.retries),
        retry_delay_seconds=_RETRY_DELAY_SECONDS, retry_condition_fn=worth_another)


def _note_end(session: Session, node: StageNode, before: Mapping[str, PrefectFuture[Any]],
              future: PrefectFuture[Any]) -> None:
    """Record and show a stage instance that failed, or that did not run because something it needs did not."""
    future.wait()
    session.turns.ended(node, done=future.state.is_completed())
    if future.state.is_completed():
        return
    lost = [name for name, other in before.items() if not other.state.is_completed()]
    session.outcomes[node.name] = "skipped" if lost else "failed"
    if lost:
        session.display.ended(node.name, "skipped", f"needs {', '.join(lost)}")
        return
    failure = future.state.result(raise_on_failure=False)
    where = "" if isinstance(failure, BadInput) else f"\nall of its output: {log_path(node.name)}"
    session.display.ended(node.name, "failed", f"{failure}{where}")


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
