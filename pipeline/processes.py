"""One stage instance as a ``dvc repro -s`` process: how it runs and how its end is told."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pipeline.environment import LOGS, child_environment

_LOCK_LOST = ("Unable to acquire lock", "is being blocked by", "RWLock-file")
_COMMAND_FAILED = "failed to run: "
_MESSAGE_LINES = 12
_KILL_SECONDS = 10.0


class StageFailure(Exception):
    """A stage ended without its outs; the message is the stage's own."""


class BadInput(StageFailure):
    """The stage named something that a person has to mend: trying again cannot help."""


class StageCrash(StageFailure):
    """The stage died in another way; a training goes on from its checkpoint when tried again."""


class LockLost(StageFailure):
    """Another DVC process held the repository's lock for too long; trying again helps."""


class Processes:
    """The running children, so that all of them can be ended together."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped = False
        self._guard = threading.Lock()

    def repro(self, name: str, gpus: Sequence[str] = (), force: bool = False) -> bool:
        """Run ``dvc repro -s name`` to its end, its output in ``.keycontrast/logs``.

        Returns:
            Whether the stage ran; False if DVC found nothing to do.

        Raises:
            StageFailure: it failed; the kind tells whether another attempt makes sense.
        """
        log = log_path(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "-s",
                   *(["--force"] if force else []), name]
        with log.open("wb") as output:
            process = self._start(name, command, output.fileno(), gpus)
            try:
                status = process.wait()
            finally:
                with self._guard:
                    self._running.pop(name, None)
        text = log.read_text(encoding="utf-8", errors="replace")
        if status != 0:
            raise failure_of(name, text)
        return f"Stage '{name}' didn't change, skipping" not in text

    def end(self) -> None:
        """End every child and all that it started; nothing starts after this."""
        with self._guard:
            self._stopped = True
            running = list(self._running.values())
        for process in running:
            _signal_group(process, signal.SIGTERM)
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_SECONDS)
            # DVC waits for its command and the command may not heed SIGTERM; the group is ended as a whole.
            _signal_group(process, signal.SIGKILL)

    def _start(self, name: str, command: list[str], output: int, gpus: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._guard:
            if self._stopped:
                raise StageCrash("stopped before it began")
            # Its own session: the stage with its worker processes can then be signalled as one group.
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env=child_environment(gpus), start_new_session=True)
            self._running[name] = process
            return process


def log_path(name: str) -> Path:
    """Return where the output of stage instance ``name`` goes."""
    return LOGS / f"{name}.log"


def failure_of(name: str, output: str) -> StageFailure:
    """Return what ``output`` of a failed ``dvc repro`` says: the kind of failure and the stage's own words."""
    stage = name.partition("@")[0]
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", output) if line.strip()]
    own = [line for line in lines if not _is_frame(line)]
    if any(text in output for text in _LOCK_LOST):
        return LockLost(_tail(lines))
    crashed = any(line.startswith("Traceback (most recent call last)") for line in lines)
    begins = [index for index, line in enumerate(own) if line.startswith(f"{stage}: ")]
    if begins and not crashed:
        return BadInput("\n".join(own[begins[-1]:]).removeprefix(f"{stage}: "))
    objections = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    # DVC itself objects, not the command: a dependency that is not there, an out that was not made.
    if objections and not crashed and not any(_COMMAND_FAILED in line for line in objections):
        return BadInput("\n".join(objections))
    return StageCrash(_tail(own or lines))


def _is_frame(line: str) -> bool:
    """Tell whether a line is DVC's, not the stage's."""
    return line.startswith(("Running stage '", "> ", "ERROR: failed to reproduce", "Updating lock file",
                            "Generating lock file", "WARNING: Some of the cache"))


def _tail(lines: list[str]) -> str:
    return "\n".join(lines[-_MESSAGE_LINES:]) or "no message"


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def visible_gpus(device: str) -> list[str]:
    """Return the devices that stages may take; empty where they compute on the CPU.

    Args:
        device: ``runtime.device`` of the params.
    """
    if device == "cpu":
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [part.strip() for part in chosen.split(",") if part.strip() not in ("", "-1")]
    return list(_installed_gpus())


def _installed_gpus() -> Iterator[str]:
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return
    if listing.returncode == 0:
        yield from re.findall(r"^GPU (\d+):", listing.stdout, re.MULTILINE)
