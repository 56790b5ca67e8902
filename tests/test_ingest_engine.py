"""The parts of ``ingest`` that keep texts and rows on disk: numbering, sorting, components, memory."""

import os
import subprocess
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from ingest_rows import dataset

from stages.ingest import ingest
from stages.ingest.deduplication import on_disk as disk
from stages.ingest.deduplication.numbering import Numbering, new_numbers
from stages.ingest.deduplication.on_disk import Buckets, RecordFile, TextFile, in_order
from stages.ingest.params import Ingest
from stages.ingest.reading.rows import RawRow
from stages.ingest.splitting.components import components

ROOT = Path(__file__).resolve().parent.parent
RECORD = np.dtype([("place", "<i8"), ("value", "<i4")])


@pytest.mark.parametrize("block", [7, 2**18])
def test_keys_are_numbered_by_first_appearance(tmp_path, monkeypatch, block):
    monkeypatch.setattr(disk, "_BLOCK", block)
    keys = [f"key {n}" for n in np.random.default_rng(0).integers(0, 300, 1000)]
    numbering = Numbering(tmp_path / "numbers")
    for start in range(0, 1000, 90):
        numbering.add(keys[start:start + 90])
    numbers = numbering.numbers()
    expected: dict[str, int] = {}
    assert numbers.read(0, 2000).tolist() == [expected.setdefault(key, len(expected)) for key in keys]
    assert numbers.read(10, 5).tolist() == [expected[key] for key in keys[10:15]]
    assert not list(tmp_path.glob("numbers/hashes/*"))


def test_nothing_to_number(tmp_path):
    assert len(Numbering(tmp_path / "numbers").numbers()) == 0


def test_new_numbers_are_those_that_come_for_the_first_time():
    assert new_numbers(np.array([0, 1, 0, 2, 2, 3]), 0).tolist() == [True, True, False, True, False, True]
    assert new_numbers(np.array([0, 1, 0, 2, 2, 3]), 2).tolist() == [False, False, False, True, False, True]
    assert new_numbers(np.array([], dtype=int), 5).tolist() == []


def test_records_come_back_in_the_order_of_their_places(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_BLOCK", 10)
    records = np.zeros(95, RECORD)
    records["place"] = np.random.default_rng(0).permutation(95)
    records["value"] = records["place"] * 3
    file = in_order(tmp_path / "sorted", np.array_split(records, 7), RECORD, 95)
    assert np.concatenate(list(file.blocks(20)))["value"].tolist() == [3 * place for place in range(95)]
    assert [path.name for path in tmp_path.iterdir()] == ["sorted.ordered"]


def test_buckets_keep_the_order_of_their_records(tmp_path):
    buckets = Buckets(tmp_path / "b", np.dtype("<i4"), 3)
    buckets.add(np.array([2, 0, 2]), np.array([5, 6, 7]))
    buckets.add(np.array([0]), np.array([8]))
    assert [part.tolist() for part in buckets.take()] == [[6, 8], [], [5, 7]]
    assert not list((tmp_path / "b").iterdir())


def test_record_files_are_read_from_any_place(tmp_path):
    file = RecordFile(tmp_path / "f", np.dtype("<i4"))
    assert len(file) == 0
    file.add(np.arange(5))
    assert (len(file), file.read(3, 9).tolist()) == (5, [3, 4])


def test_texts_are_found_by_number_and_in_order(tmp_path):
    texts = TextFile(tmp_path / "t")
    spans = texts.add(["naïve".encode(), b"", b"left out"])
    texts.number(spans[[0, 1]])
    texts.number(texts.add(["你好".encode()]))
    assert ([texts[n] for n in (2, 0, 1)], len(texts)) == (["你好", "naïve", ""], 3)
    wanted = np.array([True, False, True])
    assert list(texts.batches(wanted, 1)) == [["naïve"], ["你好"]]
    assert list(texts.batches(wanted, 9)) == [["naïve", "你好"]]
    assert list(texts.batches(np.zeros(3, bool), 9)) == []


@pytest.mark.parametrize("seed", range(6))
def test_components_are_those_of_a_graph_library_numbered_by_first_text(seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 200, (int(rng.integers(0, 260)), 2)).astype(np.int32)
    graph = nx.Graph(pairs.tolist())
    graph.add_nodes_from(range(200))
    expected = np.empty(200, dtype=int)
    for number, members in enumerate(sorted(nx.connected_components(graph), key=min)):
        expected[list(members)] = number
    assert components(200, np.array_split(pairs, 3)).tolist() == expected.tolist()


@pytest.mark.parametrize("way", [1, -1])
def test_long_chains_are_one_component(way):
    chain = np.array(list(pairwise(range(100_000))), dtype=np.int32)[::way]
    assert not components(100_000, (chain[::2], chain[1::2])).any()
    assert components(3, ()).tolist() == [0, 1, 2]


def rows(count):
    """Pairs of long texts, a third of them repeated; made as they are asked for."""
    for number in range(count):
        one, other = number - number % 3 // 2, number * 7 % count
        yield RawRow("f", number + 1, {"source": f"the question {one} " + "and more words " * 8,
                                       "target": f"another one {other} " + "with more words " * 8, "label": number % 2})


def held(count, folder):
    """Bytes that the arrays and objects of a run hold, and the number of its texts."""
    folder.mkdir()
    tracemalloc.start()
    made = ingest.run(rows(count), dataset(), Ingest(neg_source="none", split_by="pair"), 1, folder)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size, made.counts["texts"]["distinct"]


def printed(program, folder):
    """The numbers that ``program`` prints, in a process of its own: what the threads of other tests take counts too."""
    begin = "import sys; from pathlib import Path; from test_ingest_engine import *; folder = Path(sys.argv[1]); "
    done = subprocess.run([sys.executable, "-c", begin + program, str(folder)], cwd=Path(__file__).parent, check=True,
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return map(int, done.stdout.split())


@pytest.mark.whole
def test_no_text_stays_in_memory(tmp_path):
    small, few, large, many = printed("held(200, folder / 'warm'); print(*held(2_000, folder / 'small'), "
                                      "*held(12_000, folder / 'large'))", tmp_path)
    assert many - few > 12_000
    # A text of this test has over 100 bytes; numbers of texts, pairs and items take some tens.
    assert (large - small) / (many - few) < 64


def told(count):
    """Paraphrases of 20 words among many; made as they are asked for."""
    for n in range(count):
        said = " ".join(f"extraordinary{(n * 31 + k * k) % 997}" for k in range(16))
        yield RawRow("f", n + 1, {"source": f"the question {n} {said}", "target": f"an answer {n} {said}"})


def peak(count, folder):
    """Bytes that a run with few retrieved negatives holds at its peak."""
    folder.mkdir()
    few = Ingest(neg_source="retrieved", max_train=2, max_validation=2, max_test=2)
    tracemalloc.start()
    ingest.run(told(count), dataset(columns={"source": "q1", "target": "q2"}), few, 1, folder)
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


@pytest.mark.whole
def test_retrieval_holds_no_text_at_all(tmp_path):
    small, large = printed("peak(200, folder / 'warm'); print(peak(2_000, folder / 'small'), "
                           "peak(12_000, folder / 'large'))", tmp_path)
    # Ten bytes for each of 19 words, and some tens. A text has over 260 characters, and as many words as objects
    # take over a thousand bytes.
    assert (large - small) / 20_000 < 500
