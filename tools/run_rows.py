"""Train and evaluate the rows of a recipe in pieces of limited time, on a machine that ends long commands.

    python tools/run_rows.py --list                 # rows, seeds, and what is finished
    python tools/run_rows.py --minutes 40           # all rows, or those that are named, until the time is over

Works in a project that has taken the recipe (`keycontrast use RECIPE`). Each row is `keycontrast run
evaluate_TRACK@ROW`: a row that is up to date costs a few seconds, finished seeds are kept, and an interrupted training
goes on from its last checkpoint. The same command, given again, does the next piece. Exit status: 0 when every row is
up to date, 3 when the time is over, 1 when a row failed.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keycontrast.errors import InputError, nearest
from stages.common.settings import read_params
from stages.tracks.common.frame import FINISHED
from stages.tracks.registry import all_runs, seeds_of_stage, track_of_run

DONE, FAILED, TIME_OVER = 0, 1, 3
_GRACE_SECONDS = 120.0  # after the interrupt, in which stages end


@dataclass(frozen=True)
class Row:
    """A run of the recipe, the stage instance that evaluates it, and its seeds."""

    name: str
    stage: str
    seeds: list[int]

    @property
    def finished(self) -> list[int]:
        """Seeds whose evaluation was finished here, perhaps under other params."""
        folder = FINISHED / self.stage / self.name
        return [seed for seed in self.seeds if (folder / str(seed) / "finished.json").exists()]


def rows_of(params: Any, names: Sequence[str]) -> list[Row]:
    """Return the rows called ``names``, or all in the order of the recipe.

    Raises:
        InputError: a name is no run of the params.
    """
    known = all_runs(params)
    for name in names:
        if name not in known:
            raise InputError(f"{name!r} is no run of recipe {params['recipe']}; {nearest(name, known)}")
    rows = []
    for name in names or known:
        stage = track_of_run(params, name).evaluated_by
        rows.append(Row(name, stage, seeds_of_stage(params, stage, name)))
    return rows


def run_piece(rows: Sequence[Row], minutes: float, program: Sequence[str] = (sys.executable, "-m", "pipeline")) -> int:
    """Run rows until all are up to date, one fails or the time is over; return the exit status."""
    # Behind `nohup ... &` an interrupt is ignored, by programs that are started from here too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    deadline = time.monotonic() + 60 * minutes
    for row in rows:
        target, started = f"{row.stage}@{row.name}", time.monotonic()
        status = _run([*program, "run", target], deadline - started)
        if status is None:
            _say(f"{row.name}: the time is over. Give the same command again to go on.")
            return TIME_OVER
        if status:
            _say(f"{row.name}: `keycontrast run {target}` ended with status {status}.")
            return FAILED
        _say(f"{row.name}: up to date, seeds {', '.join(map(str, row.seeds))}, "
             f"{(time.monotonic() - started) / 60:.1f} min")
    return DONE


def _run(command: Sequence[str], seconds: float) -> int | None:
    """Return the exit status of a command; None if it was interrupted because ``seconds`` were over."""
    if seconds <= 0:
        return None
    with subprocess.Popen(command) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            return None


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named in ``argv``."""
    parser = argparse.ArgumentParser(prog="python tools/run_rows.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="runs of the recipe; all if none is named")
    parser.add_argument("--minutes", type=float, default=40.0, help="time of this piece (40)")
    parser.add_argument("--list", action="store_true", help="show rows and finished seeds, and run nothing")
    arguments = parser.parse_args(argv)
    try:
        rows = rows_of(read_params(), arguments.rows)
    except InputError as error:
        sys.stderr.write(f"run_rows: {error}\n")
        return FAILED
    if not arguments.list:
        return run_piece(rows, arguments.minutes)
    for row in rows:
        _say(f"{row.name}: {len(row.finished)} of {len(row.seeds)} seeds finished")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
