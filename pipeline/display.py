"""What a run shows of its stages: a line as each starts and ends, and the last line of those that run."""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from keycontrast.errors import plain
from pipeline.estimate import duration
from pipeline.worker import StageCrash, StageFailure, log_path

_SIGNS = {"start": "[cyan]start  [/]", "done": "[green]done   [/]", "cached": "[green]same   [/]",
          "failed": "[red]failed [/]", "interrupted": "[yellow]interrupted[/]"}
_SHOWN_SKIPPED = 6


class Display:
    """Lines about stages as they start and end; safe to call from several threads."""

    def __init__(self, console: Console) -> None:
        self._console, self._ended, self.total = console, 0, 0
        self._running: dict[str, float] = {}

    def say(self, text: str, style: str | None = None) -> None:
        """Show a line as it stands, whatever is in it."""
        self._console.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def started(self, name: str, description: str) -> None:
        """Say that a stage began; a further attempt says so again."""
        self._running[name] = time.monotonic()
        self._line("start", f"{escape(name)}  [dim]{escape(description)}[/]")

    def ended(self, name: str, outcome: str, message: str = "") -> None:
        """Say how a stage ended; one that was up to date is only counted."""
        began = self._running.pop(name, None)
        self._ended += 1
        if began is not None or outcome == "failed":
            took = duration(time.monotonic() - began) if began is not None else ""
            self._line(outcome, f"{escape(name)}  {took}  [dim]{self._ended}/{self.total}[/]")
        if message:
            self.say("\n".join(f"        {line}" for line in message.splitlines()), "red")

    def interrupted(self) -> None:
        """Say which stages were running."""
        for name, began in self._running.items():
            self._line("interrupted", f"{escape(name)}  {duration(time.monotonic() - began)}")

    def failed(self, failures: Mapping[str, StageFailure], skipped: Sequence[str]) -> None:
        """Say what was left out because of a failure, and last the cause."""
        if skipped:
            more = f" and {len(skipped) - _SHOWN_SKIPPED} more" if len(skipped) > _SHOWN_SKIPPED else ""
            self.say(f"Not run, because they need what failed: {', '.join(skipped[:_SHOWN_SKIPPED])}{more}.", "red")
        for name, failure in failures.items():
            crashed = isinstance(failure, StageCrash)
            where = f" All of its output: {log_path(name)}" if crashed else ""
            self.say(f"Failed: {name}: {str(failure).splitlines()[-1 if crashed else 0]}{where}", "red")
        self.say("Mend the cause and give the same command again: what is done is kept. `dvc checkout --force STAGE` "
                 "brings back what a stage had made before.", "red")

    def live(self) -> AbstractContextManager[Any]:
        """Keep the last line of each running stage's log in view, where there is a terminal."""
        return Live(get_renderable=self._in_view, console=self._console, refresh_per_second=1, transient=True)

    def _in_view(self) -> Text:
        lines = []
        for name, began in list(self._running.items()):
            log = log_path(name).read_text(errors="replace") if log_path(name).exists() else ""
            last = re.split(r"[\r\n]+", log[-400:].strip())[-1].strip()
            lines.append(f"  {name} {duration(time.monotonic() - began)}  {last[:100]}")
        return Text("\n".join(lines))

    def _line(self, sign: str, text: str) -> None:
        self._console.print(f"{_SIGNS[sign]} {text}", highlight=False, soft_wrap=True)
