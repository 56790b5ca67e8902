"""Processes that import DVC once, and bring one stage instance after another up to date as ``dvc repro -s`` does."""

import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from stages.run.errors import CRASHED, unwritten
from stages.run.processes import die_with

LOGS = Path(".keycontrast", "logs")
BEGUN = Path(".keycontrast", "begun")  # a file for each stage instance whose last attempt did not succeed
_MESSAGE_LINES = 12
_LOCK_ATTEMPTS, _LOCK_PAUSE = 6, 2.0
_FRAME = "stages/run.sh"


class StageFailure(Exception):
    """A stage ended without its outs; the message is the stage's own."""


class StageCrash(StageFailure):
    """It did not name something to mend: a training goes on from its checkpoint when tried again."""


class Workers:
    """DVC processes, each with one stage instance at a time, started as they are needed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**environment, "DVC_NO_ANALYTICS": "true", "PYTHONUNBUFFERED": "1"}
        self._all: list[Any] = []
        self._idle: list[tuple[Connection, Any]] = []
        self._guard = threading.Lock()
        self.stopped = False

    def start(self) -> None:
        """Start a process; it imports DVC while this one does other things."""
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs, os.getpid(), self._environment), daemon=False)
        with self._guard:
            if self.stopped:
                raise StageCrash("stopped before it began")
            process.start()
            self._all.append(process)
            self._idle.append((ours, process.pid))
        theirs.close()

    def repro(self, name: str, gpus: Sequence[str] = (), force: bool = False) -> bool:
        """Bring stage instance ``name`` up to date, its output in ``.keycontrast/logs``; return whether it changed."""
        log, begun = log_path(name), BEGUN / name
        try:
            for path in (log, begun):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"")
        except OSError as error:
            raise StageFailure(unwritten(error) or str(error)) from error
        while True:
            with self._guard:
                if self._idle:
                    worker, pid = self._idle.pop()
                    break
            self.start()
        try:
            worker.send((name, log, {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}, force))
            answer = worker.recv()
        except (EOFError, OSError) as error:
            _end_group(pid)  # the stage may not have noticed yet
            raise StageCrash(f"the DVC process that ran it ended. {_last_lines(log)}") from error
        with self._guard:
            self._idle.append((worker, pid))
        if isinstance(answer, StageFailure):
            raise answer
        begun.unlink()
        return bool(answer)

    def end(self) -> None:
        """End every process and all that it started; nothing starts after this."""
        with self._guard:
            self.stopped = True
        for process in self._all:
            _end_group(process.pid)
            process.kill()  # which may not have its group yet
            process.join()


def _end_group(pid: Any) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def log_path(name: str) -> Path:
    """Return where the output of stage instance ``name`` goes."""
    return LOGS / f"{name}.log"


def _lines(log: Path) -> list[str]:
    text = log.read_text(encoding="utf-8", errors="replace")
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def _last_lines(log: Path) -> str:
    lines = _lines(log)[-_MESSAGE_LINES:]
    return "\n".join(["The end of its output:", *lines]) if lines else "It wrote no output."


def _serve(requests: Connection, parent: int, environment: dict[str, str]) -> None:
    """Answer requests until there are no more, or the command that started this process ends."""
    os.setsid()  # it and its stage with all processes can then be ended as one group
    die_with([parent])
    logger = logging.getLogger("dvc")
    logger.handlers, logger.propagate = [logging.StreamHandler(sys.stderr)], False
    logger.setLevel(logging.WARNING)
    with suppress(EOFError):
        while True:
            import dvc.repo  # noqa: F401 - now, while there is nothing to do

            name, log, devices, force = requests.recv()
            with log.open("wb") as file:
                for descriptor in (1, 2):
                    os.dup2(file.fileno(), descriptor)
            os.environ.clear()
            os.environ.update(environment | devices)
            requests.send(_reproduced(name, log, force))


def _reproduced(name: str, log: Path, force: bool) -> bool | StageFailure:
    """Return whether DVC made a stage again, or how it failed."""
    from dvc.exceptions import DvcException
    from dvc.lock import LockError
    from dvc.repo import Repo
    from dvc.rwlock import RWLockFileCorruptedError, RWLockFileFormatError
    from dvc.stage.exceptions import StageCmdFailedError

    from pipeline.dag import causes, reason

    for _ in range(_LOCK_ATTEMPTS):
        try:
            with Repo(_wait_for_lock=True) as repo:
                return bool(repo.reproduce(name, single_item=True, force=force))
        except DvcException as error:
            chain, message = causes(error), reason(error)
            if failed := [cause for cause in chain if isinstance(cause, StageCmdFailedError)]:
                return _failure(name, log, str(failed[0]))
            # Measured: two DVC processes in one repository are safe; of eight, 3 in 100 lose the lock.
            if not any(isinstance(cause, LockError | RWLockFileCorruptedError | RWLockFileFormatError)
                       for cause in chain):
                return StageFailure(message)  # a dep that is missing, an out that was not made
            time.sleep(_LOCK_PAUSE)
        except OSError as error:
            return StageFailure(unwritten(error) or str(error))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    return StageFailure(message)


def _failure(name: str, log: Path, message: str) -> StageFailure:
    """Return how the command of a stage failed, by its exit status, which DVC says only in its message."""
    found = re.search(r"exited with (-?\d+)$", message)
    status = int(found[1]) if found else CRASHED
    number = -status if status < 0 else status - 128  # a shell adds 128 to the number of a signal
    if number in set(signal.Signals):
        return StageCrash(f"ended by {signal.Signals(number).name}: somebody ended it, or the system did because "
                          f"memory was short. {_last_lines(log)}")
    if _FRAME not in message or status == CRASHED:
        return StageCrash(_last_lines(log))
    lines, prefix = _lines(log), f"{name.partition('@')[0]}: "
    begins = [index for index, line in enumerate(lines) if line.startswith(prefix)]
    return StageFailure("\n".join(lines[begins[-1]:]).removeprefix(prefix) if begins else _last_lines(log))
