"""Tables in parts, here and in a bucket: read as one table, and the same bytes whoever writes them."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3_server
from hosts import hosts
from rich.console import Console
from test_annotate import saved_pipeline
from wheel import wheel_site

from pipeline import inspection, sql
from pipeline.schemas import SCHEMAS
from stages.annotate import annotate
from stages.common import part_work, parts
from stages.common.fingerprint import sha256_of
from stages.common.parts import LIST, Layout, listed, parts_of
from stages.common.paths import DatasetPaths, manifest_path
from stages.common.tables import (
    Provenance,
    column_names,
    read_batches,
    read_metadata,
    read_table,
    row_count,
    write_table,
)
from stages.common.writing import table_writer
from stages.graph.joins import JoinLimits, joining
from stages.ingest import manifest
from stages.keywords import textrank
from stages.run.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
TEXTS = SCHEMAS["texts"]
WORDS = ["The big dogs bark.", "Dogs bark loudly. The dogs bark.", "Big dogs", "42", "The loudly bark dogs", "Dogs."]
STRINGS = [f"{WORDS[number % len(WORDS)]} Dogs {number}" for number in range(20)]


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a real S3 server in this process, whose address and credentials the environment says."""
    with s3_server.s3_server() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in {"AWS_ENDPOINT_URL": address, **s3_server.CREDENTIALS}.items():
            patch.setenv(name, value)
        yield f"s3://{s3_server.BUCKET}"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return saved_pipeline(tmp_path_factory.mktemp("pipeline") / "en_words")


def rows(start, stop):
    return pa.table({"text_id": range(start, stop), "text": STRINGS[start:stop], "language": ["en"] * (stop - start)},
                    schema=TEXTS.arrow())


def written(path, layout=None, step=3, provenance=None):
    with table_writer(path, TEXTS, provenance or Provenance("ingest@toy", "h", counts={"n": 1}), layout) as writer:
        for start in range(0, len(STRINGS), step):
            writer.write(rows(start, min(start + step, len(STRINGS))))
    return path


def test_a_table_goes_on_in_another_part(tmp_path):
    one, many = written(tmp_path / "one.parquet"), written(tmp_path / "many.parquet", Layout(6))
    assert one.is_file()
    assert [path.name for path in sorted(many.iterdir())] == [LIST, *(f"part-0000{n}.parquet" for n in range(4))]
    assert [part.rows for part in parts_of(many)] == [6, 6, 6, 2]
    assert all(part.sha256 == sha256_of(Path(part.place)) for part in parts_of(many))
    assert written(tmp_path / "few.parquet", Layout(100)).read_bytes() == one.read_bytes()
    assert read_table(many, TEXTS).equals(read_table(one, TEXTS))
    assert read_metadata(many) == read_metadata(one)
    assert row_count(many) == 20 and column_names(many) == column_names(one)
    assert [batch.num_rows for batch in read_batches(many, TEXTS, rows=4)] == [4, 2, 4, 2, 4, 2, 2]


def test_one_large_write_is_cut_too(tmp_path):
    one, many = (written(tmp_path / name, Layout(6), step) for name, step in (("one.parquet", 20), ("many.parquet", 1)))
    assert [part.rows for part in parts_of(one)] == [part.rows for part in parts_of(many)] == [6, 6, 6, 2]
    assert read_table(one, TEXTS).equals(read_table(many, TEXTS))


def test_others_read_a_folder_as_a_file(tmp_path):
    one, many = written(tmp_path / "one.parquet"), written(tmp_path / "many.parquet", Layout(6))
    assert pd.read_parquet(many).equals(pd.read_parquet(one))
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{many}/*.parquet')").fetchall() == [(20,)]
    assert pq.read_table(many).num_rows == 20


def test_a_table_takes_the_place_of_one_of_another_form(tmp_path):
    path = tmp_path / "texts.parquet"
    for layout in (None, Layout(6), Layout(4), None):
        written(path, layout)
        assert row_count(path) == 20 and path.is_dir() == (layout is not None)
        assert [item.name for item in tmp_path.iterdir()] == ["texts.parquet"]
    with pytest.raises(RuntimeError), table_writer(path, TEXTS, Provenance("", ""), Layout(1)) as writer:
        writer.write(rows(0, 5))
        writer.write(rows(5, 9))
        raise RuntimeError
    assert path.is_file() and [item.name for item in tmp_path.iterdir()] == ["texts.parquet"]


def test_rows_of_parts_are_in_order(tmp_path):
    with (pytest.raises(ValueError, match="rows after"),
          table_writer(tmp_path / "t.parquet", TEXTS, Provenance("", ""), Layout(2)) as writer):
        writer.write(rows(4, 8))
        writer.write(rows(0, 2))


def test_damage_is_named(tmp_path):
    path = written(tmp_path / "texts.parquet", Layout(6))
    content = json.loads((path / LIST).read_text())
    content["parts"].pop()
    (path / LIST).write_text(json.dumps(content))
    with pytest.raises(InputError, match="_table.json: not a readable list of a table's parts"):
        read_table(path)
    (path / LIST).unlink()
    with pytest.raises(InputError, match=r"texts.parquet: a folder without _table.json"):
        read_table(path)
    written(path, Layout(6))
    (path / "part-00002.parquet").write_bytes((path / "part-00001.parquet").read_bytes()[:-9])
    with pytest.raises(InputError, match=r"texts.parquet: not a readable Parquet file"):
        read_table(path)
    (path / "part-00002.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        read_table(path)


def shown(path):
    console = Console(width=200, record=True, file=io.StringIO())
    inspection.show(path, console)
    return console.export_text()


@pytest.mark.parametrize("url", [None, "bucket"])
def test_inspection_sql_and_joins_read_parts(tmp_path, bucket, url):
    one = written(tmp_path / "artifacts/data/one/items/texts.parquet")
    many = written(tmp_path / "artifacts/data/toy/items/texts.parquet", Layout(6, url and f"{bucket}/shown"))
    lines = shown(many).splitlines()
    assert "20 rows, 3 columns" in lines[1] and "in 4 parts" in lines[1]
    assert ("s3://store/shown" in lines[1]) == bool(url)
    assert [line for line in lines[2:]] == [line for line in shown(one).splitlines()[2:]]
    files = sql.catalog(tmp_path / "artifacts")
    assert files.names() == ["one.texts", "toy.texts"]
    query = "SELECT count(*), min(text), max(text_id) FROM {}.texts"
    with sql.answer(query.format("toy"), files) as mine, sql.answer(query.format("one"), files) as other:
        assert list(mine.rows) == list(other.rows) == [(20, min(STRINGS), 19)]
    with joining({"texts": many}, JoinLimits(threads=2)) as connection:
        assert connection.sql("SELECT count(*), max(text_id) FROM texts").fetchall() == [(20, 19)]


def test_the_list_of_artifacts_counts_the_rows_of_parts_elsewhere(tmp_path, bucket, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(DatasetPaths("toy").table("texts"), Layout(6, f"{bucket}/listed"))
    Path("params.yaml").write_text("recipe: t\ndatasets: {toy: {source: x, layout: texts}}\n")
    assert manifest.main(["toy"]) == 0
    listing = json.loads(manifest_path("t", "data", "toy").read_text())
    assert listing["artifacts"][path.as_posix()]["rows"] == 20


def test_parts_in_a_bucket_are_those_of_a_folder(tmp_path, bucket):
    there, here = (written(tmp_path / name, Layout(6, url))
                   for name, url in (("there.parquet", f"{bucket}/same/"), ("here.parquet", None)))
    assert there.is_file() and listed(there).url == f"{bucket}/same/"
    assert [part.sha256 for part in parts_of(there)] == [part.sha256 for part in parts_of(here)]
    assert parts_of(there)[0].place == f"{bucket}/same/{parts_of(here)[0].sha256}.parquet"
    assert read_table(there, TEXTS).equals(read_table(here, TEXTS)) and read_metadata(there) == read_metadata(here)


def test_a_part_that_is_there_is_not_sent_again(tmp_path, bucket, monkeypatch):
    url = f"{bucket}/again"
    written(tmp_path / "one.parquet", Layout(6, url))
    from s3fs import S3FileSystem

    monkeypatch.setattr(S3FileSystem, "_put_file", None)
    assert written(tmp_path / "two.parquet", Layout(6, url)).read_bytes() == (tmp_path / "one.parquet").read_bytes()


def test_a_shared_folder_serves_as_a_bucket(tmp_path):
    path = written(tmp_path / "texts.parquet", Layout(6, f"file://{tmp_path}/shared/parts"))
    assert len(list((tmp_path / "shared/parts").iterdir())) == 4
    assert read_table(path, TEXTS).num_rows == 20
    with joining({"texts": path}, JoinLimits()) as connection:
        assert connection.sql("SELECT count(*) FROM texts").fetchall() == [(20,)]


def test_what_cannot_be_reached_is_named(tmp_path, bucket):
    path = written(tmp_path / "texts.parquet", Layout(6, f"{bucket}/gone"))
    import boto3

    client = boto3.client("s3")
    client.delete_object(Bucket=s3_server.BUCKET, Key=f"gone/{parts_of(path)[1].sha256}.parquet")
    with pytest.raises(InputError, match=r"s3://store/gone/[0-9a-f]{64}.parquet: not there any more"):
        read_table(path)
    for url, message in (("s3://nobucket/x", "s3://nobucket/x cannot be used"),
                         ("gs://bucket/x", r"gs:// cannot be read here .*pip install 'gcsfs'"),
                         ("nowhere://bucket/x", "nowhere:// cannot be read here, valid names: abfs, az, file")):
        with pytest.raises(InputError, match=message):
            written(tmp_path / "other.parquet", Layout(6, url))


# Stages over parts

def project(folder, pipeline, **settings):
    """Write a project whose table of texts has seven parts, and return its tables of tokens and phrases."""
    block = {"part_rows": 3, "url": settings.pop("url", None)}
    table = folder / "artifacts/data/toy/items/texts.parquet"
    written(table, Layout(**block), provenance=Provenance("ingest@toy", "0"))
    text_ids = list(range(len(STRINGS)))
    write_table(folder / "artifacts/data/toy/items/examples.parquet", SCHEMAS["plain_examples"], {
        "example_id": text_ids, "split": ["train"] * 12 + ["test"] * 8, "text_id": text_ids}, Provenance("i@toy", "0"))
    params = {"recipe": "t", "runtime": {"workers": settings.pop("workers", 1)}, "artifacts": block,
              "datasets": {"toy": {"source": "x", "layout": "texts"}}, "annotate": {"pipeline": pipeline, "chunk": 2},
              "cluster": settings}
    (folder / "params.yaml").write_text(json.dumps(params))
    return [folder / f"artifacts/data/toy/{name}.parquet" for name in ("tokens", "textrank")]


def hashes(paths):
    return [[part.sha256 for part in parts_of(path)] for path in paths]


def run_stages():
    assert annotate.main(["toy"]) == 0
    assert textrank.main(["toy"]) == 0


@pytest.fixture(scope="module")
def at_home(pipeline, tmp_path_factory):
    """Hashes of the parts that one process makes."""
    folder = tmp_path_factory.mktemp("home")
    before = Path.cwd()
    os.chdir(folder)
    try:
        paths = project(folder, pipeline)
        run_stages()
        return hashes(paths), [read_metadata(path) for path in paths], [read_table(path) for path in paths]
    finally:
        os.chdir(before)


def test_a_stage_makes_a_part_of_each(at_home, pipeline, tmp_path, monkeypatch):
    found, metadata, tables = at_home
    assert [len(each) for each in found] == [7, 7]
    monkeypatch.chdir(tmp_path)
    whole = project(tmp_path, pipeline)
    block = json.loads((tmp_path / "params.yaml").read_text())
    (tmp_path / "params.yaml").write_text(json.dumps({**block, "artifacts": {"part_rows": 100}}))
    shutil.rmtree(tmp_path / "artifacts/data/toy/items/texts.parquet")
    written(tmp_path / "artifacts/data/toy/items/texts.parquet", provenance=Provenance("ingest@toy", "0"))
    run_stages()
    assert [read_table(path).equals(table) for path, table in zip(whole, tables, strict=True)] == [True, True]
    assert metadata[1]["counts"] == read_metadata(whole[1])["counts"]


@pytest.mark.whole
@pytest.mark.parametrize("settings", [{"workers": 2}, {"workers": 2, "url": "elsewhere"}, {"url": "elsewhere"}])
def test_any_number_of_workers_and_any_place_make_the_same_parts(at_home, pipeline, tmp_path, monkeypatch, bucket,
                                                                 settings):
    monkeypatch.chdir(tmp_path)
    paths = project(tmp_path, pipeline, **{**settings, **({"url": f"{bucket}/workers"} if "url" in settings else {})})
    run_stages()
    assert hashes(paths) == at_home[0]
    assert all(path.is_file() == ("url" in settings) for path in paths)


@pytest.mark.whole
def test_a_finished_part_is_not_worked_on_again(pipeline, tmp_path, monkeypatch, bucket, at_home):
    monkeypatch.chdir(tmp_path)
    paths = project(tmp_path, pipeline, workers=2, url=f"{bucket}/kept")
    real, kept = part_work.PartStore.keep, []

    def keep(self, part, made):
        real(self, part, made)
        kept.append(part)
        if len(kept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(part_work.PartStore, "keep", keep)
    with pytest.raises(KeyboardInterrupt):
        annotate.main(["toy"])
    monkeypatch.setattr(part_work.PartStore, "keep", lambda self, part, made: (kept.append(part),
                                                                               real(self, part, made)))
    assert annotate.main(["toy"]) == 0
    assert len(kept) == len(set(kept)) == 7  # each once, though some may have been on their way twice
    assert hashes(paths[:1]) == at_home[0][:1]


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers, each a process in a folder of its own, from which this project is not to be seen."""
    begun = []

    def start(name, *command):
        folder = tmp_path / name
        folder.mkdir()
        with (folder / "log").open("w") as log:
            begun.append(subprocess.Popen([sys.executable, "-m", "distributed.cli." + command[0], *command[1:]],
                                          cwd=folder, stdout=log, stderr=log,
                                          env={**os.environ, "PYTHONPATH": str(ROOT)}))
        return begun[-1]

    file = tmp_path / "scheduler.json"
    start("scheduler", "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file",
          str(file))
    while not file.exists():
        time.sleep(0.05)
    workers = [start(f"worker{number}", "dask_worker", "--scheduler-file", str(file), "--nworkers", "1", "--nthreads",
                     "1", "--no-dashboard", "--no-nanny") for number in range(2)]
    yield file, workers
    for process in reversed(begun):
        process.kill()
        process.wait()


@pytest.mark.whole
def test_a_cluster_makes_the_same_parts_though_a_worker_dies(cluster, at_home, pipeline, tmp_path, monkeypatch, bucket):
    file, workers = cluster
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    paths = project(tmp_path / "here", pipeline, scheduler_file=str(file), url=f"{bucket}/cluster")
    monkeypatch.setattr(part_work, "_FEW", 0)
    here = []
    monkeypatch.setattr(parts, "fetch", lambda place, real=parts.fetch: here.append(place) or real(place))
    taken, real = [], part_work.PartStore.keep

    def keep(self, part, made):
        real(self, part, made)
        taken.append(part)
        if len(taken) == 2:
            workers[0].send_signal(signal.SIGKILL)

    monkeypatch.setattr(part_work.PartStore, "keep", keep)
    run_stages()
    assert hashes(paths) == at_home[0] and workers[0].wait(5) == -signal.SIGKILL
    # The client reads the first part of each table for the names of its columns, and no other.
    assert set(here) == {parts_of(DatasetPaths("toy").table(name))[0].place for name in ("texts", "tokens")}


class FourMachines:
    """Workers, scheduler, S3 server and client on hosts of their own, with folders of their own and the wheel."""

    def __init__(self, folder, found):
        self.folder = folder
        self.client, self.store, self.scheduler, *self.machines = found
        self.environment = {**os.environ, **s3_server.CREDENTIALS, "OMP_NUM_THREADS": "1",
                            "PYTHONPATH": os.pathsep.join(map(str, [wheel_site(folder), ROOT / "tests"]))}
        server = self.store.start(sys.executable, "-m", "s3_server", self.store.address, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=self.environment)
        self.environment["AWS_ENDPOINT_URL"] = server.stdout.readline().strip()

    def begin(self, host, name, module, *words):
        folder = self.folder / name
        folder.mkdir()
        with (folder / "log").open("w") as log:
            return host.start(sys.executable, "-m", module, *words, cwd=folder, stdout=log, stderr=log,
                              env=self.environment)

    def cluster(self, name):
        """Start a scheduler and a worker on each machine; return the scheduler's file and these processes."""
        file = self.folder / f"{name}.json"
        scheduler = self.begin(self.scheduler, name, "distributed.cli.dask_scheduler", "--host", self.scheduler.address,
                               "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        while not file.exists():
            time.sleep(0.05)
        return file, scheduler, [
            self.begin(machine, f"{name}{number}", "distributed.cli.dask_worker", "--scheduler-file", str(file),
                       "--host", machine.address, "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--no-nanny",
                       "--death-timeout", "60") for number, machine in enumerate(self.machines)]

    def project(self, name, url=None, **settings):
        folder = self.folder / name
        folder.mkdir()
        self.client.run(sys.executable, "-m", "horses", folder, url or "", json.dumps(settings), env=self.environment,
                        cwd=folder)
        return folder

    def stage(self, folder, name, kill=None):
        """Run a stage; once two of its parts are kept, kill a process."""
        running = self.client.start(sys.executable, "-m", f"stages.{name}", "toy", cwd=folder, env=self.environment,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while kill is not None and running.poll() is None:
            if len(list((folder / ".keycontrast").rglob("chunks/*/*.json"))) >= 2:
                kill.send_signal(signal.SIGKILL)
                kill = None
            time.sleep(0.02)
        said = running.communicate()[1]
        assert kill is None, said
        return running.returncode, said


@pytest.mark.nightly
@pytest.mark.timeout(1200)      # it starts ten workers and seven stages, each of which imports its language
def test_four_machines_make_the_bytes_of_one_though_a_worker_and_the_scheduler_die(tmp_path):
    """Data are on the S3 server alone; machines in networks of their own where there can be such."""

    def parts_in(folder):
        return hashes([folder / f"artifacts/data/toy/{name}.parquet" for name in ("tokens", "textrank")])

    with hosts(7) as found:
        four, url = FourMachines(tmp_path, found), f"s3://{s3_server.BUCKET}/whole"
        home = four.project("home")
        assert [four.stage(home, name)[0] for name in ("annotate.annotate", "keywords.textrank")] == [0, 0]
        wanted = parts_in(home)
        assert [len(each) for each in wanted] == [8, 8]
        file, scheduler, workers = four.cluster("cluster")
        assert json.loads(file.read_text())["address"].startswith(f"tcp://{four.scheduler.address}:")
        folder = four.project("worker_dies", url, scheduler_file=str(file))
        assert four.stage(folder, "annotate.annotate", workers[0])[0] == 0
        assert four.stage(folder, "keywords.textrank")[0] == 0
        assert parts_in(folder) == wanted and workers[0].wait(5) == -signal.SIGKILL
        folder = four.project("scheduler_dies", url, scheduler_file=str(file))
        code, said = four.stage(folder, "annotate.annotate", scheduler)
        assert code == 1 and "the connection to the scheduler at" in said and "Start it again" in said, said
        assert "Traceback" not in said
        kept = len(list((folder / ".keycontrast").rglob("chunks/*/*.json")))
        assert not (folder / "artifacts/data/toy/tokens.parquet").exists() and kept >= 2
        file.write_bytes(four.cluster("another")[0].read_bytes())
        assert [four.stage(folder, name)[0] for name in ("annotate.annotate", "keywords.textrank")] == [0, 0]
        assert parts_in(folder) == wanted
