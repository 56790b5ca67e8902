"""Centrality, components and communities against networkx, and the same on every run."""

import json
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from source_imports import ROOT

from keycontrast.network import Edges, centrality, communities, components


def random_edges(seed, nodes=30, edges=90):
    rng = np.random.default_rng(seed)
    places = rng.choice(nodes * nodes, size=edges, replace=False)
    target, source = np.divmod(np.sort(places), nodes)
    apart = target != source
    sign = np.where(rng.random(edges) < 0.7, 1, -1)
    return Edges.of(target[apart], source[apart], sign[apart], rng.integers(1, 20, size=edges)[apart])


def as_networkx(nodes, edges, kind, signs=(1,)):
    graph = kind()
    graph.add_nodes_from(range(nodes))
    for target, source, sign, count in zip(edges.target.tolist(), edges.source.tolist(), edges.sign.tolist(),
                                           edges.count.tolist(), strict=True):
        if sign in signs:
            before = graph.get_edge_data(target, source, {"weight": 0})["weight"]
            graph.add_edge(target, source, weight=count + before)
    return graph


@pytest.mark.parametrize("size", [(30, 90), (50, 30), (12, 100)], ids=str)
def test_centrality_equals_networkx(size):
    edges = random_edges(1, *size)  # the second size has nodes without edges
    ours = centrality(size[0], edges)
    theirs = nx.pagerank(as_networkx(size[0], edges, nx.DiGraph), tol=1e-14, max_iter=5000)
    assert ours.scores == pytest.approx([theirs[node] for node in range(size[0])], abs=1e-9)
    assert ours.scores.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_components_join_both_signs_and_count_from_the_smallest_node(seed):
    edges = random_edges(seed, 40, 25)
    graph = as_networkx(40, edges, nx.Graph, signs=(1, -1))
    expected = np.empty(40, dtype=int)
    for number, part in enumerate(sorted(nx.connected_components(graph), key=min)):
        expected[list(part)] = number
    assert components(40, edges).tolist() == expected.tolist()


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_modularity_equals_networkx_on_summed_counts(resolution):
    edges = random_edges(2)
    found = communities(30, edges, resolution)
    parts = [set(np.flatnonzero(found.number == number).tolist()) for number in range(found.number.max() + 1)]
    graph = as_networkx(30, edges, nx.Graph)
    assert found.modularity == pytest.approx(nx.community.modularity(graph, parts, resolution=resolution), abs=1e-12)
    greedy = nx.community.greedy_modularity_communities(graph, weight="weight", resolution=resolution)
    assert found.modularity >= nx.community.modularity(graph, greedy, resolution=resolution) - 0.01


def test_communities_do_not_depend_on_the_hash_seed():
    # Python's hash seed is random here, and another in the process that is started.
    program = ("from test_graph_statistics import communities, random_edges\n"
               "print(communities(300, random_edges(4, 300, 1500), 1.0).number.tolist())")
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path})
    assert json.loads(done.stdout) == communities(300, random_edges(4, 300, 1500), 1.0).number.tolist()
