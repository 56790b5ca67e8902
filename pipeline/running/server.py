"""The Prefect API for the length of one command, served by a thread of it.

Prefect would start such a server by itself, but in a process of its own, which imports Prefect once more and would
outlive a killed command. ``PREFECT_API_URL`` names another server to use instead, such as one that ``prefect server
start`` began.
"""

import logging
import os
import shutil
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.running.environment import HOME
from stages.run.errors import InputError

_API_URL = "PREFECT_API_URL"
_OWN = "KEYCONTRAST_OWN_SERVER"
_LOG = HOME / "server.log"
_START_SECONDS = 120.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.02
_WATCH_SECONDS = 1.0
_ANSWER_SECONDS = 60.0  # a server that has much to do is slow
_TRIES = 5
_ROOM = 4 * 2**20  # bytes, of which the server's records need some


@contextmanager
def prefect_server() -> Iterator[Callable[[], None]]:
    """Say where the server will be, before Prefect is imported; yield a function that starts it."""
    if os.environ.get(_API_URL):
        yield lambda: None
        return
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        os.environ |= {_API_URL: f"http://127.0.0.1:{listener.getsockname()[1]}/api", _OWN: "1"}
        stop: list[Callable[[], None]] = []
        try:
            yield lambda: stop.append(_started(listener))
        finally:
            del os.environ[_API_URL], os.environ[_OWN]
            for end in stop:
                end()


def is_own_server() -> bool:
    """Tell whether the server is the one that :func:`prefect_server` has started."""
    return _OWN in os.environ


@contextmanager
def server_watched(lost: Callable[[str], None]) -> Iterator[None]:
    """Watch the server and the disk during the block; call ``lost`` from a thread, with a message, if one fails.

    Prefect's client would try each of its requests for minutes, and then end in an error of its own; on a full disk
    server, DVC and logs fail in ways of their own.

    Raises:
        InputError: the block failed, and there is no server any more.
    """
    url, over = os.environ[_API_URL], threading.Event()
    way = (f"Its messages are in {_LOG}; give the same command again" if is_own_server() else
           f"Give the same command again once it runs, or without {_API_URL}: the command then has a server of its own")

    ended = f"has ended, or answers no more. What is done is kept. {way}."

    def watch() -> None:
        failed = 0
        while not over.wait(_WATCH_SECONDS):
            if shutil.disk_usage(HOME).free < _ROOM:
                lost(f"{HOME.resolve()}: the disk is full. What is done is kept. Free some space, and give the same "
                     f"command again; `dvc gc --workspace` empties DVC's cache of what is not in use.")
                return
            failed = 0 if _answers(url) else failed + 1
            if failed == _TRIES and not over.is_set():
                lost(f"the Prefect server at {url} {ended}")
                return

    thread = threading.Thread(target=watch, name="server-watch", daemon=True)
    thread.start()
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of Prefect's client, which some requests leave at once
        if _answers(url):
            raise
        raise InputError(f"the Prefect server at {url} {ended}") from error
    finally:
        over.set()


def _answers(url: str) -> bool:
    """Tell whether a server is there, whatever it answers."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=_ANSWER_SECONDS):
            return True
    except urllib.error.URLError as error:  # with a status of the server among them
        return not isinstance(error.reason, ConnectionError | TimeoutError)
    except (ConnectionError, TimeoutError):
        return False


def _started(listener: socket.socket) -> Callable[[], None]:
    """Start the server, wait until it answers, and return what ends it.

    Raises:
        InputError: it does not start.
    """
    import uvicorn
    from prefect.server.api.server import create_app

    _let_writers_wait()
    # The marks that Prefect's own temporary server carries: no scheduler, no late-run watch.
    config = uvicorn.Config(create_app(ephemeral=True, final=True), log_config=None, lifespan="on",
                            timeout_graceful_shutdown=int(_STOP_SECONDS))
    _log_to_a_file("uvicorn")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="prefect-server", daemon=True)
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join(_STOP_SECONDS)

    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            end()
            raise InputError(f"the Prefect server did not start; its messages are in {_LOG}. `keycontrast doctor` "
                             f"checks the installed versions; `dvc repro` runs without Prefect.")
        time.sleep(_POLL_SECONDS)
    return end


def _log_to_a_file(name: str) -> None:
    HOME.mkdir(exist_ok=True)
    logger = logging.getLogger(name)
    logger.handlers, logger.propagate = [logging.FileHandler(_LOG, "w", delay=True)], False
    logger.setLevel(logging.ERROR)


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
