"""The Prefect API for the length of one command.

Prefect would start such a server by itself, but only when the flow begins, and it would outlive a killed
command. Ours starts while Prefect is being imported and ends with the process that started it.
``PREFECT_API_URL`` names another server to use instead, such as one that ``prefect server start`` began.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.running.environment import HOME, child_environment
from stages.runtime.errors import InputError
from stages.runtime.guard import ORCHESTRATOR, die_with

_API_URL = "PREFECT_API_URL"
_OWN = "KEYCONTRAST_OWN_SERVER"
_START_SECONDS = 120.0
_STOP_SECONDS = 5.0


@contextmanager
def prefect_server() -> Iterator[Callable[[], None]]:
    """Start the server in the background; yield a function that waits until it answers."""
    if os.environ.get(_API_URL):
        yield lambda: None
        return
    port = _free_port()
    HOME.mkdir(exist_ok=True)
    with (HOME / "server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "pipeline.running.server", str(port)], stdout=log, stderr=log,
                                   env=_server_environment(), start_new_session=True)
    os.environ |= {_API_URL: f"http://127.0.0.1:{port}/api", _OWN: "1"}
    try:
        yield lambda: _await_health(process, port)
    finally:
        del os.environ[_API_URL], os.environ[_OWN]
        _stop(process)


def is_own_server() -> bool:
    """Tell whether the server is the one that :func:`prefect_server` has started."""
    return _OWN in os.environ


def serve(port: int) -> None:
    """Serve the Prefect API on ``port`` of this machine alone, until the orchestrator ends."""
    die_with([int(pid) for pid in [os.environ.get(ORCHESTRATOR)] if pid])
    import uvicorn

    _let_writers_wait()
    uvicorn.run("prefect.server.api.server:create_app", factory=True, host="127.0.0.1", port=port,
                log_level="error", lifespan="on")


def _let_writers_wait() -> None:
    """Have every transaction of the server take its turn before it reads.

    SQLite refuses at once what has read and then writes, if something else has been written in between, and Prefect's
    client tries such a request again after two seconds: measured, before four of five stages.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin = AioSqliteConfiguration.begin_transaction

    def begin_in_turn(self: Any, session: Any, with_for_update: bool = True) -> Any:  # noqa: ARG001 - as Prefect calls it
        return begin(self, session, with_for_update=True)

    AioSqliteConfiguration.begin_transaction = begin_in_turn  # type: ignore[method-assign]


def _server_environment() -> dict[str, str]:
    # The same marks as Prefect's own temporary server carries: no scheduler, no late-run watch.
    return {**child_environment(), "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_health(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    raise InputError(f"the Prefect server did not start; its messages are in {HOME / 'server.log'}. "
                     f"`keycontrast doctor` checks the installed versions; `dvc repro` runs without Prefect.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
