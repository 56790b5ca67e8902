"""Worker processes: order, deaths, no orphans; chunks drawn as they are needed and kept once finished."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from keycontrast.errors import InputError
from keycontrast.progress import progress_bar
from stages.common.chunk_store import ChunkStore
from stages.run import pool
from stages.run.pool import map_chunks
from stages.run.processes import alive
from stages.run.progress import advance

ROOT = Path(__file__).resolve().parents[1]
PARENT = """
import os, sys, time
from pathlib import Path
from stages.run.pool import map_chunks

def sleeper():
    def work(chunk):
        Path(chunk).with_suffix(".tmp").write_text(str(os.getpid()))
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
    wait_until(lambda: not any(alive(int(pid)) for pid in workers))


def counted(log):
    """Doubles the numbers of a table and notes in a file which tables it saw; fails on a negative number."""
    def work(chunk):
        numbers = chunk["n"].to_pylist()
        with Path(log).open("a") as file:
            file.write(f"{numbers}\n")
        if min(numbers) < 0:
            raise InputError(f"negative: {numbers}")
        return pa.table({"twice": [2 * number for number in numbers]})

    return work


def tables(*numbers):
    return [pa.table({"n": row}) for row in numbers]


def unmakeable():
    raise InputError("no such model; name another")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_making_the_function_raises_arrives_as_it_is(workers):
    with pytest.raises(InputError, match="no such model; name another"):
        list(map_chunks(unmakeable, (), [1, 2, 3], workers, "test"))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_iterator_is_drawn_from_only_as_the_work_goes_on(workers):
    drawn = []

    def chunks():
        for number in range(40):
            drawn.append(number)
            yield number

    results = map_chunks(doubler, (1,), chunks(), workers, "test")
    for done, (value, _) in enumerate(results, start=1):
        assert value == done - 1
        assert len(drawn) <= done + 2 * workers
    assert len(drawn) == 40


@pytest.mark.parametrize("workers", [1, 2])
def test_finished_chunks_are_not_worked_on_again(tmp_path, workers):
    log = tmp_path / "log"
    before, poison, after = tables([1, 2], [3], [4]), tables([-5]), tables([6], [7])
    with pytest.raises(InputError, match="negative"):
        list(map_chunks(counted, (str(log),), [*before, *poison], workers, "test", store=ChunkStore(tmp_path, "k")))
    assert sorted(log.read_text().splitlines()) == ["[-5]", "[1, 2]", "[3]", "[4]"]
    log.unlink()
    store = ChunkStore(tmp_path, "k")
    results = list(map_chunks(counted, (str(log),), [*before, *after], workers, "test", store=store))
    assert [table["twice"].to_pylist() for table in results] == [[2, 4], [6], [8], [12], [14]]
    assert sorted(log.read_text().splitlines()) == ["[6]", "[7]"]
    store.clear()
    assert not list(tmp_path.rglob("*.arrow"))


def test_chunks_are_kept_by_content_and_key(tmp_path):
    [chunk], result = tables([1]), pa.table({"twice": [2], "word": ["é"]})
    store = ChunkStore(tmp_path, "old")
    store.keep(chunk, result)
    assert store.find(tables([2])[0]) is None
    found = ChunkStore(tmp_path, "old").find(pa.table({"n": [0, 1, 2]}).slice(1, 1).take([0]))
    assert found is not None
    assert store.read(found).equals(result)
    new = ChunkStore(tmp_path, "new")
    assert new.find(chunk) is None
    assert not found.exists()  # what was made under another key goes


def test_a_broken_file_is_worked_on_again(tmp_path):
    [chunk], log = tables([1]), tmp_path / "log"
    store = ChunkStore(tmp_path, "k")
    store.keep(chunk, pa.table({"twice": [2]}))
    store.find(chunk).write_bytes(b"ARROW1\0\0 and no more")
    assert [table["twice"].to_pylist() for table in
            map_chunks(counted, (str(log),), [chunk], 1, "test", store=store)] == [[2]]
    assert log.read_text() == "[1]\n"
    assert store.read(store.find(chunk))["twice"].to_pylist() == [2]


def test_a_half_written_file_does_not_count(tmp_path):
    [chunk] = tables([1])
    store = ChunkStore(tmp_path, "k")
    store.keep(chunk, pa.table({"twice": [2]}))
    path = store.find(chunk)
    path.rename(path.with_suffix(".tmp"))
    assert store.find(chunk) is None


def test_the_bar_counts_what_it_is_told_to(monkeypatch):
    bars = []
    monkeypatch.setattr(pool, "progress_bar", lambda *arguments: bars.append(progress_bar(*arguments)) or bars[0])
    [*map_chunks(counted, ("/dev/null",), tables([1, 2], [3]), 1, "annotate", total=3, unit="text",
                 measure=lambda chunk: chunk.num_rows)]
    assert (bars[0].n, bars[0].total, bars[0].unit, bars[0].desc) == (3, 3, "text", "annotate")


def test_restored_work_is_no_part_of_the_rate():
    with progress_bar("test", 100, "text") as bar:
        advance(bar, 60, restored=True)
        advance(bar, 10)
        assert (bar.n, bar.initial) == (70, 60)
        assert bar.n / bar.total == 0.7
        elapsed = bar.format_dict["elapsed"]
        shown = bar.format_meter(bar.n, bar.total, elapsed=10.0, initial=bar.initial, unit="text")
        assert elapsed >= 0
        assert "1.00text/s" in shown  # 10 texts in 10 seconds, not 70
        assert "00:30" in shown  # and so 30 more seconds for the other 30


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
