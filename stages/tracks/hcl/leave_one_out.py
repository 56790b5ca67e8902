"""The keyword graph without what a group of training items contributed, for every group, as differences.

Nothing is built again. An entry "keyword a is an output in cluster c" is owned by a group if that group alone makes it
so, and a term of an edge (both entries in one cluster, or a link) is gone with the owner of either. So an edge is gone
without a group if all its terms are, and turns negative if its positive terms are and a negative one is left. A node's
initial vector is a mean of texts, of which each is owned or not, likewise. A negative is gone with either of two
groups, that of the item and that of the text: a text of one component may be the negative of another's item.

Caps stay as they were: hiding takes edges away from those that were kept, and brings none back that were not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from keycontrast.network import strongest

# Terms of edges that are looked at together, and numbers of vectors added up together: these bound memory alone.
BLOCK = 4_000_000
_ROWS = 8192
NOBODY = -1
_RANKS = 3


@dataclass(frozen=True)
class Members:
    """The members of clusters (m,), of which an item may have several: numbers of nodes, -1 for none.

    Attributes:
        cluster: the cluster's keyword.
        output, negative: keywords of the member's target and negative; -1 for none.
        own: whether the cluster's keyword is the member's input keyword.
        group: of the member's item, 0, 1, ...; -1 for an item that is hidden from nobody.
        negative_group: of the text of its negative, likewise.
    """

    cluster: np.ndarray
    output: np.ndarray
    negative: np.ndarray
    own: np.ndarray
    group: np.ndarray
    negative_group: np.ndarray


@dataclass(frozen=True)
class StandingTexts:
    """Texts in their roles (t,), each text once a role: what initial vectors are means of.

    Attributes:
        node: whose keyword the text has.
        rank: 0 for an input, 1 for an output, 2 for a negative: a node averages those of the smallest rank it has.
        text: row of the text's vector; -1 for one that stands for no node, whatever is hidden.
        owner: the groups without which the text has not this role (t, 2); -1 for none.
    """

    node: np.ndarray
    rank: np.ndarray
    text: np.ndarray
    owner: np.ndarray


@dataclass(frozen=True)
class EdgeChanges:
    """Edges (n,) that differ without a group, by group, then edge: the group, the edge's number, 0 or its sign."""

    group: np.ndarray
    edge: np.ndarray
    sign: np.ndarray


@dataclass(frozen=True)
class NodeChanges:
    """Nodes (n,) that differ without a group, by group, then node.

    Attributes:
        group, node: numbers.
        row: of ``vectors``; -1 where the node is gone.
        vectors: (R, d) float32.
    """

    group: np.ndarray
    node: np.ndarray
    row: np.ndarray
    vectors: np.ndarray


def owners(key: np.ndarray, group: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of ``key`` (n,), and the groups without which each is gone (d, 2); -1 for none.

    An element of ``key`` is gone with either of its two groups, which may be the same; a value with all its elements.
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


def edge_changes(members: Members, target: np.ndarray, source: np.ndarray, sign: np.ndarray, nodes: int,
                 link_inputs: bool, max_cluster_outputs: int | None) -> EdgeChanges:
    """Return which edges differ without each group.

    Args:
        members: of the clusters from which the edges were made; those without input keyword form none.
        target, source, sign: the edges (E,), sorted by target, then source, without self loops.
        nodes: number of nodes.
        link_inputs, max_cluster_outputs: with which they were made.
    """
    keys, edges = target.astype(np.int64) * nodes + source, len(target)
    left, right = _factors(members, nodes, link_inputs, max_cluster_outputs)
    parts = [(np.zeros(0, dtype=np.int64),) * 3]
    for first, last in _blocks(left, right):
        terms = _terms(left, right, first, last, keys, nodes)
        total = [np.bincount(terms.edge[terms.positive == which], minlength=edges) for which in (False, True)]
        pairs, owned = terms.owned()
        group, edge = np.divmod(pairs, edges)
        negative, positive = (total[which][edge] - owned[which] for which in (False, True))
        left_over = np.where(positive > 0, 1, np.where(negative > 0, -1, 0))
        changed = left_over != sign[edge]
        parts.append((group[changed], edge[changed], left_over[changed]))
    group, edge, left_over = (np.concatenate(found) for found in zip(*parts, strict=True))
    order = np.lexsort((edge, group))
    return EdgeChanges(group[order], edge[order], left_over[order].astype(np.int8))


@dataclass(frozen=True)
class _Left:
    """Entries (l,) by target: the target, where its terms stand in the other factor, and their owners (l, 2)."""

    target: np.ndarray
    column: np.ndarray
    owner: np.ndarray


@dataclass(frozen=True)
class _Right:
    """Entries (r,) by column: the source, its owners (r, 2), and its sign; a column's begin and end at ``offsets``."""

    offsets: np.ndarray
    source: np.ndarray
    owner: np.ndarray
    positive: np.ndarray


@dataclass(frozen=True)
class _Terms:
    """Terms (t,) of edges: the edge, whether it is a positive one, and the groups that it goes with (t, 4)."""

    edges: int
    edge: np.ndarray
    positive: np.ndarray
    owner: np.ndarray

    def owned(self) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Return which pairs of group and edge share terms, and how many negative and positive ones."""
        owner = np.sort(self.owner, axis=1)
        owner[:, 1:][owner[:, 1:] == owner[:, :-1]] = NOBODY  # a term goes once, whichever of its parts does
        term, place = np.nonzero(owner != NOBODY)
        pairs, number = np.unique(owner[term, place] * self.edges + self.edge[term], return_inverse=True)
        positive = self.positive[term]
        return pairs, (np.bincount(number[~positive], minlength=len(pairs)),
                       np.bincount(number[positive], minlength=len(pairs)))


def _factors(members: Members, nodes: int, link_inputs: bool, limit: int | None) -> tuple[_Left, _Right]:
    """Return the entries whose products are the edges: of clusters, and of links, each a column of its own."""
    of_item = members.group
    head, head_owner = owners(members.cluster[members.own].astype(np.int64), *[of_item[members.own]] * 2)
    of_cluster = np.full(nodes, NOBODY)
    of_cluster[head] = head_owner[:, 0]
    cluster, output, owner = _entries(members, members.output, of_item, nodes, limit)
    of_negative = _entries(members, members.negative, members.negative_group, nodes, limit)
    x = y = np.zeros(0, dtype=np.int64)
    of_link = owner[:0]
    if link_inputs:
        own = Members(*(getattr(members, field.name)[members.own] for field in fields(members)))
        x, y, of_link = _entries(own, own.output, own.group, nodes, None)
    links = nodes + np.arange(2 * len(x))
    owner_or_head = np.stack([owner[:, 0], of_cluster[cluster]], axis=1)
    left = _Left(np.concatenate([output, x, y]), np.concatenate([cluster, links]),
                 np.concatenate([owner_or_head, of_link, of_link]))
    column = np.concatenate([cluster, of_negative[0], links])
    order = np.argsort(column, kind="stable")
    right = _Right(np.r_[0, np.bincount(column, minlength=nodes + len(links)).cumsum()],
                   np.concatenate([output, of_negative[1], y, x])[order],
                   np.concatenate([owner, of_negative[2], np.full((len(links), 2), NOBODY)])[order],
                   (np.arange(len(column)) < len(cluster)) | (np.arange(len(column)) >= len(cluster)
                                                              + len(of_negative[0])))
    by_target = np.argsort(left.target, kind="stable")
    return (_Left(*(getattr(left, field.name)[by_target] for field in fields(left))),
            _Right(right.offsets, right.source, right.owner, right.positive[order]))


def _entries(members: Members, keyword: np.ndarray, of_text: np.ndarray, nodes: int, limit: int | None
             ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which keywords each cluster has, the ``limit`` most frequent, and their owners (e, 2)."""
    real = keyword >= 0
    pairs = members.cluster[real].astype(np.int64) * nodes + keyword[real]
    distinct, owner = owners(pairs, members.group[real], of_text[real])
    if limit is not None and len(distinct):
        count = np.unique(pairs, return_counts=True)[1]
        cluster, column = np.divmod(distinct, nodes)
        kept_cluster, kept_column, _ = strongest(cluster, column, count, nodes, limit)
        kept = np.sort(kept_cluster * nodes + kept_column)
        owner, distinct = owner[np.searchsorted(distinct, kept)], kept
    cluster, column = np.divmod(distinct, max(nodes, 1))
    return cluster, column, owner


def _blocks(left: _Left, right: _Right) -> Iterator[tuple[int, int]]:
    """Yield runs of entries of ``left``, each of whole targets and of at most ``BLOCK`` terms or one target."""
    work = np.diff(right.offsets)[left.column].cumsum()
    ends = np.flatnonzero(np.r_[left.target[1:] != left.target[:-1], True]) + 1 if len(work) else work
    first = 0
    while first < len(work):
        before = int(work[first - 1]) if first else 0
        fits = ends[(ends > first) & (work[ends - 1] <= before + BLOCK)]
        last = int(fits[-1]) if len(fits) else int(ends[np.searchsorted(ends, first, side="right")])
        yield first, last
        first = last


def _terms(left: _Left, right: _Right, first: int, last: int, keys: np.ndarray, nodes: int) -> _Terms:
    """Return the terms of the entries ``first`` to ``last`` that belong to an edge of ``keys``."""
    column = left.column[first:last]
    counts = right.offsets[column + 1] - right.offsets[column]
    entry, place = _expanded(right.offsets[column], counts)
    wanted = left.target[first:last][entry] * nodes + right.source[place]
    edge = np.searchsorted(keys, wanted)
    there = np.flatnonzero(keys[np.minimum(edge, len(keys) - 1)] == wanted) if len(keys) else edge[:0]
    entry, place = entry[there], place[there]
    owner = np.concatenate([left.owner[first:last][entry], right.owner[place]], axis=1)
    return _Terms(len(keys), edge[there], right.positive[place], owner)


def _expanded(starts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for runs of ``counts`` places from ``starts`` on, which run each place is of, and the places."""
    run = np.repeat(np.arange(len(counts)), counts)
    return run, np.arange(len(run)) + np.repeat(starts - (counts.cumsum() - counts), counts)


def standing_texts(node: np.ndarray, rank: np.ndarray, text: np.ndarray, row: np.ndarray, group: np.ndarray,
                   of_text: np.ndarray) -> StandingTexts:
    """Return the texts of items in their roles, each once a role, with their owners.

    Args:
        node: keyword of the text (u,), for each item and role; of one text always the same.
        rank: its role.
        text: its id.
        row: of its vector; -1 for none.
        group: of the item; -1 for one that is hidden from nobody.
        of_text: of the text, in the role of a negative; of the item, else.
    """
    ids, first, place = np.unique(text, return_index=True, return_inverse=True)
    distinct, owner = owners(rank.astype(np.int64) * len(ids) + place, group, of_text)
    ranks, places = np.divmod(distinct, max(len(ids), 1))
    return StandingTexts(node[first][places], ranks, row[first][places], owner)


def node_changes(texts: StandingTexts, vectors: np.ndarray, nodes: int) -> NodeChanges:
    """Return which nodes begin with another vector without each group, and which are gone.

    Args:
        texts: what the initial vectors of all nodes are means of.
        vectors: of the texts (T, d).
        nodes: number of nodes.
    """
    counts = np.bincount(texts.node * _RANKS + texts.rank, minlength=nodes * _RANKS).reshape(nodes, _RANKS)
    again = texts.owner[:, 1] == texts.owner[:, 0]
    owned, which = np.nonzero((texts.owner != NOBODY) & np.stack([np.ones_like(again), ~again], axis=1))
    pairs, number = np.unique(texts.owner[owned, which] * nodes + texts.node[owned], return_inverse=True)
    group, node = np.divmod(pairs, max(nodes, 1))
    taken = np.bincount(number * _RANKS + texts.rank[owned], minlength=len(pairs) * _RANKS).reshape(-1, _RANKS)
    rest = counts[node] - taken
    before, after = (np.where(have.any(1), have.argmax(1), _RANKS) for have in (counts[node] > 0, rest > 0))
    changed = (before != after) | (np.take_along_axis(taken, before[:, None], 1)[:, 0] > 0)
    stays = changed & (after < _RANKS)
    row = np.full(len(pairs), -1)
    row[stays] = np.arange(np.count_nonzero(stays))
    slot, remaining = node[stays] * _RANKS + after[stays], np.take_along_axis(rest, after[:, None] % _RANKS, 1)[stays]
    own = np.flatnonzero(stays[number] & (texts.rank[owned] == after[number]))
    lacking = _Sums(row[number[own]], texts.text[owned[own]])
    everything = _Sums(texts.node * _RANKS + texts.rank, texts.text)
    left = np.empty((len(slot), vectors.shape[1]), dtype=np.float32)
    order = np.argsort(slot, kind="stable")  # a node's rows share the sum of its texts
    for start in range(0, len(order), _ROWS):
        part = order[start : start + _ROWS]
        slots, place = np.unique(slot[part], return_inverse=True)
        left[part] = (everything.of(slots, vectors)[place] - lacking.of(part, vectors)) / remaining[part]
    return NodeChanges(group[changed], node[changed], row[changed], left)


class _Sums:
    """Sums of vectors by the slot that they belong to."""

    def __init__(self, slot: np.ndarray, text: np.ndarray) -> None:
        order = np.argsort(slot, kind="stable")
        self.slot, self.text = slot[order], text[order]

    def of(self, slots: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the sums (s, d) float64 of the texts of ``slots`` (s,)."""
        starts, stops = (np.searchsorted(self.slot, slots, side=side) for side in ("left", "right"))
        slot, place = _expanded(starts, stops - starts)
        rows, sums = self.text[place], np.zeros((len(slots), vectors.shape[1]))
        if (rows < 0).any():
            raise ValueError("node_changes: a text that stands for a node has no vector")
        np.add.at(sums, slot, vectors[rows].astype(np.float64))
        return sums
