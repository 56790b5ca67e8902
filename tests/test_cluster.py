"""Chunks over a Dask cluster: the same results in the same order, and clear words when it cannot be used."""

import importlib.util
import json
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, Future, LocalCluster

from keycontrast.errors import InputError
from stages.annotate import annotate, annotation
from stages.annotate.params import Annotate
from stages.common.chunk_store import ChunkStore
from stages.common.settings import read_params
from stages.params import Params
from stages.run import cluster_map
from stages.run.cluster_map import Cluster, code_fingerprint, maker_name, work
from stages.run.pool import map_chunks

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("dask"))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=folder) as found:
        yield Cluster(found.scheduler_address)


RUNTIME = {"threads": 1, "deterministic": True, "tf32": False, "precision": "fp32", "device": "cpu"}


def counted(log):
    """Made once per process and arguments: notes each making."""
    with Path(log).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return lambda chunk: (2 * chunk, os.getpid())


def failer():
    def fail(chunk):
        raise InputError(f"chunk {chunk} is bad")

    return fail


def dies_once(mark):
    def die(chunk):
        if not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return chunk

    return die


def adder(amount):
    return lambda table: pa.table({"n": [number + amount for number in table["n"].to_pylist()]})


def packed(amount):
    return pickle.dumps(("test_cluster:adder", (amount,)))


def weighed(words):
    return lambda chunk: len(words)


def test_what_a_function_is_made_of_goes_to_a_worker_once(cluster, monkeypatch):
    """Not with each chunk: an IDF of a large corpus has millions of words."""
    words, sent = [f"word{number}" for number in range(20_000)], []
    dumps = cluster_map.pickle.dumps
    monkeypatch.setattr(cluster_map.pickle, "dumps", lambda value: sent.append(len(dumps(value))) or dumps(value))
    jobs = []

    class Watched(Client):
        def submit(self, function, *arguments, **options):
            jobs.append(sum(len(dumps(one)) for one in arguments if not isinstance(one, Future)))
            return super().submit(function, *arguments, **options)

    monkeypatch.setattr("distributed.Client", Watched)
    assert list(map_chunks(weighed, (words,), range(8), 1, "test", cluster=cluster)) == [20_000] * 8
    assert len(sent) == 1 and sent[0] > 200_000
    assert sorted(jobs)[-1] > 200_000 > 2000 > sum(sorted(jobs)[:-1]) and len(jobs) == 9


def test_results_come_in_order_and_functions_are_made_once_per_worker(cluster, tmp_path):
    for _ in range(2):  # the second run finds what the first has made
        results = list(map_chunks(counted, (str(tmp_path / "log"),), range(12), 1, "test", cluster=cluster))
        assert [value for value, _ in results] == list(range(0, 24, 2))
    makers = (tmp_path / "log").read_text().split()
    assert len(makers) == len(set(makers)) <= 2
    assert str(os.getpid()) not in makers


def test_chunks_are_drawn_as_the_cluster_works(cluster):
    drawn = []
    chunks = (drawn.append(number) or number for number in range(30))
    for done, _ in enumerate(map_chunks(counted, ("/dev/null",), chunks, 1, "test", cluster=cluster), start=1):
        assert len(drawn) <= done + 4  # two for each of two workers


def test_errors_of_workers_arrive_as_they_are(cluster):
    with pytest.raises(InputError, match="chunk 0 is bad"):
        list(map_chunks(failer, (), [0, 1], 1, "test", cluster=cluster))


def test_a_dead_worker_is_made_up_for(cluster, tmp_path):
    assert list(map_chunks(dies_once, (str(tmp_path / "mark"),), range(6), 1, "test", cluster=cluster)) == [*range(6)]


def test_finished_chunks_are_kept(cluster, tmp_path):
    chunks = [pa.table({"n": [number]}) for number in range(4)]
    store = ChunkStore(tmp_path, "k")
    first = list(map_chunks(adder, (1,), chunks, 1, "test", cluster=cluster, store=store))
    again = list(map_chunks(adder, (99,), chunks, 1, "test", cluster=cluster, store=store))
    assert [table.to_pydict() for table in again] == [table.to_pydict() for table in first]


@pytest.mark.whole
def test_annotation_is_the_same_as_at_home(cluster, tmp_path):
    from test_annotate import TEXTS, saved_pipeline, texts  # imports spaCy, which the workers above do without

    params = Annotate(pipeline=saved_pipeline(tmp_path / "en_words"), chunk=3)
    assert annotate.run(texts(TEXTS), params, cluster=cluster).equals(annotate.run(texts(TEXTS), params))


def test_nobody_at_the_address():
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:9' .*Start one with `dask"):
        list(map_chunks(adder, (1,), [1], 1, "test", cluster=Cluster("tcp://127.0.0.1:9", connect_timeout=0.5)))
    with pytest.raises(InputError, match="no Dask scheduler answers at 'nowhere'"):
        list(map_chunks(adder, (1,), [1], 1, "test", cluster=Cluster("nowhere", connect_timeout=0.5)))


MORTAL = """import distributed
cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp",
                                   dashboard_address=None)
print(cluster.scheduler_address, flush=True)
input()
"""
LOST = r"^test: the connection to the scheduler at tcp://\S+ was lost. Start it again; finished chunks are not"


@pytest.fixture
def mortal(tmp_path, monkeypatch):
    """The address of a cluster in one process, what kills that, the clients that are made, and what is logged."""
    with subprocess.Popen([sys.executable, "-c", MORTAL], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:

        def kill():
            process.kill()
            process.wait()

        class Watched(Client):
            def __init__(self, *arguments, **options):
                clients.append(self)
                super().__init__(*arguments, **options)

        clients, records, handler = [], [], logging.Handler()
        handler.emit = records.append
        monkeypatch.setattr("distributed.Client", Watched)
        logging.getLogger("distributed").addHandler(handler)
        yield process.stdout.readline().strip(), kill, clients, records
        logging.getLogger("distributed").removeHandler(handler)
        kill()


def gives_up(client):
    while client.status != "closed":
        time.sleep(0.05)


@pytest.mark.nightly
@pytest.mark.parametrize("asks", [
    lambda submit, width, client: width(),
    lambda submit, width, client: (submit(0)(), width()),
    lambda submit, width, client: (gives_up(client), width()),
    lambda submit, width, client: (gives_up(client), submit(0)())],
    ids=["how many may be under way", "for a result", "though it has given up", "to take a chunk, having given up"])
def test_a_scheduler_that_dies_while_it_is_asked(mortal, asks):
    """Whatever the client was about when the connection went, the message is the same, and all that is said."""
    address, kill, clients, records = mortal
    began = time.monotonic()
    with (pytest.raises(InputError, match=LOST),
          cluster_map.cluster_jobs(partial, (time.sleep,), "test", Cluster(address, connect_timeout=2)) as (submit,
                                                                                                           width)):
        assert submit(0)() is None and width() == 2
        kill()
        asks(submit, width, clients[0])
    assert time.monotonic() - began < 60 and not [record for record in records if record.exc_info]


@pytest.mark.nightly
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("question", ["wait_for_workers", "scheduler_info"])
def test_a_scheduler_that_dies_before_the_first_chunk(mortal, monkeypatch, question, waits):
    address, kill, clients, _ = mortal
    real = getattr(Client, question)

    def asked(self, *arguments, **options):
        kill()
        if waits:
            gives_up(self)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Client, question, asked)
    mine = Cluster(address, connect_timeout=1)
    with pytest.raises(InputError, match=LOST):
        list(map_chunks(partial, (time.sleep,), [0, 0], 1, "test", gpu=True, cluster=mine))
    assert clients[0].status == "closed"


def test_a_chunk_that_the_client_forgets_with_the_connection_is_not_waited_for(mortal, monkeypatch):
    """As may befall one that is submitted while the client calls off the others."""
    address, kill, clients, _ = mortal
    monkeypatch.setattr(cluster_map, "_LOOK", 0.2)
    with (pytest.raises(InputError, match=LOST),
          cluster_map.cluster_jobs(partial, (time.sleep,), "test", Cluster(address, connect_timeout=2)) as (submit, _)):
        before = set(clients[0].futures)
        wait = submit(60)
        clients[0].futures.pop(*set(clients[0].futures) - before)
        kill()
        wait()


def test_an_error_of_the_connection_is_told_from_one_of_a_chunk(cluster, monkeypatch):
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        list(map_chunks(partial, (os.listdir,), ["/nowhere", "/"], 1, "test", cluster=cluster))

    async def unreachable(*_):
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(Client, "_gather_remote", unreachable)
    with pytest.raises(InputError, match=LOST):
        list(map_chunks(partial, (os.listdir,), ["/", "/"], 1, "test", cluster=cluster))


def test_a_cluster_without_workers():
    with (LocalCluster(n_workers=0, processes=False, dashboard_address=None) as found,
          pytest.raises(InputError, match=r"has no workers after 0.5 seconds. Start some with `dask worker inproc://")):
        list(map_chunks(adder, (1,), [1], 1, "test", cluster=Cluster(found.scheduler_address, connect_timeout=0.5)))


def test_dask_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'keycontrast\[cluster\]'"):
        list(map_chunks(adder, (1,), [1], 1, "test", cluster=Cluster("tcp://127.0.0.1:9", connect_timeout=0.5)))


def test_a_worker_with_other_code_is_refused():
    with pytest.raises(InputError, match="another version of this project's code"):
        work("k", packed(1), "another", pa.table({"n": [1]}))
    assert work("k", packed(1), code_fingerprint(), pa.table({"n": [1]}))["n"].to_pylist() == [2]


@pytest.mark.parametrize(("prefix", "changed"), [
    ("", None), ("", "pipeline/cli.py"), ("", "stages/common/encoders.py"), ("", "models/new.py"),
    ("", "keycontrast/text/tokens.py")])
def test_other_code_is_that_of_stages_or_models(tmp_path, prefix, changed):
    """In a clone, in an installation, which has the folders beside each other too, and under the interface's names."""
    for folder in ("keycontrast", "models", "pipeline", "stages"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    if changed:
        with (tmp_path / changed).open("a") as file:
            file.write("# another\n")
    found = subprocess.run([sys.executable, "-c", f"import {prefix}stages.run.cluster_map as module; "
                            "print(module.__file__, module.code_fingerprint())"], cwd=tmp_path, capture_output=True,
                           text=True, check=True).stdout.split()
    assert found[0] == str(tmp_path / "stages/run/cluster_map.py")
    assert (found[1] == code_fingerprint()) == (changed in (None, "pipeline/cli.py"))


def test_a_worker_keeps_few_functions(monkeypatch):
    made = {}
    monkeypatch.setattr(cluster_map, "_MADE", made)
    for amount in range(10):
        result = work(str(amount), packed(amount), code_fingerprint(), pa.table({"n": [1]}))
        assert result["n"].to_pylist() == [1 + amount]
    assert len(made) == 4


def test_a_stage_that_is_main_is_found_by_its_real_name(monkeypatch):
    assert maker_name(annotation.annotator) == "stages.annotate.annotation:annotator"
    monkeypatch.setattr(adder, "__module__", "__main__")
    monkeypatch.setattr("__main__.__spec__", importlib.util.spec_from_loader("stages.somewhere", None), raising=False)
    assert maker_name(adder) == "stages.somewhere:adder"
    monkeypatch.setattr("__main__.__spec__", None)
    with pytest.raises(ValueError, match="adder stands in a script"):
        maker_name(adder)


@pytest.mark.whole
def test_attribution_is_the_same_as_at_home(cluster, tmp_path):
    import test_attribution_stage as home
    import tiny_bert

    from stages.attribution import attribution
    from stages.attribution.saliency.blocks import block_scorer
    from stages.attribution.saliency.scorers import WorkerScorer, load_scorer

    folder = tiny_bert.save_encoder(tmp_path / "tiny")
    values = home.values(method="siamese", batch_size=1)
    scorer = load_scorer(values, tmp_path, f"path:{folder}", "cpu")
    carried = WorkerScorer.of(scorer, values, RUNTIME, tmp_path, f"path:{folder}")
    given = *home.as_read(*home.tables()), scorer, values["modes"]
    here, there = (pa.concat_tables([block.table for block in attribution.run(*given, elsewhere=elsewhere)])
                   for elsewhere in (None, partial(map_chunks, block_scorer, (carried,), workers=1, what="test",
                                                   cluster=cluster)))
    assert there.equals(here) and here.num_rows == 8
    with pytest.raises(InputError, match=r"a worker's path:.* has other weights"):
        list(attribution.run(*given, elsewhere=partial(
            map_chunks, block_scorer, (replace(carried, sha256="0"),), workers=1, what="test", cluster=cluster)))


def test_embeddings_are_the_same_as_at_home(cluster, tmp_path, caplog):
    import tiny_bert

    from models.common.encoders import load_encoder
    from stages.common.encoders import embed_texts, embedding_elsewhere

    folder = tiny_bert.save_encoder(tmp_path / "tiny")
    encoder, tokenizer = load_encoder(folder)
    texts = ["dog eat", "cat run fast", "lose weight " * 9, "why", ""]
    elsewhere = embedding_elsewhere(f"path:{folder}", "mean", {**RUNTIME, "device": "auto"}, cluster, "vectors")
    here, there = (list(embed_texts(encoder, tokenizer, texts, 2, 32, elsewhere=each)) for each in (None, elsewhere))
    assert [items.tolist() for items, _ in here] == [items.tolist() for items, _ in there] and len(here) == 3
    assert all(one.tobytes() == other.tobytes() for (_, one), (_, other) in zip(here, there, strict=True))
    assert "vectors: no worker of the cluster" in caplog.text and "--resources GPU=1" in caplog.text


@pytest.mark.parametrize("idf", [False, True])
def test_bertscore_is_the_same_as_at_home(cluster, tmp_path, monkeypatch, idf):
    """As an evaluation has it from its params; blocks of two items, systems together."""
    import tiny_bert

    from stages.metrics import bertscore
    from stages.tracks.common.evaluation.similarity import similarity_of

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bertscore, "_ITEMS", 2)
    encoder = str(tiny_bert.save_encoder(tmp_path / "tiny"))
    targets = ["dog eat", "cat run fast", "lose weight " * 9, "why", ""]
    systems = {"run": targets[1:] + ["dog"], "floor": ["dog cat"] * 5}
    items = pd.DataFrame({"split": "test", "source": targets, "references": [[text] for text in targets],
                          "negatives": [[] for _ in targets], "keyword": None})
    predictions = pd.DataFrame({"prediction": systems["run"]})

    def scores(address, **asked):
        Path("params.yaml").write_text(json.dumps({
            "recipe": "t", "datasets": {"toy": {"source": "x"}}, "cluster": {"address": address},
            "encoder": {"source": "path", "path": encoder}, "runtime": {"device": "cpu"},
            "evaluation": {"bertscore": {"encoder": "path", "path": encoder, "idf": idf, **asked}}}))
        scorer = similarity_of(read_params(), predictions, items, "cpu").scorer
        if address:     # nothing of it is worked on here
            monkeypatch.setattr(scorer, "_pieces", None)
        return scorer.score(systems, [[text, "cat"] for text in targets])

    here, there = scores(None), scores(cluster.address)
    assert list(here) == list(there) == ["run", "floor"] and here["run"].f1.shape == (5,)
    assert all(getattr(here[name], part).tobytes() == getattr(there[name], part).tobytes()
               for name in here for part in ("precision", "recall", "f1"))
    assert not np.array_equal(here["run"].f1, scores(cluster.address, layer=0)["run"].f1)


def test_work_for_a_gpu_goes_to_the_workers_that_have_one(tmp_path, monkeypatch):
    asked = []

    class Watched(Client):
        def submit(self, function, *arguments, **options):
            asked.append(options.get("resources"))
            return super().submit(function, *arguments, **options)

    monkeypatch.setattr("distributed.Client", Watched)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, resources={"GPU": 1},
                      local_directory=str(tmp_path)) as found:
        results = list(map_chunks(counted, ("/dev/null",), range(3), 1, "test", gpu=True,
                                  cluster=Cluster(found.scheduler_address)))
    assert [value for value, _ in results] == [0, 2, 4] and asked == [None, *[{"GPU": 1}] * 3]


@pytest.mark.whole
def test_a_scheduler_file_and_a_scheduler_of_ones_own(tmp_path):
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None,
                      local_directory=str(tmp_path)) as found:
        file = tmp_path / "scheduler.json"
        with Client(found) as client:
            client.write_scheduler_file(str(file))
        assert list(map_chunks(adder, (1,), [pa.table({"n": [1]})], 1, "test", cluster=Cluster(
            scheduler_file=str(file))))[0]["n"].to_pylist() == [2]
    with pytest.raises(InputError, match=r"cluster.scheduler_file: '.*none.json' is not there. Start a scheduler with"):
        list(map_chunks(adder, (1,), [1], 1, "test", cluster=Cluster(scheduler_file=str(tmp_path / "none.json"))))
    results = list(map_chunks(counted, ("/dev/null",), range(4), 1, "test", cluster=Cluster("local")))
    assert [value for value, _ in results] == [0, 2, 4, 6] and os.getpid() not in {pid for _, pid in results}


@pytest.mark.parametrize(("block", "found"), [
    ({"address": None, "scheduler_file": None, "connect_timeout": 60.0}, None),
    ({"address": "tcp://h:1", "scheduler_file": None, "connect_timeout": 5.0},
     Cluster("tcp://h:1", None, 5.0, workers=3))])
def test_the_params_name_a_cluster(block, found):
    assert Cluster.of({"cluster": block, "runtime": {"workers": 3}}) == found


def test_local_stands_for_a_block():
    content = {"recipe": "t", "datasets": {"toy": {"source": "x"}}}
    assert Params.model_validate({**content, "cluster": "local"}).cluster.address == "local"
    with pytest.raises(ValueError, match="both address and scheduler_file"):
        Params.model_validate({**content, "cluster": {"address": "tcp://h:1", "scheduler_file": "s.json"}})
