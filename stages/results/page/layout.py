"""Where keywords stand on the map: each connected component drawn by forces, and these packed around the largest."""

import random

import igraph
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

SIZE = 10_000       # places are whole numbers from 0 to this
_SEED = 1           # a constant: the picture describes the graph, whatever seed trains models
_ROUNDS = 300_000   # nodes times passes over them; a large component gets fewer, and at least _FEWEST
_FEWEST, _MOST = 60, 400
_SMALL = 200        # nodes of a component up to which all distances in it are fitted
_ROOM = 0.6         # around a component, in lengths of an edge
_STEP = 0.25        # of the spiral
_WIDE = 1.7         # the map is wider than high


def places(nodes: int, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return x and y of each node (n, 2) int, the same ones on each call; edges (m,) pull."""
    if nodes == 0:
        return np.zeros((0, 2), dtype=np.int64)
    links = sparse.csr_array((np.ones(len(source)), (source, target)), shape=(nodes, nodes))
    member = csgraph.connected_components(links, directed=False)[1]
    order = np.argsort(member, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(member[order])) + 1)
    edges = np.argsort(member[source], kind="stable") if len(source) else np.zeros(0, dtype=np.int64)
    bounds = np.searchsorted(member[source][edges], np.arange(len(groups) + 1)) if len(source) else np.zeros(
        len(groups) + 1, dtype=np.int64)
    drawn = [_component(group, source[own], target[own])
             for number, group in enumerate(groups) for own in [edges[bounds[number]:bounds[number + 1]]]]
    found = np.zeros((nodes, 2))
    largest = sorted(range(len(groups)), key=lambda number: (-len(groups[number]), groups[number][0]))
    radii = np.array([_ROOM + float(np.hypot(*drawn[number].T).max()) for number in largest])
    for number, centre in zip(largest, _packed(radii), strict=True):
        found[groups[number]] = drawn[number] + centre
    low, extent = found.min(0), max(float(np.ptp(found, axis=0).max()), 1e-9)
    return np.rint((found - low) / extent * SIZE).astype(np.int64)


def _component(nodes: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return places of the nodes of one component (k, 2) around 0; its edges are about 1 long."""
    if len(nodes) == 1:
        return np.zeros((1, 2))
    own = np.column_stack([np.searchsorted(nodes, source), np.searchsorted(nodes, target)])
    graph = igraph.Graph(n=len(nodes), edges=own)
    begin = (np.random.default_rng(_SEED).uniform(-1, 1, (len(nodes), 2)) * np.sqrt(len(nodes))).tolist()
    igraph.set_random_number_generator(random.Random(_SEED))
    try:
        layout = graph.layout_kamada_kawai(seed=begin) if len(nodes) <= _SMALL else graph.layout_fruchterman_reingold(
            niter=int(np.clip(_ROUNDS // len(nodes), _FEWEST, _MOST)), seed=begin,
            grid="grid" if len(nodes) > 1000 else "nogrid")
    finally:
        igraph.set_random_number_generator(random)
    found = np.array(layout.coords)
    found -= found.mean(0)
    return found / max(float(np.median(np.hypot(*(found[own[:, 0]] - found[own[:, 1]]).T))), 1e-9)


def _packed(radii: np.ndarray) -> np.ndarray:
    """Return centres of circles (k, 2) that do not touch, each the next free place on a spiral; the largest first."""
    centres = np.zeros((len(radii), 2))
    angle = 0.0
    for place in range(1, len(radii)):
        if radii[place] < radii[place - 1]:
            angle = max(0.0, angle - 2 * np.pi)     # a smaller one may fit where the last did not
        while True:
            way = _STEP * angle
            centre = np.array([_WIDE * way * np.cos(angle), way * np.sin(angle)])
            apart = np.hypot(*(centres[:place] - centre).T) - radii[:place] - radii[place]
            if (apart > 0).all():
                break
            angle += max(0.02, 0.35 / max(way, 1.0))
        centres[place] = centre
    return centres
