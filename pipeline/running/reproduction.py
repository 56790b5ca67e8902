"""``keycontrast run`` and ``keycontrast stage``: from checked params to the last line on the screen."""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline.estimate import estimate_in_words, recorded_seconds
from pipeline.hub_revisions import remarks as hub_remarks
from pipeline.running.dag import Dag, read_and_restore, read_dag
from pipeline.running.display import RunDisplay, duration
from pipeline.running.environment import RUN_LOCK, settle_environment
from pipeline.running.leftovers import clear_dead_locks, clear_unfinished
from pipeline.running.lockfile import LOCK, changed_results, committed_lock, other_bytes, read_lock
from pipeline.running.server import prefect_server, server_watched
from pipeline.running.workers import LockLost, StageFailure, Workers
from stages.common.paths import ARTIFACTS, METRICS, REPORT_PAGE
from stages.ingest.params import Dataset
from stages.ingest.reading.files import data_files, published_splits
from stages.params import Params, load_params
from stages.params.paths import named_paths
from stages.run.errors import InputError, plain
from stages.run.processes import exclusive
from stages.tracks.common.finished import forget
from stages.tracks.registry import seed_of, seeds_of_stage

_LOCK_ATTEMPTS = 3
_LEAST_DISK_GIB = 0.05  # logs, and the records of Prefect and DVC, beside what the outs took the last time
_WITHOUT_RUNNING = {"cached": "nothing had changed", "restored": "taken from DVC's cache"}


def check_sources(params: Params, root: Path = Path()) -> None:
    """Make sure that the files of every data set, and what params name by path, are there, before any work.

    Raises:
        InputError: lists every source that is missing, and what is wrong with the files in each folder.
    """
    problems = []
    for name, dataset in params.datasets.items():
        source = root / dataset.source
        if not source.exists():
            problems.append(f"datasets.{name}.source: {dataset.source} does not exist. Put the data there, or name "
                            f"its place: in params.yaml, or by `keycontrast use RECIPE --data FOLDER`.")
        elif source.is_dir():
            problems += _wrong_files(name, dataset.model_copy(update={"source": str(source)}))
    problems += [f"{place}: {path} does not exist. Put it there, or name another."
                 for place, path in named_paths(params).items()
                 if not (root / path).exists() and ARTIFACTS not in Path(path).parents]
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


def reproduce_project(targets: Sequence[str], console: Console, *, jobs: int | None = None, recipe: str | None = None,
                      force: bool = False, seed: int | None = None, within_flow: bool = False,
                      only: bool = False) -> bool:
    """Bring the project up to date, say where the results are, and hold it for this process meanwhile.

    Args:
        targets: stages or instances; everything if empty.
        console: where progress and results are shown.
        jobs: stages that share a GPU, or those at a time where there is none; None for one, and two at a time.
        recipe: whose params are put in force first; None for those that are.
        force: run the targets, or everything, though nothing has changed, with all their seeds.
        seed: run the targets with this one of their seeds though nothing has changed; the others are left as they are.
        within_flow: a flow has begun already, in a process that a Prefect worker started.
        only: the targets without what they need, which is taken as it is; sources of data may then be elsewhere.

    Returns:
        Whether everything succeeded.
    """
    started = time.monotonic()
    if not only:
        check_sources(load_params())
    settle_environment(Path())
    with exclusive(RUN_LOCK, "keycontrast run"):
        if recipe is not None and load_params().recipe != recipe:
            from pipeline.recipes import apply, plan

            apply(plan(recipe))
        params = load_params(whole=True)
        for remark in hub_remarks(params.plain()):
            console.print(plain(remark), style="yellow", markup=False, highlight=False, soft_wrap=True)
        for note in clear_dead_locks() + clear_unfinished():
            console.print(note, style="dim")
        before = read_lock()
        again = force or seed is not None
        dag, back = (read_dag(targets=targets), []) if again or only else read_and_restore(targets)
        if only:
            dag = dag.only(dag.resolve(targets))
        forced = (dag.resolve(targets) if targets else [node.name for node in dag.nodes]) if again else []
        forget_seeds(params, forced, seed)
        if back:
            console.print(f"Artifacts of {len(back)} stages brought back from DVC's cache: {', '.join(back)}",
                          highlight=False, soft_wrap=True)
        display, failed = _reproduced(dag, forced, params, console, jobs, within_flow)
        _conclude(params, dag, display, failed, console, started)
        if lost := sorted(set(failed) & set(before)):
            console.print(f"What they had made before is in DVC's cache: `dvc checkout --force {' '.join(lost)}` "
                          f"brings it back.", style="red", highlight=False, soft_wrap=True)
        _say_what_moved(before, read_lock(), console)
    return not failed


def forget_seeds(params: Params, names: Sequence[str], seed: int | None = None) -> None:
    """Forget what stage instances have finished with a seed, or with all of theirs, so that they work on it again.

    Raises:
        InputError: one of them has no such seed.
    """
    instances = [name.partition("@")[::2] for name in names]
    for stage, key in instances if seed is not None else ():
        seed_of(f"{stage}@{key}" if key else stage, seeds_of_stage(params, stage, key), seed)
    for stage, key in instances:
        if seeds_of_stage(params, stage, key):
            forget(stage, key, seed)


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


def _reproduced(dag: Dag, forced: Sequence[str], params: Params, console: Console, jobs: int | None,
                within_flow: bool) -> tuple[RunDisplay, list[str]]:
    """Run the flow; return what it has shown and the stages that failed.

    Where nothing has changed no flow begins: it, and the server that it needs, would take most of such a run's time.
    """
    if not forced and not any(node.changed for node in dag.nodes):
        display = RunDisplay(console, len(dag.nodes))
        for node in dag.nodes:
            display.ended(node.name, "cached")
        return display, []
    workers = Workers()
    with nullcontext() if within_flow else prefect_server() as await_server, workers:
        workers.start(1)  # which imports DVC while Prefect is imported here; further ones when two stages can run
        seconds = _say_estimate(forced or dag.out_of_date(), console)
        from pipeline.running.flows import (
            StagesFailed,
            events_delivered,
            reproduce,
            run_stages,
            session_of,
            without_heartbeats,
        )

        with session_of(dag, console, params.runtime, workers, jobs, forced, seconds) as session:
            if await_server is None:
                run_stages(session)
            else:
                await_server()
                # What failed has been said stage by stage already.
                with (server_watched(partial(_end_without_server, workers, console)), events_delivered(),
                      without_heartbeats(), suppress(StagesFailed)):
                    reproduce()
    return session.display, session.failed()


def _end_without_server(workers: Workers, console: Console, message: str) -> None:
    """End the command at once: its main thread waits for Prefect's client, which has not given up yet."""
    workers.end()
    console.show_cursor()  # which a live display hides
    sys.stdout.flush()
    sys.stderr.write(f"keycontrast: {message}\n")
    sys.stderr.flush()
    os._exit(1)


def _say_estimate(names: Sequence[str], console: Console) -> Mapping[str, float]:
    """Print the estimate and check the disk; return the seconds of the last run of each stage that has a record."""
    console.print(estimate_in_words(names), highlight=False, markup=False, soft_wrap=True)
    lock = read_lock()
    last = sum(out.get("size", 0) for name in names for out in lock.get(name, {}).get("outs", []))
    check_disk(_LEAST_DISK_GIB + last / 2**30)
    return recorded_seconds(names)


def check_disk(needed: float, folder: Path = Path()) -> None:
    """Make sure that as many GiB as a run needs are free where ``folder`` is.

    Raises:
        InputError: says how many there are, and how to come by more.
    """
    free = shutil.disk_usage(folder).free / 2**30
    if free < needed:
        raise InputError(f"{folder.resolve()}: this run needs about {needed:.2f} GiB of disk, and {free:.2f} GiB are "
                         f"free. Free some space, and give the same command again; `dvc gc --workspace` empties DVC's "
                         f"cache of what is not in use.")


def _conclude(params: Params, dag: Dag, display: RunDisplay, failed: list[str], console: Console,
              started: float) -> None:
    console.print(f"{display.summary()} {duration(time.monotonic() - started)} in all.", highlight=False)
    if failed:
        console.print(f"Failed: {', '.join(failed)}. Mend the cause and give the same command again.", style="red",
                      highlight=False, soft_wrap=True)
        return
    # Only what this command has looked at: other metrics and pages may be of other params.
    if runs := {node.key for node in dag.nodes if node.stage.startswith("evaluate_")}:
        from pipeline.results import results_tables  # and with it all tracks, for a second

        for table in results_tables(params, runs):
            console.print(table)
    if any(node.name == "report" for node in dag.nodes):
        console.print(f"Report: {REPORT_PAGE}", highlight=False, soft_wrap=True)


def repeat_stage(params: Params, name: str, force: bool, console: Console, seed: int | None = None) -> bool:
    """Run stage or instance ``name`` alone, instances one after another; arguments as of :func:`reproduce_project`.

    Returns:
        Whether all of them succeeded.
    """
    clear_dead_locks()
    dag = read_dag()
    names = dag.resolve([name])
    if force := force or seed is not None:
        forget_seeds(params, names, seed)
    display, workers = RunDisplay(console, len(names)), Workers()
    with workers, display.live():
        return all([_repeat(dag, instance, force, display, workers) for instance in names])


def _repeat(dag: Dag, name: str, force: bool, display: RunDisplay, workers: Workers) -> bool:
    display.started(name, dag[name].description)
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        try:
            made = workers.repro(name, force=force)
        except StageFailure as failure:
            if isinstance(failure, LockLost) and attempt < _LOCK_ATTEMPTS:
                continue
            display.ended(name, "failed", str(failure))
            return False
        display.ended(name, "done", _WITHOUT_RUNNING.get(made, ""))
        return True
    raise AssertionError("the last attempt returns")
