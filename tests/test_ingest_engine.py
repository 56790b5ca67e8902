"""Texts on disk, components, and a database of rows that goes to disk."""


import networkx as nx
import numpy as np
import pytest
from ingest_rows import SHARES, dataset, raw, text_file

from stages.ingest import ingest
from stages.ingest.params import Ingest
from stages.ingest.texts import components


def test_texts_are_found_by_number_and_in_order(tmp_path):
    texts = text_file(tmp_path, ["naïve", "", "你好"])
    assert ([texts[n] for n in (2, 0, 1)], len(texts)) == (["你好", "naïve", ""], 3)
    wanted = np.array([True, False, True])
    assert list(texts.batches(wanted, 1)) == [["naïve"], ["你好"]]
    assert list(texts.batches(wanted, 9)) == [["naïve", "你好"]]
    assert list(texts.batches(np.zeros(3, bool), 9)) == []
    assert len(text_file(tmp_path, [])) == 0


@pytest.mark.parametrize("seed", range(6))
def test_components_are_those_of_a_graph_library_numbered_by_first_text(seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 200, (int(rng.integers(0, 260)), 2)).astype(np.int32)
    graph = nx.Graph(pairs.tolist())
    graph.add_nodes_from(range(200))
    expected = np.empty(200, dtype=int)
    for number, members in enumerate(sorted(nx.connected_components(graph), key=min)):
        expected[list(members)] = number
    assert components(200, pairs).tolist() == expected.tolist()


def test_rows_beyond_the_memory_of_the_database_go_to_disk(tmp_path):
    rows = [(f"question {n} " + "and more words " * 80, f"answer {n * 7 % 9000}", 1) for n in range(9000)]
    params, tables = Ingest(neg_source="none", **SHARES), []
    for gib in (4.0, 0.03):
        folder = tmp_path / str(gib)
        folder.mkdir()
        made = ingest.run(raw(rows), dataset(), params, 1, folder, memory_gib=gib)
        tables.append([list(made.pieces[name]()) for name in ("examples", "texts", "rejected")])
    assert tables[0] == tables[1]
