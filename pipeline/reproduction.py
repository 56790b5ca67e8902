"""``keycontrast run`` and ``keycontrast stage``: from checked params to the last line on the screen."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline.dag import Dag, bring_back, clear_dead_locks, read_dag
from pipeline.display import RunDisplay, duration
from pipeline.estimates import estimate
from pipeline.lockfile import LOCK, changed_results, committed_lock, other_bytes, read_lock
from pipeline.machine import this_machine
from pipeline.processes import LockLost, Processes, StageFailure
from pipeline.results import results_tables
from pipeline.server import prefect_server
from stages.artifacts.paths import METRICS, REPORT_PAGE
from stages.data.reading.files import data_files, published_splits
from stages.params import Params
from stages.params.data import Dataset
from stages.runtime.errors import InputError
from stages.runtime.process import RECORDS

_LOCK_ATTEMPTS = 3


def check_sources(params: Params, root: Path = Path()) -> None:
    """Make sure that the files of every data set are there, before any work.

    Raises:
        InputError: lists every source that is missing, and what is wrong with the files in each folder.
    """
    problems = []
    for name, dataset in params.datasets.items():
        source = root / dataset.source
        if not source.exists():
            problems.append(f"datasets.{name}.source: {dataset.source} does not exist. Put the data there, or name "
                            f"its place: in params.yaml, or by `keycontrast use {params.recipe} --data FOLDER`.")
        elif source.is_dir():
            problems += _wrong_files(name, dataset.model_copy(update={"source": str(source)}))
    if problems:
        raise InputError("\n".join(problems))


def _wrong_files(name: str, dataset: Dataset) -> list[str]:
    """Return what is wrong with the names of files, or with the files themselves, that data set ``name`` has."""
    try:
        data_files(dataset)
        published_splits(dataset)
    except InputError as error:
        return [f"datasets.{name}: {error}"]
    return []


def reproduce_targets(params: Params, targets: Sequence[str], console: Console, started: float,
                      jobs: int | None = None) -> bool:
    """Run the flow ``reproduce`` and say where the results are.

    Args:
        params: validated params.
        targets: stages or instances; everything if empty.
        console: where progress and results are shown.
        started: when the command began, by ``time.monotonic``.
        jobs: stages that share a GPU, or those at a time where there is none; None for one, and two at a time.

    Returns:
        Whether everything succeeded.
    """
    for note in clear_dead_locks():
        console.print(note, style="dim")
    before = read_lock()
    dag = _wanted(targets)
    if any(not Path(out).exists() for node in dag.nodes for out in node.outs) and (back := bring_back(dag)):
        console.print(f"Missing artifacts of {len(back)} stages brought back from DVC's cache: {', '.join(back)}",
                      highlight=False, soft_wrap=True)
        dag = _wanted(targets)
    display, failed = _reproduced(dag, targets, params, console, jobs)
    _conclude(params, dag, display, failed, console, started)
    if lost := sorted(set(failed) & set(before)):
        console.print(f"What they had made before is in DVC's cache: `dvc checkout --force {' '.join(lost)}` brings it "
                      f"back.", style="red", highlight=False, soft_wrap=True)
    _say_what_moved(before, read_lock(), console)
    return not failed


def _wanted(targets: Sequence[str]) -> Dag:
    dag = read_dag()
    return dag.subset(dag.resolve(targets)) if targets else dag


def _say_what_moved(before: dict[str, Any], after: dict[str, Any], console: Console) -> None:
    """Name the committed files that this run has changed because stages have written other bytes from the same inputs.
    """
    moved = other_bytes(committed_lock() or before, after) if after != before else []
    if moved:
        changed = changed_results() or [str(LOCK)]
        console.print(f"Changed: {', '.join(changed)}, because {len(moved)} of {len(after)} stages have written other "
                      f"bytes from the same inputs. On another kind of processor that is expected (README: Which bytes "
                      f"are promised). Commit them to keep what was made here; `git checkout {LOCK} {METRICS}` "
                      f"restores what was committed, and the next run computes it again.",
                      highlight=False, soft_wrap=True)


def _reproduced(dag: Dag, targets: Sequence[str], params: Params, console: Console,
                jobs: int | None) -> tuple[RunDisplay, list[str]]:
    """Run the flow; return what it has shown and the stages that failed.

    Where nothing has changed no flow begins: it, and the server that it needs, would take most of such a run's time.
    """
    if not any(node.changed for node in dag.nodes):
        display = RunDisplay(console, len(dag.nodes))
        for node in dag.nodes:
            display.ended(node.name, "cached")
        return display, []
    with prefect_server() as await_server:
        if stale := dag.out_of_date():
            sentence = estimate(params, stale, this_machine(params.runtime.device), RECORDS)
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)
        from pipeline.flows import StagesFailed, events_delivered, reproduce, session_of, without_heartbeats

        await_server()
        # What failed has been said stage by stage already.
        with (events_delivered(), session_of(dag, console, params.runtime, jobs) as session, without_heartbeats(),
              suppress(StagesFailed)):
            reproduce(list(targets))
    return session.display, session.failed()


def _conclude(params: Params, dag: Dag, display: RunDisplay, failed: list[str], console: Console,
              started: float) -> None:
    console.print(f"{display.summary()} {duration(time.monotonic() - started)} in all.", highlight=False)
    if failed:
        console.print(f"Failed: {', '.join(failed)}. Mend the cause and give the same command again.", style="red",
                      highlight=False, soft_wrap=True)
        return
    # Only what this command has looked at: other metrics and pages may be of other params.
    names = [node.name for node in dag.nodes]
    for table in results_tables(params, {name.partition("@")[2] for name in names if name.startswith("evaluate_")}):
        console.print(table)
    if "report" in names:
        console.print(f"Report: {REPORT_PAGE}", highlight=False, soft_wrap=True)


def repeat_stage(name: str, force: bool, console: Console) -> bool:
    """Run stage or instance ``name`` alone, instances one after another.

    Returns:
        Whether all of them succeeded.
    """
    clear_dead_locks()
    dag = read_dag()
    names = dag.resolve([name])
    display, processes, failed = RunDisplay(console, len(names)), Processes(), False
    try:
        with display.live():
            for instance in names:
                failed |= not _repeat(dag, instance, force, display, processes)
    finally:
        processes.end()
    return not failed


def _repeat(dag: Dag, name: str, force: bool, display: RunDisplay, processes: Processes) -> bool:
    display.started(name, dag[name].description)
    started = time.monotonic()
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        try:
            ran = processes.repro(name, force=force)
        except StageFailure as failure:
            if isinstance(failure, LockLost) and attempt < _LOCK_ATTEMPTS:
                continue
            display.ended(name, "failed", time.monotonic() - started, str(failure))
            return False
        display.ended(name, "done", time.monotonic() - started, "" if ran else "nothing had changed")
        return True
    raise AssertionError("the last attempt returns")
