"""Processes that import DVC once, and run one stage instance after another as ``dvc repro --single-item`` does."""

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

from keycontrast.errors import CRASHED, causes, messages
from stages.run.processes import die_with

LOGS = Path(".keycontrast", "logs")
BEGUN = Path(".keycontrast", "begun")  # a file for each stage instance whose last attempt failed
_MESSAGE_LINES = 12
_LOCK_ATTEMPTS, _LOCK_PAUSE = 6, 2.0


class StageFailure(Exception):
    """A stage ended without its outs; the message is the stage's own."""


class StageCrash(StageFailure):
    """A failure that is not one of the input, and may not occur when the stage is tried again."""


class Workers:
    """DVC processes, started as they are needed, each in a pool of its own, so that a killed one breaks no other."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**environment, "PYTHONUNBUFFERED": "1"}
        self._idle: list[tuple[ProcessPoolExecutor, Future[int]]] = []
        self._guard = threading.RLock()  # reentrant: a signal handler may acquire it again in the same thread
        self.stopped = False

    def start(self) -> None:
        """Start a process, which imports DVC in the background."""
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (os.getpid(),))
        self._idle.append((pool, pool.submit(os.getpid)))

    def repro(self, name: str, gpus: Sequence[str] = (), force: bool = False) -> bool:
        """Bring stage instance ``name`` up to date, its output in ``.keycontrast/logs``; return whether it changed."""
        log, begun = log_path(name), BEGUN / name
        with self._guard:
            if self.stopped:
                raise StageCrash("stopped before it began")
            if not self._idle:
                self.start()
            pool, pid = self._idle.pop()
        for path in (log, begun):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        try:
            future = pool.submit(_reproduced, name, log, self._environment | devices, force)
        except BrokenProcessPool as error:
            raise StageCrash("the DVC process that should run it was killed before") from error
        if isinstance(future.exception(), BrokenProcessPool):
            with suppress(BrokenProcessPool, ProcessLookupError):
                os.killpg(pid.result(), signal.SIGKILL)  # the stage may not have noticed yet
            raise StageCrash(f"the DVC process that ran it ended. {_last_lines(log)}")
        self._idle.append((pool, pid))
        changed = future.result()
        begun.unlink()
        return changed

    def end(self) -> None:
        """End every process and all that it started; nothing starts after this."""
        with self._guard:
            self.stopped = True
        for process in multiprocessing.active_children():
            with suppress(ProcessLookupError):
                os.killpg(process.ident or 0, signal.SIGKILL)
            process.kill()  # which may not have its group yet
            process.join()


def log_path(name: str) -> Path:
    """Return where the output of stage instance ``name`` goes."""
    return LOGS / f"{name}.log"


def _lines(log: Path) -> list[str]:
    return [line.rstrip() for line in log.read_text(errors="replace").splitlines() if line.strip()]


def _last_lines(log: Path) -> str:
    lines = _lines(log)[-_MESSAGE_LINES:]
    return "\n".join(["The end of its output:", *lines]) if lines else "It wrote no output."


def _begin(parent: int) -> None:
    """Make this process the first of a group, which does not get a terminal's Ctrl-C, and import DVC."""
    os.setsid()
    die_with(parent)
    import dvc.repo  # noqa: F401 - now, while there is nothing to do


def _reproduced(name: str, log: Path, environment: Mapping[str, str], force: bool) -> bool:
    """Return whether DVC ran a stage; raise its failure."""
    from dvc.exceptions import DvcException
    from dvc.lock import LockError
    from dvc.repo import Repo
    from dvc.rwlock import RWLockFileCorruptedError, RWLockFileFormatError
    from dvc.stage.exceptions import StageCmdFailedError

    os.environ.clear()
    os.environ.update(environment)
    with log.open("wb") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            with Repo(_wait_for_lock=True) as repo:
                return bool(repo.reproduce(name, single_item=True, force=force))
        except DvcException as error:
            chain = causes(error)
            if failed := [cause for cause in chain if isinstance(cause, StageCmdFailedError)]:
                raise _failure(name, log, str(failed[0])) from None
            # Measured: two DVC processes in one repository are safe; of eight, 3 in 100 lose the lock.
            if attempt == _LOCK_ATTEMPTS - 1 or not any(isinstance(cause, LockError | RWLockFileCorruptedError
                                                                   | RWLockFileFormatError) for cause in chain):
                raise StageFailure(messages(error)) from None  # a dep that is missing, an out that was not made
            time.sleep(_LOCK_PAUSE)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    raise AssertionError("the last attempt returns or raises")


def _failure(name: str, log: Path, message: str) -> StageFailure:
    """Return the failure of a stage by the exit status in DVC's message."""
    match = re.search(r"exited with (-?\d+)$", message)
    status = int(match[1]) if match else CRASHED
    number = -status if status < 0 else status - 128  # a shell adds 128 to the number of a signal
    if number in set(signal.Signals):
        return StageCrash(f"ended by {signal.Signals(number).name}: by a person, or by the system because memory was "
                          f"short. {_last_lines(log)}")
    lines, prefix = _lines(log), f"{name.partition('@')[0]}: "
    begins = [index for index, line in enumerate(lines) if line.startswith(prefix)]
    if status == CRASHED or not begins:
        return StageCrash(_last_lines(log))
    return StageFailure("\n".join(lines[begins[-1]:]).removeprefix(prefix))
