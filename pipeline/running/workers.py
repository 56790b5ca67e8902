"""Stage instances in lasting DVC processes: how one runs, and how its end is told."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Literal

from pipeline.running.environment import LOGS, child_environment
from stages.run.errors import unwritten

_MESSAGE_LINES = 12
_BY_SIGNAL = 128  # a shell adds the number of the signal to this
_KILL_SECONDS = 10.0

# Measured: two DVC processes in one repository are safe; of eight, 3 in 100 lose the lock, and are tried again.
AT_ONCE = 2
Made = Literal["done", "restored", "cached"]


class StageFailure(Exception):
    """A stage ended without its outs; the message is the stage's own."""


class BadInput(StageFailure):
    """The stage named something that a person has to mend: trying again cannot help."""


class StageCrash(StageFailure):
    """The stage died in another way; a training goes on from its checkpoint when tried again."""


class LockLost(StageFailure):
    """Another DVC process held the repository's lock for too long; trying again helps."""


class Workers(AbstractContextManager["Workers"]):
    """DVC processes, each with one stage instance at a time; all of them end with the block."""

    def __init__(self) -> None:
        self._all: list[subprocess.Popen[str]] = []
        self._idle: list[subprocess.Popen[str]] = []
        self._guard = threading.Lock()
        self.stopped = False

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, count: int) -> None:
        """Have ``count`` processes ready: they import DVC while this one does other things."""
        with self._guard:
            self._idle += [self._started() for _ in range(count - len(self._idle))]

    def repro(self, name: str, gpus: Sequence[str] = (), force: bool = False) -> Made:
        """Bring stage instance ``name`` up to date, its output in ``.keycontrast/logs``.

        Returns:
            ``done`` if it ran, ``restored`` if DVC had it from an earlier run, ``cached`` if it was up to date.

        Raises:
            StageFailure: it failed; the kind tells whether another attempt makes sense.
        """
        log = log_path(name)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_bytes(b"")
        except OSError as error:
            raise BadInput(unwritten(error) or str(error)) from error
        worker = self._taken()
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        answer = _ask(worker, {"stage": name, "force": force, "log": str(log), "environment": devices})
        if answer is None:
            _end_group(worker, signal.SIGKILL)  # what it had started may not have noticed yet
            raise StageCrash(f"the DVC process that ran it ended before it did. The last that was said:\n{_tail(log)}")
        with self._guard:
            self._idle.append(worker)
        if "error" in answer:
            raise failure_of(name, answer["kind"], answer["error"], log.read_text(encoding="utf-8", errors="replace"))
        made: Made = answer["outcome"]
        return made

    def end(self) -> None:
        """End every process and all that it started; nothing starts after this."""
        with self._guard:
            self.stopped = True
            workers = list(self._all)
        for worker in workers:
            _end_group(worker, signal.SIGTERM)
        for worker in workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_KILL_SECONDS)
            # A stage may not heed SIGTERM; the group is ended as a whole.
            _end_group(worker, signal.SIGKILL)
            worker.wait()

    def _taken(self) -> "subprocess.Popen[str]":
        with self._guard:
            if self.stopped:
                raise StageCrash("stopped before it began")
            return self._idle.pop() if self._idle else self._started()

    def _started(self) -> "subprocess.Popen[str]":
        # Its own session: a worker and its stage with all processes can then be signalled as one group.
        worker = subprocess.Popen([sys.executable, "-m", "pipeline.running.dvc_worker"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=child_environment(), start_new_session=True)
        self._all.append(worker)
        return worker


def _end_group(worker: "subprocess.Popen[str]", by: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, by)


def _ask(worker: "subprocess.Popen[str]", request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to ``request``, or None if the worker died over it."""
    if worker.stdin is None or worker.stdout is None:
        raise ValueError("a worker without pipes")
    try:
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
    except BrokenPipeError:
        return None
    answer = worker.stdout.readline()
    return json.loads(answer) if answer else None


def log_path(name: str) -> Path:
    """Return where the output of stage instance ``name`` goes."""
    return LOGS / f"{name}.log"


def failure_of(name: str, kind: str, error: str, output: str) -> StageFailure:
    """Return the kind of failure and the words for it.

    Args:
        name: of the stage instance.
        kind: ``command``, ``lock`` or ``stage``, see :mod:`pipeline.running.dvc_worker`.
        error: what DVC says.
        output: of the stage.
    """
    if kind == "lock":
        return LockLost(error)
    if kind == "stage":  # a dependency that is not there, an out that was not made
        return BadInput(error)
    stage = name.partition("@")[0]
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", output) if line.strip()]
    begins = [index for index, line in enumerate(lines) if line.startswith(f"{stage}: ")]
    if begins and not any(line.startswith("Traceback (most recent call last)") for line in lines):
        return BadInput("\n".join(lines[begins[-1]:]).removeprefix(f"{stage}: "))
    last = "\n".join(lines[-_MESSAGE_LINES:])
    if killed := _killed_by(error):
        return StageCrash(f"ended by {killed}, not by itself: somebody ended it, or the system did for want of memory."
                          + (f" The last that it said:\n{last}" if last else ""))
    return StageCrash(last or error)


def _killed_by(error: str) -> str:
    """Return the signal that ended a stage, from what DVC says of its status; empty if none did."""
    status = re.search(r"exited with (-?\d+)", error)
    number = 0 if status is None else -int(status[1]) if int(status[1]) < 0 else int(status[1]) - _BY_SIGNAL
    return signal.Signals(number).name if number in set(signal.Signals) else ""


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-_MESSAGE_LINES:]) or "no message"
