"""``keycontrast run``: check params, estimate the time by the last runs, run the flow, show the results."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from keycontrast.errors import plain
from pipeline.dag import Dag, out_of_date, read_dag, resolve
from pipeline.flow import Session, run_flow
from pipeline.records import clear_leftovers, own_lock
from pipeline.worker import StageCrash, StageFailure, Workers, log_path
from stages.common.distributed import check_devices, visible_gpus
from stages.run.process import RECORDS
from stages.run.processes import exclusive

RUN_LOCK = Path(".keycontrast", "run")
AT_ONCE = 2  # stages, where they share no GPU
_SIGNS = {"start": "[cyan]start  [/]", "done": "[green]done   [/]", "cached": "[green]same   [/]",
          "failed": "[red]failed [/]", "interrupted": "[yellow]interrupted[/]"}
_SHOWN_SKIPPED = 6


def duration(seconds: float) -> str:
    """Return ``8.2 s``, ``3 min 05 s`` or ``2 h 04 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def estimate_in_words(stages: Iterable[str], records: Path = RECORDS) -> str:
    """Return a sentence with the total seconds of the last runs of stage instances such as ``ingest@sample``."""
    names, seconds = set(stages), list[float]()
    for name in names:
        path = records / f"{name if '@' in name else f'{name}@all'}.json"
        with suppress(FileNotFoundError, json.JSONDecodeError):     # never run here, or killed
            seconds.append(float(json.loads(path.read_text(encoding="utf-8"))["seconds"]))
    if missing := len(names) - len(seconds):
        return f"No estimate yet: {missing} of {len(names)} stages have no record of a run here."
    if len(names) == 1:
        return f"The last run of this stage took {duration(sum(seconds))}."
    return (f"The last runs of these {len(names)} stages took {duration(sum(seconds))}, added up; stages run in "
            f"parallel.")


class Display:
    """Lines about stages as they start and end; safe to call from several threads."""

    def __init__(self, console: Console) -> None:
        self._console, self._ended, self.total = console, 0, 0
        self._running: dict[str, float] = {}

    def say(self, text: str, style: str | None = None) -> None:
        """Show a line without markup."""
        self._console.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def started(self, name: str, description: str) -> None:
        """Show that a stage started."""
        self._running[name] = time.monotonic()
        self._line("start", f"{escape(name)}  [dim]{escape(description)}[/]")

    def ended(self, name: str, outcome: str, message: str = "") -> None:
        """Show how a stage ended; one that was up to date is only counted."""
        began = self._running.pop(name, None)
        self._ended += 1
        if began is not None or outcome == "failed":
            took = duration(time.monotonic() - began) if began is not None else ""
            self._line(outcome, f"{escape(name)}  {took}  [dim]{self._ended}/{self.total}[/]")
        if message:
            self.say("\n".join(f"        {line}" for line in message.splitlines()), "red")

    def interrupted(self) -> None:
        """Show the stages that were running."""
        for name, began in list(self._running.items()):
            self._line("interrupted", f"{escape(name)}  {duration(time.monotonic() - began)}")

    def failed(self, failures: Mapping[str, StageFailure], skipped: Sequence[str]) -> None:
        """Show the stages that did not run because of a failure, and last the cause."""
        if skipped:
            more = f" and {len(skipped) - _SHOWN_SKIPPED} more" if len(skipped) > _SHOWN_SKIPPED else ""
            self.say(f"Not run, because they need what failed: {', '.join(skipped[:_SHOWN_SKIPPED])}{more}.", "red")
        for name, failure in failures.items():
            crashed = isinstance(failure, StageCrash)
            where = f" All of its output: {log_path(name)}" if crashed else ""
            self.say(f"Failed: {name}: {str(failure).splitlines()[-1 if crashed else 0]}{where}", "red")
        self.say("Remove the cause and run the same command again: finished stages are kept. `dvc checkout --force "
                 "STAGE` restores the previous outs of a stage.", "red")

    def live(self) -> AbstractContextManager[Any]:
        """Show the last line of each running stage's log on a terminal."""
        return Live(get_renderable=self._in_view, console=self._console, refresh_per_second=1, transient=True)

    def _in_view(self) -> Text:
        lines = []
        for name, began in list(self._running.items()):
            last = ""
            with suppress(FileNotFoundError), log_path(name).open("rb") as log:     # not made yet
                log.seek(max(0, log.seek(0, os.SEEK_END) - 400))
                last = re.split(r"[\r\n]+", log.read().decode(errors="replace").strip())[-1].strip()
            lines.append(f"  {name} {duration(time.monotonic() - began)}  {plain(last[:100], keep='')}")
        return Text("\n".join(lines))

    def _line(self, sign: str, text: str) -> None:
        self._console.print(f"{_SIGNS[sign]} {text}", highlight=False, soft_wrap=True)


def reproduce_project(targets: Sequence[str], console: Console, *, jobs: int | None = None, force: bool = False,
                      seed: int | None = None, only: bool = False, save: bool = False) -> bool:
    """Bring the project up to date under a lock; return whether everything succeeded. Arguments: see the command."""
    from pipeline.sources import check_sources, hub_warnings
    from stages.params import load_params
    from stages.tracks.registry import forget_seeds

    began, params, display = time.monotonic(), load_params(complete=True), Display(console)
    if not only:    # else the data may be on another machine
        check_sources(params)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with exclusive(RUN_LOCK, "keycontrast run"):
        for warning in [*hub_warnings(params.plain()), *clear_leftovers()]:
            display.say(warning, "yellow")
        with own_lock(display.say, save):
            rerun = force or seed is not None
            dag = read_dag(targets=targets, only=only, restore=not (rerun or only), say=display.say)
            forced = resolve(dag, targets) if rerun else []
            forget_seeds(params, forced, seed)
            outcomes, failures = dict.fromkeys(dag, "cached"), dict[str, StageFailure]()
            if names := forced or out_of_date(dag):
                display.say(estimate_in_words(names))
                session = _session(dag, params, display, jobs, frozenset(forced))
                outcomes, failures = session.outcomes, session.failures
                try:
                    session.workers.start()  # imports DVC while Prefect is imported here
                    with display.live():
                        run_flow(session, display.say)
                finally:
                    session.workers.end()
            cached = list(outcomes.values()).count("cached")
            summary = f"All {len(dag)} stages are" if cached == len(dag) else f"{cached} of {len(dag)} stages were"
            display.say(f"{summary} up to date{'' if cached == len(dag) else ' already'}. "
                        f"{duration(time.monotonic() - began)} in all.")
            if failures:
                display.failed(failures, [name for name in dag if name not in outcomes])
            else:
                from pipeline.results import show_results  # takes a second to import

                show_results(dag, params, console)
    return not failures


def _session(dag: Dag, params: Any, display: Display, jobs: int | None, forced: frozenset[str]) -> Session:
    gpus, display.total = visible_gpus(params.runtime.device), len(dag)
    if gpus and any(node.parallel for node in dag.values()):
        check_devices(params.runtime.processes, len(gpus))
    at_once = max(AT_ONCE, (jobs or 1) * len(gpus)) if gpus else jobs or AT_ONCE
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    workers = Workers({**os.environ, "PATH": programs})  # before the flow changes the environment
    return Session(dag, workers, display, at_once, gpus * (jobs or 1), params.runtime.processes, forced)
