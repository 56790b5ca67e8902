"""What a run shows: one line per stage as it starts and ends, and what is running just now."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from pipeline.running.workers import log_path

_SIGNS = {"done": "[green]done   [/]", "restored": "[green]cache  [/]", "failed": "[red]failed [/]",
          "skipped": "[yellow]skipped[/]"}
_REFRESH_SECONDS = 1.0
_LAST_BYTES = 400


class RunDisplay:
    """Lines about stages; safe to call from several threads.

    Args:
        console: where the lines go.
        total: number of stage instances of the run.
    """

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self._total = total
        self._ended = 0
        self._cached = 0
        self._running: dict[str, float] = {}
        self._guard = threading.Lock()

    def started(self, name: str, description: str) -> None:
        """Say that a stage began; a further attempt says so again."""
        with self._guard:
            self._running[name] = time.monotonic()
        self.console.print(f"[cyan]start  [/] {escape(name)}  [dim]{escape(description)}[/]", highlight=False,
                           soft_wrap=True)

    def ended(self, name: str, status: str, message: str = "") -> None:
        """Say how a stage ended; stages that were up to date are counted, not listed."""
        with self._guard:
            seconds = time.monotonic() - self._running.pop(name, time.monotonic())
            self._ended += 1
            self._cached += status == "cached"
            count = f"{self._ended}/{self._total}"
        if status != "cached":
            took = f"  {duration(seconds)}" if status != "skipped" else ""
            self.console.print(f"{_SIGNS[status]} {escape(name)}{took}  [dim]{count}[/]", highlight=False,
                               soft_wrap=True)
        if message:
            self.console.print("\n".join(f"        {line}" for line in message.splitlines()),
                               style="red" if status == "failed" else "yellow", markup=False, highlight=False,
                               soft_wrap=True)

    def say(self, sentence: str) -> None:
        """Say what a person may want to know at once."""
        self.console.print(sentence, style="bold", markup=False, highlight=False, soft_wrap=True)

    def summary(self) -> str:
        """Return one sentence about all stages that were up to date."""
        if self._cached == self._total:
            return f"All {self._total} stages are up to date."
        return f"{self._cached} of {self._total} stages were up to date already."

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep the last progress line of each running stage in view, where a terminal is attached."""
        if not self.console.is_terminal:
            yield
            return
        over = threading.Event()
        with self.console.status("starting") as status:
            follower = threading.Thread(target=self._follow, args=(status, over), daemon=True)
            follower.start()
            try:
                yield
            finally:
                over.set()
                follower.join()

    def _follow(self, status: Status, over: threading.Event) -> None:
        while not over.wait(_REFRESH_SECONDS):
            with self._guard:
                running = dict(self._running)
            now = time.monotonic()
            lines = [f"{escape(name)} {duration(now - since)}  [dim]{escape(_last_line(log_path(name)))}[/]"
                     for name, since in running.items()]
            status.update("\n  ".join(lines) or "waiting")


def duration(seconds: float) -> str:
    """Return ``8.2 s``, ``3 min 05 s`` or ``2 h 04 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - _LAST_BYTES))
            text = handle.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return lines[-1].strip()[:100] if lines and not lines[-1].startswith("> ") else ""
