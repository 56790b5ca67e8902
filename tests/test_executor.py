"""Parts made by processes or a cluster: the same bytes, no orphans, finished parts reused after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from distributed import LocalCluster
from test_annotate import saved_pipeline

from keycontrast.errors import InputError
from pipeline.schemas import SCHEMAS
from stages.annotate import annotate
from stages.common import tables
from stages.common.schemas import TEXTS
from stages.common.settings import Values
from stages.common.tables import Provenance, parts_of, read_metadata, read_table, table_writer, write_part, write_table
from stages.keywords import textrank
from stages.run.executor import Executor, code_fingerprint, make_part
from stages.run.processes import alive

ROOT = Path(__file__).resolve().parents[1]
WORDS = ["The big dogs bark.", "Dogs bark loudly. The dogs bark.", "Big dogs", "42", "The loudly bark dogs", "Dogs."]
STRINGS = [f"{WORDS[number % len(WORDS)]} Dogs {number}" for number in range(20)]
PROVENANCE = Provenance("shout@toy", "0")
MADE = ("tokens", "textrank")


def shouter(log, pause=0.0, deadly=None):
    """Makes texts upper case; notes each part begun, and is killed once at the one with text id ``deadly``."""
    def make(part, result):
        table = read_table(part)
        first = table["text_id"][0].as_py()
        with Path(log).open("a") as file:
            file.write(f"{first} {os.getpid()}\n")
        if first == deadly and not Path(log).with_suffix(".killed").exists():
            Path(log).with_suffix(".killed").touch()
            time.sleep(1)    # others finish some meanwhile
            os.kill(os.getpid(), signal.SIGKILL)
        if first == -1:
            raise InputError("text -1 is bad")
        time.sleep(pause)
        upper = pa.compute.utf8_upper(table["text"])
        write_part(result, TEXTS, [table.set_column(1, "text", upper).cast(TEXTS.arrow())], PROVENANCE.of_part())
        return {"texts": table.num_rows}

    return make


def unloadable():
    raise InputError("no such model; name another")


def block(address=None, file=None, wait=20.0):
    return Values(address=address, scheduler_file=file, connect_timeout=wait)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A table of seven parts."""
    monkeypatch.setattr(tables, "PART_ROWS", 3)
    return texts(tmp_path / "texts")


def texts(path, first=0):
    rows = {"text_id": range(first, first + 20), "text": STRINGS, "language": ["en"] * 20}
    write_table(path, TEXTS, rows, PROVENANCE)
    return path


def made(source, tmp_path, maker=shouter, arguments=None, key="k", **asked):
    """Return the bytes of the parts that are made of ``source``, and which were begun."""
    log, out = tmp_path / "log", tmp_path / "out"
    before = len(log.read_text().splitlines()) if log.exists() else 0
    executor = Executor("shout@toy", tmp_path / "scratch" / "parts" / key, **asked)
    with table_writer(out, TEXTS, PROVENANCE) as writer:
        counts = executor.make(source, maker, (str(log),) if arguments is None else arguments, writer)
    executor.clear()
    assert sum(each["texts"] for each in counts) == read_metadata(out)["rows"] == 20
    assert not (tmp_path / "scratch" / "parts").exists()
    begun = [line.split() for line in log.read_text().splitlines()[before:]]
    return [part.read_bytes() for part in parts_of(out)], [int(first) for first, _ in begun], {pid for _, pid in begun}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("dask"))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=folder) as found:
        yield found.scheduler_address


def test_processes_and_a_cluster_make_the_same_parts(source, tmp_path, cluster):
    alone, begun, pids = made(source, tmp_path)
    assert len(alone) == 7 and begun == [0, 3, 6, 9, 12, 15, 18] and pids == {str(os.getpid())}
    for asked in ({"workers": 2}, {"cluster": block(cluster)}):
        parts, begun, pids = made(source, tmp_path, **asked)
        assert parts == alone and sorted(begun) == [0, 3, 6, 9, 12, 15, 18]
        assert 1 <= len(pids) <= 2 and str(os.getpid()) not in pids


def test_a_killed_worker_is_reported_and_finished_parts_are_not_made_again(source, tmp_path):
    """Three processes, of which one is killed in the middle: a second run goes on, with the same bytes as one alone."""
    alone, _, _ = made(source, tmp_path)
    arguments = (str(tmp_path / "log"), 0.2, 9)
    with pytest.raises(InputError, match=r"shout@toy: a worker process ended .* Lower runtime.workers \(now 3\)"):
        made(source, tmp_path, arguments=arguments, workers=3)
    kept = list((tmp_path / "scratch").rglob("*.parquet"))
    assert 0 < len(kept) < 7
    parts, begun, _ = made(source, tmp_path, arguments=arguments, workers=3)
    assert parts == alone and len(begun) == 7 - len(kept) and 9 in begun


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_of_workers_arrive_as_they_are(source, tmp_path, workers, cluster):
    bad = texts(tmp_path / "bad", first=-1)
    for asked in ({"workers": workers}, {"cluster": block(cluster)}):
        with pytest.raises(InputError, match="text -1 is bad"):
            made(bad, tmp_path, **asked)
        with pytest.raises(InputError, match="no such model; name another"):
            made(source, tmp_path, unloadable, (), "another", **asked)


PARENT = """
import sys
from pathlib import Path
from stages.common.tables import table_writer
from stages.run.executor import Executor
import test_executor as test

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    test.made(folder / "texts", folder, arguments=(str(folder / "log"), 100.0), workers=2)
"""


def test_workers_die_with_the_process_that_started_them(source, tmp_path):
    script, log = tmp_path / "parent.py", tmp_path / "log"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path)],
                              env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"})
    try:
        wait_until(lambda: log.exists() and len(log.read_text().splitlines()) == 2)
    finally:
        parent.kill()
        parent.wait()
    pids = [int(line.split()[1]) for line in log.read_text().splitlines()]
    wait_until(lambda: not any(map(alive, pids)))


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


MORTAL = """import distributed
if __name__ == "__main__":
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp",
                                       dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    input()
"""


def test_a_scheduler_that_dies(source, tmp_path):
    with subprocess.Popen([sys.executable, "-c", MORTAL], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}) as process:
        address = process.stdout.readline().strip()
        watcher = subprocess.Popen([sys.executable, "-c", f"import os, time, pathlib\n"
                                    f"while not pathlib.Path({str(tmp_path / 'log')!r}).exists(): time.sleep(0.1)\n"
                                    f"os.kill({process.pid}, 9)"])
        try:
            with pytest.raises(InputError, match=r"shout@toy: the connection to the scheduler was lost. Start"):
                made(source, tmp_path, arguments=(str(tmp_path / "log"), 5.0), cluster=block(address))
        finally:
            process.kill()
            watcher.kill()
            watcher.wait()


def test_a_worker_with_other_code_or_files_is_refused(tmp_path):
    with pytest.raises(InputError, match="another version of this project's code"):
        make_part(tmp_path / "work", tmp_path, tmp_path, "another")
    with pytest.raises(InputError, match=r"a worker does not see .*work. All machines of the cluster need the file"):
        make_part(tmp_path / "work", tmp_path, tmp_path, code_fingerprint())


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return saved_pipeline(tmp_path_factory.mktemp("pipeline") / "en_words")


def stages_of(folder, pipeline, monkeypatch, workers=1, **cluster):
    """Return the bytes of the parts of tokens and phrases of a data set of seven parts."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    items = Path("artifacts/data/toy/items")
    texts(items / "texts")
    ids = list(range(20))
    write_table(items / "examples", SCHEMAS["plain_examples"], {
        "example_id": ids, "split": ["train"] * 12 + ["test"] * 8, "text_id": ids}, Provenance("i@toy", "0"))
    Path("params.yaml").write_text(json.dumps({
        "recipe": "t", "runtime": {"workers": workers}, "datasets": {"toy": {"source": "x", "layout": "texts"}},
        "annotate": {"pipeline": pipeline, "chunk": 2}, "cluster": cluster}))
    assert annotate.main(["toy"]) == 0 and textrank.main(["toy"]) == 0
    return [[part.read_bytes() for part in parts_of(folder / "artifacts/data/toy" / name)] for name in MADE]


def test_stages_make_a_part_of_each_part(source, pipeline, tmp_path, monkeypatch, cluster):
    alone = stages_of(tmp_path / "one", pipeline, monkeypatch)
    assert [len(parts) for parts in alone] == [7, 7]
    assert stages_of(tmp_path / "many", pipeline, monkeypatch, workers=2) == alone
    assert stages_of(tmp_path / "cluster", pipeline, monkeypatch, address=cluster) == alone
    found = [read_table(tmp_path / "one/artifacts/data/toy" / name) for name in MADE]
    counts = read_metadata(tmp_path / "one/artifacts/data/toy/textrank")["counts"]
    monkeypatch.setattr(tables, "PART_ROWS", 100)
    assert [len(parts) for parts in stages_of(tmp_path / "whole", pipeline, monkeypatch)] == [1, 1]
    whole = tmp_path / "whole/artifacts/data/toy"
    assert all(read_table(whole / name).equals(table) for name, table in zip(MADE, found, strict=True))
    assert read_metadata(whole / "textrank")["counts"] == counts
