"""A process that imports what stages need once, and forks one process for each of them.

Importing pandas takes a stage half a second of a processor, torch and transformers five. A host does nothing but import
the modules of stages, in one thread: a fork of it finds no lock held and no GPU in use. What a stage computes does not
depend on who has imported its module; a bare `dvc repro` starts a Python for each.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import models
import stages
from stages.run.log import configure

_REQUEST_BYTES = 1 << 16
# What a stage imports when it runs.
_WITH_ANY_STAGE = ("psutil", "stages.params")
_STALE = "stale"
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG


def end_with_parent(parent: int) -> None:
    """Have Linux end this process with ``parent``; the thread that forked it counts."""
    ctypes.CDLL(None, use_errno=True).prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was faster
        os.kill(os.getpid(), signal.SIGKILL)


class StageHost:
    """The host of one DVC process; it starts with the first stage, and ends with that process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel = socket.socket()

    def run(self, module: str, arguments: list[str], folder: str, environment: dict[str, str]) -> int:
        """Run ``python -m stages.MODULE ARGUMENTS`` in ``folder``, its output where that of this process goes.

        Returns:
            Its exit status, as of :class:`subprocess.Popen`.
        """
        request = {"module": module, "arguments": arguments, "folder": folder, "environment": environment}
        answer = self._ask(request)
        if answer == _STALE:  # what it has imported has been edited since
            self._end()
            answer = self._ask(request)
        return int(answer)

    def _ask(self, request: dict[str, Any]) -> str:
        if self._process is None:
            self._start()
        socket.send_fds(self._channel, [json.dumps(request).encode() + b"\n"], [1, 2])
        answer = self._channel.recv(_REQUEST_BYTES).decode()
        if answer:
            return answer
        status = self._end()
        return str(status or 1)

    def _start(self) -> None:
        self._channel, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen([sys.executable, "-m", "pipeline.running.stage_host", str(other.fileno())],
                                             stdin=subprocess.DEVNULL, pass_fds=[other.fileno()])

    def _end(self) -> int | None:
        self._channel.close()
        process, self._process = self._process, None
        return process.wait() if process is not None else None


def serve(channel: socket.socket) -> None:
    """Fork a process for each request, one at a time, until the DVC process ends."""
    configure()  # before transformers is imported, which reads how much it may say
    gc.disable()  # imports make no garbage, and a fork shares what its own collections do not touch
    code, host = _code(), os.getpid()
    while request := _next_request(channel):
        if _code() != code:
            channel.send(_STALE.encode())
            return
        module = _imported(request["module"])
        gc.freeze()
        pid = os.fork()
        if not pid:
            end_with_parent(host)
            gc.enable()
            channel.close()
            _become(module, request)
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _next_request(channel: socket.socket) -> dict[str, Any] | None:
    line, descriptors, _, _ = socket.recv_fds(channel, _REQUEST_BYTES, 2)
    while line and not line.endswith(b"\n"):
        line += channel.recv(_REQUEST_BYTES)
    for descriptor, own in zip(descriptors, (1, 2), strict=False):
        os.dup2(descriptor, own)
        os.close(descriptor)
    return json.loads(line) if line else None


def _code() -> dict[Path, tuple[int, int]]:
    """Return what tells whether any module of a stage is another than before."""
    found = {}
    for package in (stages, models):
        for path in Path(package.__path__[0]).rglob("*.py"):
            state = path.stat()
            found[path] = state.st_mtime_ns, state.st_size
    return found


def _imported(stage: str) -> Any:
    """Return the module of ``stage``; None if it cannot be imported, which has been said where its output goes."""
    try:
        for name in _WITH_ANY_STAGE:
            import_module(name)
        return import_module(f"stages.{stage}")
    except Exception:  # noqa: BLE001 - whatever it is, Python would say it and end
        traceback.print_exc()
        return None


def _become(module: Any, request: dict[str, Any]) -> NoReturn:
    """Be the process of a stage, from its arguments to its exit status."""
    if module is None:
        sys.exit(1)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [module.__file__, *request["arguments"]]
    sys.modules["__main__"] = module  # which processes that it starts import first
    sys.exit(module.main(request["arguments"]))


if __name__ == "__main__":
    end_with_parent(os.getppid())
    serve(socket.socket(fileno=int(sys.argv[1])))
