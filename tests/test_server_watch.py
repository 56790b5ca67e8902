"""A block that fails because Prefect's server has gone ends in one sentence; any other failure stays as it is."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pipeline.running.server import server_watched
from stages.run.errors import InputError


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words):
        """Say nothing."""


@pytest.fixture
def there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".keycontrast").mkdir()
    server = HTTPServer(("127.0.0.1", 0), Healthy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{server.server_port}/api")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".keycontrast").mkdir()
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        address = f"http://127.0.0.1:{server.server_port}/api"
    monkeypatch.setenv("PREFECT_API_URL", address)
    return address


def failing(error):
    with server_watched(lambda message: None):
        raise error


def test_without_a_server_the_failure_of_a_request_is_said_in_one_sentence(gone):
    with pytest.raises(InputError, match=f"the Prefect server at {gone} has ended, or answers no more. What is done is "
                                         "kept. Give the same command again"):
        failing(RuntimeError("Failed to reach API"))
    with pytest.raises(InputError, match="^mine$"):
        failing(InputError("mine"))


def test_with_a_server_a_failure_stays_what_it_is(there):
    with pytest.raises(RuntimeError, match="^something else$"):
        failing(RuntimeError("something else"))
