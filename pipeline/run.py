"""``keycontrast run``: from checked params to the last line on the screen."""

import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.markup import escape

from pipeline.dag import Dag, open_repo, read_dag
from pipeline.flow import Session, run_flow, visible_gpus
from pipeline.lock import own_lock, read_lock
from pipeline.worker import StageCrash, Workers, log_path
from stages.common.distributed import check_devices
from stages.common.paths import ARTIFACTS, METRICS, REPORT, REPORT_PAGE
from stages.run.errors import InputError, plain
from stages.run.processes import exclusive

RUN_LOCK = Path(".keycontrast", "run")
AT_ONCE = 2  # stages, where they share no GPU
_SIGNS = {"start": "[cyan]start  [/]", "done": "[green]done   [/]", "cached": "[green]same   [/]",
          "failed": "[red]failed [/]", "interrupted": "[yellow]interrupted[/]"}
# DVC's name for what it writes or tries links with: 16 random bytes, sometimes after the name of the file.
_UNFINISHED = re.compile(r".*\.[\w-]{22}\.tmp")
_SHOWN_SKIPPED = 6
_LEAST_DISK_GIB = 0.05  # logs, and the records of Prefect and DVC, beside what the outs took the last time


class Display:
    """Lines about stages as they start and end; safe to call from several threads."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total, self._ended = console, total, 0
        self._running: dict[str, float] = {}
        self._guard = threading.Lock()

    def started(self, name: str, description: str) -> None:
        """Say that a stage began; a further attempt says so again."""
        with self._guard:
            self._running[name] = time.monotonic()
        self._line("start", f"{escape(name)}  [dim]{escape(description)}[/]")

    def ended(self, name: str, outcome: str, message: str = "") -> None:
        """Say how a stage ended; one that was up to date is only counted."""
        with self._guard:
            began = self._running.pop(name, None)
            self._ended += 1
        if began is not None or outcome == "failed":
            took = duration(time.monotonic() - began) if began is not None else ""
            self._line(outcome, f"{escape(name)}  {took}  [dim]{self._ended}/{self._total}[/]")
        if message:
            lines = "\n".join(f"        {line}" for line in message.splitlines())
            self._console.print(lines, style="red", markup=False, highlight=False, soft_wrap=True)

    def interrupted(self) -> None:
        """Say which stages were running."""
        for name, began in self._running.items():
            self._line("interrupted", f"{escape(name)}  {duration(time.monotonic() - began)}")

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep the last line of each running stage's log in view, where there is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        over = threading.Event()
        with self._console.status("starting") as status:
            def follow() -> None:
                while not over.wait(1):
                    status.update("\n  ".join(f"{escape(name)} {duration(time.monotonic() - began)}  [dim]"
                                              f"{escape(_last_line(name))}[/]"
                                              for name, began in list(self._running.items())) or "waiting")

            thread = threading.Thread(target=follow, daemon=True)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()

    def _line(self, sign: str, text: str) -> None:
        self._console.print(f"{_SIGNS[sign]} {text}", highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Return ``8.2 s``, ``3 min 05 s`` or ``2 h 04 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _last_line(name: str) -> str:
    try:
        lines = re.split(r"[\r\n]+", log_path(name).read_text(errors="replace")[-400:].strip())
    except FileNotFoundError:
        return ""
    return lines[-1].strip()[:100]


def reproduce_project(targets: Sequence[str], console: Console, *, jobs: int | None = None, force: bool = False,
                      seed: int | None = None, only: bool = False, save: bool = False) -> bool:
    """Bring the project up to date, and hold it for this process meanwhile; return whether everything succeeded.

    Args:
        targets: stages or instances; everything if empty.
        console: where progress and results are shown.
        jobs: stages that share a GPU, or those at a time where there is none; None for one, and two at a time.
        force: run the targets, or everything, though nothing has changed, with all their seeds.
        seed: run the targets with this one of their seeds though nothing has changed; the others are left as they are.
        only: the targets without what they need, which is taken as it is; sources of data may then be elsewhere.
        save: record the bytes of this machine, also where it only rounds differently from what is committed.
    """
    from pipeline.hub_revisions import remarks
    from pipeline.sources import check_sources
    from stages.params import load_params

    def say(sentence: str, style: str | None = None) -> None:
        console.print(plain(sentence), style=style, markup=False, highlight=False, soft_wrap=True)

    began, params = time.monotonic(), load_params(whole=True)
    if not only:
        check_sources(params)
    signal.signal(signal.SIGTERM, _interrupt)
    with exclusive(RUN_LOCK, "keycontrast run"):
        for remark in remarks(params.plain()):
            say(remark, "yellow")
        for note in clear_leftovers():
            say(note, "dim")
        with own_lock(say, save):
            again = force or seed is not None
            dag = read_dag(targets=targets, restore=not (again or only), say=say)
            names = dag.resolve(targets) if targets else [node.name for node in dag.nodes]
            forced = names if again else []
            forget_seeds(params, forced, seed)
            dag = dag.only(names) if only else dag
            session = _flow(dag, forced, params, console, jobs) if forced or dag.out_of_date() else None
            _conclude(dag, session, params, console, time.monotonic() - began)
    return session is None or not session.failures


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _flow(dag: Dag, forced: Sequence[str], params: Any, console: Console, jobs: int | None) -> Session:
    from pipeline.estimate import estimate_in_words, recorded_seconds

    names = forced or dag.out_of_date()
    console.print(estimate_in_words(names), highlight=False, markup=False, soft_wrap=True)
    lock = read_lock()
    last = sum(out.get("size", 0) for name in names for out in lock.get(name, {}).get("outs", []))
    check_disk(_LEAST_DISK_GIB + last / 2**30)
    gpus = visible_gpus(params.runtime.device)
    if gpus and any(node.parallel for node in dag.nodes):
        check_devices(params.runtime.processes, len(gpus))
    at_once = max(AT_ONCE, len(gpus)) if jobs is None else jobs * max(1, len(gpus))
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    workers = Workers({**os.environ, "PATH": programs})  # as it is before the flow changes it
    display = Display(console, len(dag.nodes))
    session = Session(dag, workers, display, at_once, gpus * (jobs or 1), params.runtime.processes, frozenset(forced),
                      recorded_seconds(names))
    try:
        workers.start()  # which imports DVC while Prefect is imported here
        with display.live():
            run_flow(session, lambda sentence: console.print(sentence, highlight=False, soft_wrap=True))
    finally:
        workers.end()
    return session


def _conclude(dag: Dag, session: Session | None, params: Any, console: Console, seconds: float) -> None:
    """Show results; after a failure say what was left out because of it, and last the cause."""
    outcomes = dict.fromkeys((node.name for node in dag.nodes), "cached") if session is None else session.outcomes
    cached, total = list(outcomes.values()).count("cached"), len(dag.nodes)
    summary = f"All {total} stages are" if cached == total else f"{cached} of {total} stages were"
    console.print(f"{summary} up to date{'' if cached == total else ' already'}. {duration(seconds)} in all.",
                  highlight=False)
    if session is None or not session.failures:
        # Only what this command has looked at: other metrics and pages may be of other params.
        if runs := {node.key for node in dag.nodes if node.name.startswith("evaluate_")}:
            from pipeline.results import results_tables  # and with it all tracks, for a second

            for table in results_tables(params, runs):
                console.print(table)
        if any(Path(out) in (REPORT, REPORT_PAGE) for node in dag.nodes for out in node.outs):
            console.print(f"Report: {REPORT_PAGE}", highlight=False, soft_wrap=True)
        return
    lines = []
    if skipped := [node.name for node in dag.nodes if node.name not in outcomes]:
        more = f" and {len(skipped) - _SHOWN_SKIPPED} more" if len(skipped) > _SHOWN_SKIPPED else ""
        lines.append(f"Not run, because they need what failed: {', '.join(skipped[:_SHOWN_SKIPPED])}{more}.")
    for name, failure in session.failures.items():
        crashed = isinstance(failure, StageCrash)
        cause = str(failure).splitlines()[-1 if crashed else 0]
        where = f" All of its output: {log_path(name)}" if crashed else ""
        lines.append(f"Failed: {name}: {cause}{where}")
    lines.append("Mend the cause and give the same command again: what is done is kept. `dvc checkout --force STAGE` "
                 "brings back what a stage had made before.")
    console.print("\n".join(lines), style="red", markup=False, highlight=False, soft_wrap=True)


def forget_seeds(params: Any, names: Sequence[str], seed: int | None = None) -> None:
    """Forget what stage instances have finished with a seed, or with all of theirs, so that they work on it again."""
    from stages.tracks.common.finished import forget
    from stages.tracks.registry import seed_of, seeds_of_stage

    instances = [name.partition("@")[::2] for name in names]
    for stage, key in instances if seed is not None else ():
        seed_of(f"{stage}@{key}" if key else stage, seeds_of_stage(params, stage, key), seed)
    for stage, key in instances:
        if seeds_of_stage(params, stage, key):
            forget(stage, key, seed)


def check_disk(needed: float, folder: Path = Path()) -> None:
    """Make sure that as many GiB as a run needs are free where ``folder`` is."""
    free = shutil.disk_usage(folder).free / 2**30
    if free < needed:
        raise InputError(f"{folder.resolve()}: this run needs about {needed:.2f} GiB of disk, and {free:.2f} GiB are "
                         f"free. Free some space, and give the same command again; `dvc gc --workspace` empties DVC's "
                         f"cache of what is not in use.")


def _is_dvc(pid: int) -> bool:
    """Say whether process ``pid`` is DVC; one that is gone, or a zombie, is not."""
    try:
        return "dvc" in " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:   # ZombieProcess among them
        return False


def clear_leftovers() -> list[str]:
    """Remove DVC's lock file and temporary files that a killed command left; return a sentence for each kind.

    DVC forgets processes that are gone, but not those whose number another program has now, nor a file cut off while
    it was written. It names temporary files anew each time and never looks for old ones.
    """
    said, lock = [], Path(".dvc", "tmp", "rwlock")
    unfinished = [Path(place) / name for folder in (Path(".dvc", "cache"), ARTIFACTS, METRICS)
                  for place, _, names in os.walk(folder) for name in names if _UNFINISHED.fullmatch(name)]
    if lock.exists():
        content = lock.read_text(encoding="utf-8")
        holders = [int(pid) for pid in re.findall(r'"pid": (\d+)', content)]
        alive = any(map(_is_dvc, holders))
        if not content.endswith("}") or holders and not alive:
            lock.unlink()
            said.append("removed the lock that a killed command had left")
    if unfinished:
        with open_repo() as repo, repo.lock:  # DVC writes under it
            for path in unfinished:
                path.unlink(missing_ok=True)
        said.append(f"removed {len(unfinished)} temporary files of DVC that a killed command had left")
    return said
