"""The keyword graph without the contribution of a group of training items, for every group, as differences.

An entry "keyword a is an output in cluster c" is owned by a group if only that group makes it so. A term of an edge
(both entries in one cluster, or a link) is gone without the owner of either. An edge is gone if all its terms are, and
turns negative if only negative terms are left. A node's initial vector is a mean of texts, each owned or not. A
negative is gone without either of two groups, that of the item and that of the text. Caps on neighbours stay as they
were: hiding removes kept edges and adds none.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from keycontrast.network import strongest

# Terms of edges that are looked at together, and numbers of vectors added up together: these bound memory alone.
BLOCK = 4_000_000
_ROWS = 8192
NOBODY = -1
_RANKS = 3


def owners(key: np.ndarray, group: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of ``key`` (n,), and the groups without which each is gone (d, 2); -1 for none.

    An element is gone without either of its two groups; a value is gone with all its elements.
    """
    if not len(key):
        return key, np.zeros((0, 2), dtype=np.int64)
    order = np.argsort(key, kind="stable")
    key, group, other = key[order], group[order], other[order]
    starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    counts = np.diff(np.r_[starts, len(key)])
    found = []
    for first in (group[starts], other[starts]):  # what owns all elements owns the first
        wanted = np.repeat(first, counts)
        found.append(np.where(np.logical_and.reduceat((group == wanted) | (other == wanted), starts), first, NOBODY))
    return key[starts], np.stack(found, axis=1)


def edge_changes(members: pd.DataFrame, target: np.ndarray, source: np.ndarray, sign: np.ndarray, nodes: int,
                 link_inputs: bool, max_cluster_outputs: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which edges differ without each group: group, index of the edge, and 0 or the sign that is left.

    ``members`` are of clusters: ``cluster``, ``output`` and ``negative`` are node ids, -1 for none; ``own`` marks the
    item's own cluster; ``group`` is of the item, ``negative_group`` of the negative's text, -1 for none. The edges
    (E,), without self loops, are sorted by target, then source.
    """
    keys, edges = target.astype(np.int64) * nodes + source, len(target)
    left, right, positive, offsets = _factors(members, nodes, link_inputs, max_cluster_outputs)
    parts = [(np.zeros(0, dtype=np.int64),) * 3]
    for first, last in pairwise(_cuts(left, offsets)):
        part = left.at(slice(first, last))
        entry, place = _expanded(offsets[part.column], offsets[part.column + 1] - offsets[part.column])
        wanted = part.node[entry] * nodes + right.node[place]
        edge = np.searchsorted(keys, wanted)
        there = np.flatnonzero(keys[np.minimum(edge, edges - 1)] == wanted) if edges else edge[:0]
        edge, place = edge[there], place[there]
        owner = np.sort(np.concatenate([part.owner[entry[there]], right.owner[place]], axis=1), axis=1)  # (t, 4)
        owner[:, 1:][owner[:, 1:] == owner[:, :-1]] = NOBODY  # a term goes once, whichever of its parts does
        good = positive[place]
        total = [np.bincount(edge[good == which], minlength=edges) for which in (False, True)]
        term, column = np.nonzero(owner != NOBODY)
        pairs, number = np.unique(owner[term, column] * edges + edge[term], return_inverse=True)
        group, number_of_edge = np.divmod(pairs, edges)
        negative_left, positive_left = (
            total[which][number_of_edge] - np.bincount(number[good[term] == which], minlength=len(pairs))
            for which in (False, True))
        left_over = np.where(positive_left > 0, 1, np.where(negative_left > 0, -1, 0))
        changed = left_over != sign[number_of_edge]
        parts.append((group[changed], number_of_edge[changed], left_over[changed]))
    group, edge, left_over = (np.concatenate(found) for found in zip(*parts, strict=True))
    order = np.lexsort((edge, group))
    return group[order], edge[order], left_over[order].astype(np.int8)


class _Entries(NamedTuple):
    """Entries (n,): a node, its column (cluster or link), and the owners (n, 2)."""

    node: np.ndarray
    column: np.ndarray
    owner: np.ndarray

    def at(self, rows: np.ndarray | slice) -> "_Entries":
        return _Entries(*(part[rows] for part in self))


def _factors(members: pd.DataFrame, nodes: int, link_inputs: bool, limit: int | None
             ) -> tuple[_Entries, _Entries, np.ndarray, np.ndarray]:
    """Return the entries whose products are the edges: by target, and by column with signs and column bounds.

    Clusters are columns, and so is each link of an input's keyword and its output's, in both directions.
    """
    own = members[members["own"]]
    head, head_owner = owners(own["cluster"].to_numpy(np.int64), *[own["group"].to_numpy()] * 2)
    of_cluster = np.full(nodes, NOBODY)
    of_cluster[head] = head_owner[:, 0]
    outputs = _entries(members, "output", "group", nodes, limit)
    negatives = _entries(members, "negative", "negative_group", nodes, limit)
    links = _entries(own if link_inputs else own.head(0), "output", "group", nodes, None)
    number = nodes + np.arange(2 * len(links.node))
    own_outputs = outputs._replace(owner=np.stack([outputs.owner[:, 0], of_cluster[outputs.column]], axis=1))
    to_links = _Entries(np.r_[links.column, links.node], number, np.r_[links.owner, links.owner])
    from_links = _Entries(np.r_[links.node, links.column], number, np.full((len(number), 2), NOBODY))
    left, right = (_Entries(*map(np.concatenate, zip(*parts, strict=True)))
                   for parts in ((own_outputs, to_links), (outputs, negatives, from_links)))
    positive = np.repeat([True, False, True], [len(outputs.node), len(negatives.node), len(number)])
    order = np.argsort(right.column, kind="stable")
    offsets = np.r_[0, np.bincount(right.column, minlength=nodes + len(number)).cumsum()]
    return left.at(np.argsort(left.node, kind="stable")), right.at(order), positive[order], offsets


def _entries(members: pd.DataFrame, role: str, of_text: str, nodes: int, limit: int | None) -> _Entries:
    """Return the keywords of each cluster in a role, the ``limit`` most frequent."""
    real = members[members[role] >= 0]
    pairs = real["cluster"].to_numpy(np.int64) * nodes + real[role].to_numpy()
    distinct, owner = owners(pairs, real["group"].to_numpy(), real[of_text].to_numpy())
    if limit is not None and len(distinct):
        count = np.unique(pairs, return_counts=True)[1]
        cluster, keyword, _ = strongest(*np.divmod(distinct, nodes), count, nodes, limit)
        kept = np.sort(cluster * nodes + keyword)
        owner, distinct = owner[np.searchsorted(distinct, kept)], kept
    cluster, keyword = np.divmod(distinct, max(nodes, 1))
    return _Entries(keyword, cluster, owner)


def _cuts(left: _Entries, offsets: np.ndarray) -> list[int]:
    """Return where to cut ``left`` into runs of whole targets with about ``BLOCK`` terms each."""
    before = np.r_[0, np.diff(offsets)[left.column].cumsum()]   # terms before each entry
    starts = np.flatnonzero(np.r_[True, left.node[1:] != left.node[:-1]])
    firsts = np.flatnonzero(np.diff(before[starts] // BLOCK, prepend=-1))
    return [*starts[firsts].tolist(), len(left.node)]


def _expanded(starts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the run and the place of each element, for runs of ``counts`` places from ``starts`` on."""
    run = np.repeat(np.arange(len(counts)), counts)
    return run, np.arange(len(run)) + np.repeat(starts - (counts.cumsum() - counts), counts)


def node_changes(roles: pd.DataFrame, vectors: np.ndarray, nodes: int
                 ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return which nodes have another initial vector without each group, and which are gone.

    ``roles`` have one row per item and text: ``node``; ``rank`` 0 for an input, 1 for an output, 2 for a negative (a
    node averages the texts of its smallest rank); ``text`` id; ``row`` in ``vectors`` (T, d); ``group`` of the item and
    ``of_text``. Returned are groups and nodes (n,), sorted; the row of each in the new vectors, -1 for a node that is
    gone; and these vectors (R, d) float32.
    """
    ids, first, place = np.unique(roles["text"], return_index=True, return_inverse=True)
    distinct, owner = owners(roles["rank"].to_numpy(np.int64) * len(ids) + place, roles["group"].to_numpy(),
                             roles["of_text"].to_numpy())
    rank, place = np.divmod(distinct, max(len(ids), 1))
    node, text = (roles[name].to_numpy()[first][place] for name in ("node", "row"))
    slot = node * _RANKS + rank
    counts = np.bincount(slot, minlength=nodes * _RANKS).reshape(nodes, _RANKS)
    owner[owner[:, 1] == owner[:, 0], 1] = NOBODY  # once is enough
    owned, column = np.nonzero(owner != NOBODY)
    pairs, number = np.unique(owner[owned, column] * nodes + node[owned], return_inverse=True)
    group, changed_node = np.divmod(pairs, max(nodes, 1))
    taken = np.bincount(number * _RANKS + rank[owned], minlength=len(pairs) * _RANKS).reshape(-1, _RANKS)
    rest = counts[changed_node] - taken
    before, after = (np.where(have.any(1), have.argmax(1), _RANKS) for have in (counts[changed_node] > 0, rest > 0))
    changed = (before != after) | (np.take_along_axis(taken, before[:, None], 1)[:, 0] > 0)
    stays = changed & (after < _RANKS)
    row = np.full(len(pairs), -1)
    row[stays] = np.arange(np.count_nonzero(stays))
    kept = changed_node[stays] * _RANKS + after[stays]
    remaining = np.take_along_axis(rest, after[:, None] % _RANKS, 1)[stays]
    own = np.flatnonzero(stays[number] & (rank[owned] == after[number]))
    everything, lacking = _by_slot(slot, text), _by_slot(row[number[own]], text[owned[own]])
    left = np.empty((len(kept), vectors.shape[1]), dtype=np.float32)
    order = np.argsort(kept, kind="stable")  # a node's rows share the sum of its texts
    for start in range(0, len(order), _ROWS):
        part = order[start : start + _ROWS]
        slots, place = np.unique(kept[part], return_inverse=True)
        sums = _sums(everything, slots, vectors)[place] - _sums(lacking, part, vectors)
        left[part] = sums / remaining[part]
    return group[changed], changed_node[changed], row[changed], left


def _by_slot(slot: np.ndarray, text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(slot, kind="stable")
    return slot[order], text[order]


def _sums(texts: tuple[np.ndarray, np.ndarray], slots: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the sums (s, d) float64 of the vectors of texts by slot, for ``slots`` (s,)."""
    starts, stops = (np.searchsorted(texts[0], slots, side=side) for side in ("left", "right"))
    slot, place = _expanded(starts, stops - starts)
    rows, sums = texts[1][place], np.zeros((len(slots), vectors.shape[1]))
    if (rows < 0).any():
        raise ValueError("node_changes: a text that stands for a node has no vector")
    np.add.at(sums, slot, vectors[rows].astype(np.float64))
    return sums
