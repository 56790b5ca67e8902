"""A lasting DVC process: what ``dvc repro --single-item`` does, for one stage instance after another.

Starting DVC anew for every stage would cost a second each. Requests come as lines of JSON on standard input, answers go
as lines to standard output; DVC and the stages that it runs find neither, but an empty input and a log.
"""

import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from stages.run.errors import unwritten
from stages.run.processes import end_with_orchestrator

if __name__ == "__main__":  # before DVC is imported, which takes a second
    end_with_orchestrator()

import dvc.stage.run
from dvc.exceptions import DvcException
from dvc.lock import LockError
from dvc.repo import Repo
from dvc.rwlock import RWLockFileCorruptedError, RWLockFileFormatError
from dvc.stage.exceptions import StageCmdFailedError

from pipeline.running.dag import cache_parsed_params, reason
from pipeline.running.lockfile import keep_lock_by_stages
from pipeline.running.stage_host import StageHost

# Commands of dvc.yaml that a host can run; others are run by a shell, as always.
_STAGE = re.compile(r"sh stages/run\.sh ([\w.]+)((?: [\w.-]+)?)")
_LOCK_ERRORS = (LockError, RWLockFileCorruptedError, RWLockFileFormatError)


class Notes(logging.Handler):
    """Takes what DVC says while it works on a stage: warnings go into the log, and one line tells of the cache."""

    restored = False

    def emit(self, record: logging.LogRecord) -> None:
        """Note ``record``."""
        self.restored |= "is cached - skipping run" in str(record.msg)
        if record.levelno >= logging.WARNING:
            sys.stderr.write(f"{record.getMessage()}\n")


def main() -> None:
    """Answer requests until there are no more, or the command that started this process ends."""
    cache_parsed_params()
    keep_lock_by_stages()
    host_stages()
    requests, answers, environment = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"), dict(os.environ)
    _redirect(Path(os.devnull), 0)
    for line in requests:
        request = json.loads(line)
        _redirect(Path(request["log"]), 1, 2)
        os.environ.clear()
        os.environ.update(environment | request["environment"])
        answers.write(json.dumps(_reproduced(request["stage"], request["force"])) + "\n")
        answers.flush()


def host_stages() -> None:
    """Have stages run in forks of a host; leave them to DVC on macOS, whose libraries may end a fork that uses them."""
    if sys.platform == "linux":
        _run_stages_in(StageHost())


def _run_stages_in(host: StageHost) -> None:
    """Have DVC run the commands of stages in forks of ``host``."""
    by_shell = dvc.stage.run._run

    def run(executable: str | None, command: str, **how: Any) -> None:
        stage = _STAGE.fullmatch(command)
        if stage is None:
            by_shell(executable, command, **how)
        elif status := host.run(stage[1], stage[2].split(), how["cwd"], how["env"]):
            raise StageCmdFailedError(command, status)

    dvc.stage.run._run = run


def _reproduced(stage: str, force: bool) -> dict[str, Any]:
    """Return ``outcome`` (``done``, ``restored`` from the cache, ``cached``), or ``error`` and its ``kind``."""
    notes, logger = Notes(), logging.getLogger("dvc")
    logger.handlers, logger.propagate = [notes], False
    logger.setLevel(logging.INFO)
    try:
        with Repo(_wait_for_lock=True) as repo:
            done = repo.reproduce(stage, single_item=True, force=force)
    except DvcException as error:
        return {"error": reason(error), "kind": _kind(error)}
    except OSError as error:
        told = unwritten(error)
        if told is None:
            raise
        return {"error": told, "kind": "stage"}
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return {"outcome": "restored" if notes.restored else "done" if done else "cached"}


def _kind(error: BaseException) -> str:
    """Return whether the ``command`` failed, another process held a ``lock``, or DVC objects to the stage itself."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, StageCmdFailedError):
            return "command"
        if isinstance(cause, _LOCK_ERRORS):
            return "lock"
        cause = cause.__cause__
    return "stage"


def _redirect(path: Path, *descriptors: int) -> None:
    with path.open("r+b" if str(path) == os.devnull else "wb") as file:
        for descriptor in descriptors:
            os.dup2(file.fileno(), descriptor)


if __name__ == "__main__":
    main()
