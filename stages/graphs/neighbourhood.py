"""The neighbourhood of keywords in the graph: what message passing of so many rounds would see of it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.artifacts.tables import read_table
from stages.graphs.edges import Edges, strongest
from stages.runtime.errors import InputError, nearest


def neighbourhood(nodes: Path | pa.Table, edges: Path | pa.Table, seeds: Sequence[str], hops: int,
                  max_nbr: int | None = None, sign: int | None = None) -> tuple[pa.Table, pa.Table]:
    """Return the nodes at most ``hops`` edges from ``seeds``, and all edges among them.

    Edges are walked from the node that receives to the one it receives from, so that these nodes are what decides
    the seeds' vectors after ``hops`` rounds of the graph attention (METHODS A.3).

    Args:
        nodes: table ``nodes``, or its file.
        edges: table ``edges``, or its file.
        seeds: keywords to start from.
        hops: T; 0 gives the seeds alone.
        max_nbr: neighbours looked at per node and sign, by count, then by node id; None looks at all.
        sign: +1 or -1 for edges of that sign alone.

    Returns:
        Rows of table ``nodes`` with column ``distance`` (int32, edges from the nearest seed), and rows of ``edges``.

    Raises:
        InputError: a seed is no node of the graph.
        ValueError: ``hops`` is negative, or ``sign`` is neither +1 nor -1.
    """
    if hops < 0 or sign not in (None, 1, -1):
        raise ValueError(f"neighbourhood: hops {hops} must not be negative, sign {sign} must be 1, -1 or None")
    node_rows, edge_rows = (table if isinstance(table, pa.Table) else read_table(table, kind)
                            for table, kind in ((nodes, "nodes"), (edges, "edges")))
    distance = np.full(node_rows.num_rows, -1, dtype=np.int32)
    distance[_places(node_rows, seeds)] = 0
    columns = Edges.read(edge_rows)
    starts = np.searchsorted(columns.target, np.arange(len(distance) + 1))
    seen = []
    for hop in range(hops + 1):
        into = _into(columns, starts, np.flatnonzero(distance == hop), max_nbr, sign)
        seen.append(into)
        sources = columns.source[into]
        if hop < hops:
            distance[sources[distance[sources] < 0]] = hop + 1
    chosen = np.sort(np.concatenate(seen))
    chosen = chosen[distance[columns.source[chosen]] >= 0]
    reached = np.flatnonzero(distance >= 0)
    return (node_rows.take(reached).append_column("distance", pa.array(distance[reached])), edge_rows.take(chosen))


def _places(nodes: pa.Table, seeds: Sequence[str]) -> np.ndarray:
    """Return the node id of each seed."""
    keywords = nodes["keyword"].combine_chunks()
    places = pc.index_in(pa.array(seeds, type=pa.string()), value_set=keywords)
    if places.null_count:
        seed = seeds[places.is_null().index(True).as_py()]
        raise InputError(f"nodes.parquet: no keyword {seed!r} in the graph; {nearest(seed, keywords.to_pylist())}")
    return places.to_numpy()


def _into(edges: Edges, starts: np.ndarray, frontier: np.ndarray, max_nbr: int | None,
          sign: int | None) -> np.ndarray:
    """Return the places of the edges into ``frontier`` that are looked at."""
    sizes = starts[frontier + 1] - starts[frontier]
    places = np.arange(sizes.sum()) + np.repeat(starts[frontier] - (np.cumsum(sizes) - sizes), sizes)
    if sign is not None:
        places = places[edges.sign[places] == sign]
    if max_nbr is None or not len(places):
        return places
    group = 2 * edges.target[places].astype(np.int64) + (edges.sign[places] < 0)
    # Groups are many and mostly empty: numbered anew among those that occur. Places rise with node ids.
    _, group = np.unique(group, return_inverse=True)
    rank = np.arange(len(places))
    return places[strongest(group, rank, edges.count[places], len(places), max_nbr)[1]]
