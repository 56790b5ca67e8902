"""Worker processes: order, deaths, and no orphans."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stages.runtime.errors import InputError
from stages.runtime.guard import process_mark
from stages.runtime.pool import map_chunks

ROOT = Path(__file__).resolve().parents[1]
PARENT = """
import os, sys, time
from pathlib import Path
from stages.runtime.guard import process_mark
from stages.runtime.pool import map_chunks

def sleeper():
    def work(chunk):
        Path(chunk).with_suffix(".tmp").write_text(process_mark(os.getpid()))
        Path(chunk).with_suffix(".tmp").rename(chunk)
        time.sleep(100)
    return work

if __name__ == "__main__":
    list(map_chunks(sleeper, (), sys.argv[1:], 2, "test"))
"""


def doubler(factor):
    return lambda chunk: (factor * chunk, os.getpid())


def killer():
    return lambda chunk: os.kill(os.getpid(), signal.SIGKILL)


def failer():
    def work(chunk):
        raise InputError(f"chunk {chunk} is bad")

    return work


def test_results_come_in_the_order_of_chunks_from_processes_of_their_own():
    results = list(map_chunks(doubler, (2,), list(range(9)), 2, "test"))
    assert [value for value, _ in results] == list(range(0, 18, 2))
    assert os.getpid() not in {pid for _, pid in results}


@pytest.mark.parametrize(("chunks", "workers"), [([1], 2), ([1, 2], 1), ([], 2)])
def test_little_work_stays_in_this_process(chunks, workers):
    assert list(map_chunks(doubler, (2,), chunks, workers, "test")) == [(2 * chunk, os.getpid()) for chunk in chunks]


def test_a_worker_that_is_killed_is_reported_with_the_remedy():
    with pytest.raises(InputError, match=r"test: a worker process ended .* Lower runtime.workers \(now 2\)"):
        list(map_chunks(killer, (), [1, 2], 2, "test"))


def test_errors_of_workers_arrive_as_they_are():
    with pytest.raises(InputError, match="chunk 1 is bad"):
        list(map_chunks(failer, (), [1, 2, 3], 2, "test"))


def test_workers_die_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    marks = [tmp_path / "a", tmp_path / "b"]
    parent = subprocess.Popen([sys.executable, str(script), *map(str, marks)],
                              env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_until(lambda: all(mark.exists() for mark in marks))
    finally:
        parent.kill()
        parent.wait()
    workers = [mark.read_text() for mark in marks]
    wait_until(lambda: all(process_mark(int(mark.split(":")[0])) != mark for mark in workers))


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
