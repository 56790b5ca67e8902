"""The Prefect flow ``reproduce``: DVC's DAG, each stage instance a task, in three subflows.

DVC decides what is up to date and stores what is made; Prefect orders, runs side by side, retries and
records. A stage is run by a ``dvc repro -s`` process of its own, so that the artifacts and the
``dvc.lock`` are those that ``dvc repro`` makes.
"""

import json
import logging
import queue
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State, TaskRun
from prefect.events.worker import EventsWorker
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner
from rich.console import Console

from pipeline.dag import SUBFLOWS, Dag, StageNode, Subflow, read_dag, subflow_of
from pipeline.display import RunDisplay, duration
from pipeline.environment import settle_environment
from pipeline.processes import BadInput, LockLost, Processes, StageCrash, log_path, visible_gpus
from stages.params import load_params
from stages.params.root import Runtime
from stages.runtime.distributed import check_devices
from stages.runtime.process import RECORDS

# Measured: two `dvc repro -s` in one repository are safe; of eight, 3 in 100 lose the lock, and are tried again.
SIDE_BY_SIDE = 2
_LOCK_RETRIES = 5
_RETRY_DELAY_SECONDS = 2
_DELIVERY_SECONDS = 30.0

Status = Literal["cached", "done", "failed", "skipped"]


@dataclass(frozen=True)
class Attempt:
    """A stage instance that has been handed to Prefect."""

    node: StageNode
    gpus: tuple[str, ...]
    started: float
    future: PrefectFuture[Any]


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
        processes: the running children.
        outcomes: how each stage instance ended.
        places: how many stages may still start on each device.
    """

    dag: Dag
    display: RunDisplay
    gpus: list[str] = field(default_factory=list)
    training_processes: int = 1
    jobs: int | None = None
    processes: Processes = field(default_factory=Processes)
    outcomes: dict[str, Status] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = dict.fromkeys(self.gpus, self.jobs or 1)

    @property
    def side_by_side(self) -> int:
        """How many stages may run at a time."""
        return max(SIDE_BY_SIDE, len(self.gpus)) if self.jobs is None else self.jobs * max(1, len(self.gpus))

    def needed_gpus(self, node: StageNode) -> int:
        """Return how many devices a stage instance takes: a training one for each of its processes."""
        return (self.training_processes if node.is_training else 1) if node.gpu and self.gpus else 0

    def take(self, node: StageNode) -> tuple[str, ...]:
        """Return the devices that ``node`` now has, and count it on them."""
        gpus = tuple(self.free_gpus()[:self.needed_gpus(node)])
        for gpu in gpus:
            self.places[gpu] -= 1
        return gpus

    def give_back(self, gpus: Sequence[str]) -> None:
        """Count a stage that had ``gpus`` as ended."""
        for gpu in gpus:
            self.places[gpu] += 1

    def free_gpus(self) -> list[str]:
        """Return the devices on which another stage may start, the least used first."""
        return sorted((gpu for gpu in self.gpus if self.places[gpu]), key=lambda gpu: -self.places[gpu])

    def failed(self) -> list[str]:
        """Return the stage instances that failed themselves."""
        return [name for name, status in self.outcomes.items() if status == "failed"]


_SESSION: ContextVar[Session] = ContextVar("session")


@contextmanager
def session_of(dag: Dag, console: Console, runtime: Runtime, jobs: int | None = None) -> Iterator[Session]:
    """Yield the session in which ``reproduce`` runs; its children end with it, however it ends.

    Args:
        dag: the stage instances to bring up to date.
        console: where progress is shown.
        runtime: of the params: device, and processes of a training.
        jobs: as of :class:`Session`.

    Raises:
        InputError: a training is to have more processes than there are devices.
    """
    gpus = visible_gpus(runtime.device)
    if gpus and any(node.gpu and node.is_training for node in dag.nodes):
        check_devices(runtime.processes, len(gpus))
    session = Session(dag, RunDisplay(console, len(dag.nodes)), gpus, runtime.processes, jobs)
    token = _SESSION.set(session)
    try:
        with session.display.live():
            yield session
    finally:
        session.processes.end()
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


@flow(name="reproduce", description="Bring every artifact up to date.", validate_parameters=False)
def reproduce(targets: list[str] | None = None) -> None:
    """Bring ``targets`` and what they need up to date; everything by default.

    Args:
        targets: stages or instances such as ``evaluate_hcl@hcl``.

    Raises:
        StagesFailed: at least one stage failed. All that did not depend on it has been done.
    """
    session = _SESSION.get(None)
    if session is None:
        # Started by a Prefect worker rather than by the command line.
        settle_environment(Path())
        dag = read_dag()
        wanted = dag.subset(dag.resolve(targets)) if targets else dag
        with session_of(wanted, Console(stderr=True), load_params().runtime):
            return reproduce.fn(targets)
    parts = subflow_of(session.dag.nodes)
    for part in SUBFLOWS:
        if part in parts.values():
            _run_subflow(_FLOWS[part], sorted(name for name in parts if parts[name] == part))
    if session.failed():
        raise StagesFailed(f"{', '.join(session.failed())} failed")
    return None


def _run_subflow(subflow: Any, names: list[str]) -> None:
    """Run a subflow; failed stages are noted in the session and do not end the parent here."""
    # The state would also hide errors of this module, so only one kind is let pass.
    runner: Any = ThreadPoolTaskRunner(max_workers=_SESSION.get().side_by_side)
    with suppress(StagesFailed):
        subflow.with_options(task_runner=runner)(names)


@flow(name="prepare", description="Everything that a training needs.", validate_parameters=False)
def prepare(names: list[str]) -> None:
    """Run the stage instances ``names``."""
    _run_part(names)


@flow(name="train", description="Trainings, and what no training waits for.", validate_parameters=False)
def train(names: list[str]) -> None:
    """Run the stage instances ``names``."""
    _run_part(names)


@flow(name="evaluate", description="Generation, metrics, report.", validate_parameters=False)
def evaluate(names: list[str]) -> None:
    """Run the stage instances ``names``."""
    _run_part(names)


_FLOWS: dict[Subflow, Any] = {"prepare": prepare, "train": train, "evaluate": evaluate}


@task(name="stage", persist_result=False)
def run_stage_instance(node: StageNode, gpus: tuple[str, ...]) -> State[Any]:
    """Bring one stage instance up to date and leave links to what it made."""
    session = _SESSION.get()
    started = time.monotonic()
    if _is_current(node, session):
        return Completed(name="Cached", message="up to date")
    session.display.started(node.name, node.description)
    if not session.processes.repro(node.name, gpus):
        return Completed(name="Cached", message="its inputs were made again with the same content")
    leave_artifact(node, time.monotonic() - started)
    return Completed(message="done")


def leave_artifact(node: StageNode, seconds: float) -> None:
    """Leave links to the outs of ``node``, its duration and its peak memory with the current task run."""
    record = RECORDS / f"{node.stage}@{node.key or 'all'}.json"
    memory = json.loads(record.read_text())["peak_memory_mib"] if record.exists() else None
    lines = [f"- [{out}]({Path(out).resolve().as_uri()})" for out in node.outs]
    lines += ["", f"Duration: {duration(seconds)}", "",
              f"Peak memory: {memory} MiB" if memory is not None else "Peak memory: not recorded"]
    # Prefect takes lower-case letters, digits and dashes only.
    create_markdown_artifact("\n".join(lines), key=re.sub("[^a-z0-9]+", "-", node.name.lower()).strip("-"),
                             description=node.description or node.name)


def _is_current(node: StageNode, session: Session) -> bool:
    """Tell whether DVC found it up to date, and nothing that it reads has been made again since."""
    return not node.changed and all(session.outcomes.get(name) != "done" for name in node.upstream)


def _as_task(node: StageNode) -> Any:
    """Return the task of one stage instance, with the retries that make sense for it."""

    def worth_another(_: Any, run: TaskRun, state: State[Any]) -> bool:
        if isinstance(state.data, LockLost):
            return True
        return isinstance(state.data, StageCrash) and run.run_count <= node.retries

    return run_stage_instance.with_options(
        name=node.stage, task_run_name=node.name, retries=max(_LOCK_RETRIES, node.retries),
        retry_delay_seconds=_RETRY_DELAY_SECONDS, retry_condition_fn=worth_another)


def _run_part(names: list[str]) -> None:
    """Run stage instances, each as soon as what it needs is there, and wait for all of them.

    A task is handed to Prefect only when it can start: one that waits would hold a worker.
    """
    session = _SESSION.get()
    # Trainings first: what takes longest must not be the last to start.
    waiting = sorted((node for node in session.dag.nodes if node.name in names), key=lambda node: not node.is_training)
    running: dict[str, Attempt] = {}
    ended: queue.Queue[Attempt] = queue.Queue()
    try:
        while waiting or running:
            waiting = _without_dependents(session, waiting)
            while (node := _startable(session, waiting, len(running))) is not None:
                waiting.remove(node)
                running[node.name] = _start(session, node, ended)
            if waiting and not running:
                raise RuntimeError(f"{waiting[0].name} waits for a stage of a later subflow")
            if running:
                attempt = ended.get()
                del running[attempt.node.name]
                _note(session, attempt)
    except BaseException:
        # Threads of the task runner wait for their children: without this an interrupt would wait too.
        session.processes.end()
        raise
    failed = [name for name in names if session.outcomes[name] == "failed"]
    if failed:
        raise StagesFailed(f"{', '.join(failed)} failed")


def _startable(session: Session, waiting: list[StageNode], running: int) -> StageNode | None:
    """Return the first stage instance that can start now: its inputs stand, a worker and its GPUs are free."""
    if running >= session.side_by_side:
        return None
    free = len(session.free_gpus())
    return next((node for node in waiting if session.needed_gpus(node) <= free
                 and all(session.outcomes.get(name) in ("done", "cached") for name in node.upstream)), None)


def _start(session: Session, node: StageNode, ended: "queue.Queue[Attempt]") -> "Attempt":
    gpus = session.take(node)
    attempt = Attempt(node, gpus, time.monotonic(), _as_task(node).submit(node, gpus))
    attempt.future.add_done_callback(lambda _: ended.put(attempt))
    return attempt


def _note(session: Session, attempt: "Attempt") -> None:
    """Record and show how a stage instance ended, and give its GPUs back."""
    session.give_back(attempt.gpus)
    attempt.future.wait()
    name, state = attempt.node.name, attempt.future.state
    seconds = time.monotonic() - attempt.started
    if state.is_completed():
        status: Status = "cached" if state.name == "Cached" else "done"
        session.outcomes[name] = status
        session.display.ended(name, status, seconds)
        return
    failure = state.result(raise_on_failure=False)
    session.outcomes[name] = "failed"
    where = "" if isinstance(failure, BadInput) else f"\nall of its output: {log_path(name)}"
    session.display.ended(name, "failed", seconds, f"{failure}{where}")


def _without_dependents(session: Session, waiting: list[StageNode]) -> list[StageNode]:
    """Return ``waiting`` without what cannot run because something it needs failed or was skipped."""
    kept = []
    for node in waiting:
        lost = [name for name in node.upstream if session.outcomes.get(name) in ("failed", "skipped")]
        if lost:
            session.outcomes[node.name] = "skipped"
            session.display.ended(node.name, "skipped", message=f"needs {', '.join(lost)}")
        else:
            kept.append(node)
    return kept
