"""The part of the keyword graph that a training item sees when its prior is computed (`own_edges`, docs/hcl.md).

The graph of the training data leaks an item's target to it: the item itself makes the target's keyword a neighbour of
the input's. So an item's own contribution, or that of its connected component, is hidden from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from keycontrast.errors import InputError
from keycontrast.network import strongest
from models.hcl.graph import KeywordGraph, Views, neighbours, view_rows
from stages.common.schemas import GRAPH_ONLY, IN_GRAPH, NO_KEYWORD
from stages.tracks.hcl.data import node_ids

# Terms of edges that are looked at together, and numbers of vectors added up together: these bound memory alone.
BLOCK = 4_000_000
_ROWS = 8192
NOBODY = -1
_RANKS = 3
# Columns of text ids, in the order in which their texts represent a keyword, each with the column of the text's owner.
_ROLES = {"source_id": "owner", "target_id": "owner", "negative_id": "negative_owner"}
_GOLDEN = 0.6180339887498949  # fractions of its multiples are spread evenly


@dataclass(frozen=True)
class GraphTables:
    """The tables that the graph was made from."""

    examples: pd.DataFrame
    keywords: pd.DataFrame
    nodes: pd.DataFrame
    clusters: pd.DataFrame
    text_vectors: pa.Table


@dataclass(frozen=True)
class ItemViews:
    """The part of the graph that each of n training items sees."""

    views: Views | None     # all views of the graph; None if every item sees the whole
    view: Tensor            # of each item (n,)
    vectors: Tensor         # embedding of each item's input text (n, d), the start of its keyword as a new node
    draws: Tensor           # a number in [0, 1) of each item, which decides in which epochs its keyword is dropped (n,)
    dropout: float          # share of items whose keyword is dropped in an epoch

    def of(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return the tensors of a batch of ``items``."""
        parts = {"unseen_vectors": self.vectors}
        if self.views is not None:
            parts["view"] = self.view
        if self.dropout:
            parts["draw"] = self.draws
        return {name: part[list(items)] for name, part in parts.items()}

    def dropped(self, draw: Tensor, epoch: int) -> Tensor:
        """Return which items (B,) lose their keyword in an epoch, independently of the batches."""
        return (draw + epoch * _GOLDEN % 1.0) % 1.0 < self.dropout


def views_of_items(items: pd.DataFrame, graph: KeywordGraph, tables: GraphTables, graph_block: Mapping[str, Any],
                   settings: Mapping[str, Any], seed: int) -> ItemViews:
    """Return the views of the training items under the blocks ``graph`` (``graph_block``) and ``train_hcl.graph``."""
    examples = _owned(tables.examples.sort_values("example_id"), settings["own_edges"])
    train = examples[examples["split"] == "train"]
    text_ids = tables.text_vectors["text_id"].to_numpy()
    vectors = tables.text_vectors["vector"].combine_chunks().flatten().to_numpy().reshape(len(text_ids), -1)
    views, view = None, torch.zeros(len(train), dtype=torch.int64)
    if settings["own_edges"] != "leaking":
        views = _views(examples[examples["split"].isin(IN_GRAPH)], graph, tables, graph_block, text_ids, vectors)
        view = torch.from_numpy(train["owner"].to_numpy(copy=True)) + 1
    rows = pd.Index(text_ids).get_indexer(train["source_id"])
    if (rows < 0).any():
        raise InputError(f"table text_vectors: no vector for input text {train['source_id'].to_numpy()[rows < 0][0]}. "
                         f"Run the stage node_vectors again.")
    draws = torch.rand(len(train), generator=torch.Generator().manual_seed(seed))
    return ItemViews(views, view, torch.from_numpy(vectors[rows]), draws, _dropout(settings, items, graph, views, view))


def _owned(examples: pd.DataFrame, own_edges: str) -> pd.DataFrame:
    """Return the examples with the group that contributed each, ``owner``, and ``negative_owner``, -1 for none.

    The latter is the only group with the negative's text as input or output.
    """
    of_item = examples["group" if own_edges == "component" else "example_id"]
    owner = np.where(examples["split"] == GRAPH_ONLY, NOBODY, np.unique(of_item, return_inverse=True)[1])
    examples = examples.assign(owner=owner)
    texts = pd.concat([examples[["owner", name]].set_axis(["owner", "text"], axis=1).explode("text")
                       for name in ("source_id", "reference_ids")]).drop_duplicates()
    owner = texts[~texts["text"].duplicated(keep=False)].set_index("text")["owner"]
    return examples.assign(negative_owner=examples["negative_id"].map(owner).fillna(NOBODY).astype("int64"))


def leaks(items: pd.DataFrame, graph: KeywordGraph, item_views: ItemViews | None) -> dict[str, dict[str, float]]:
    """Return, by split, how far the graph reveals the target keyword; training items see it through their views.

    ``target_is_neighbour`` and ``target_is_only_neighbour`` are shares of the items whose input and target have
    different keywords, ``without_neighbour`` and ``unseen`` (whose keyword is no node) of all items.
    """
    none, offsets = torch.zeros(0, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    unchanged = Views(offsets, none, none, none.to(torch.int8), offsets, none, none, graph.h0.new_zeros(0))
    shares = {}
    for split, rows in items.groupby("split"):
        kx, ky = (torch.from_numpy(rows[name].to_numpy(dtype=np.int64, copy=True))
                  for name in ("input_node", "output_node"))
        views = item_views.views if item_views is not None and split == "train" else None
        view = item_views.view if item_views is not None and views is not None else torch.zeros_like(kx)
        views = unchanged if views is None else views
        seen = kx >= 0
        seen[seen.clone()] = view_rows(graph, kx[seen], views, view[seen]) != -1
        senders, place = neighbours(graph, kx[seen], views, view[seen])
        place = torch.nonzero(seen).squeeze(-1)[place]
        count = torch.bincount(place, minlength=len(kx))
        known_target = torch.zeros(len(kx), dtype=torch.bool)
        known_target[place[senders == ky[place]]] = True
        differ = torch.from_numpy((rows["keyword"] != rows["target_keyword"]).to_numpy(copy=True))
        marks = {"keywords_differ": differ, "target_is_neighbour": known_target[differ],
                 "target_is_only_neighbour": (known_target & (count == 1))[differ], "without_neighbour": count == 0,
                 "unseen": ~seen}
        shares[str(split)] = {name: round(float(mark.float().mean()), 6) if len(mark) else 0.0
                              for name, mark in marks.items()}
    return shares


def _views(counted: pd.DataFrame, graph: KeywordGraph, tables: GraphTables, graph_block: Mapping[str, Any],
           text_ids: np.ndarray, vectors: np.ndarray) -> Views:
    nodes, groups = graph.num_nodes, int(counted["owner"].to_numpy().max(initial=NOBODY)) + 1
    names = tables.nodes.sort_values("node_id")["keyword"].tolist()
    keyword = tables.keywords.set_index("text_id")["keyword"].astype(object)
    clusters, place = tables.clusters, pd.Index(counted["example_id"]).get_indexer(tables.clusters["example_id"])
    if (place < 0).any():
        raise InputError("table clusters has examples that table examples has not. Run the stages graph and "
                         "node_vectors again.")
    items = counted.iloc[place]
    ids = {role: np.where(clusters[column] == NO_KEYWORD, -1, node_ids(names, clusters[column])) for role, column in (
        ("cluster", "keyword"), ("output", "output_keyword"), ("negative", "negative_keyword"))}
    own = clusters["keyword"].to_numpy() == items["source_id"].map(keyword).to_numpy()
    members = pd.DataFrame({**ids, "own": own, "group": items["owner"].to_numpy(),
                            "negative_group": items["negative_owner"].to_numpy()})
    target, source, sign = (getattr(graph, name).numpy() for name in ("target", "source", "sign"))
    apart = np.flatnonzero(target != source)
    group, edge, signs = edge_changes(members, target[apart], source[apart], sign[apart], nodes,
                                      graph_block["link_inputs"], graph_block["max_cluster_outputs"])
    numbers, of_edge = apart[edge], _offsets(group, groups)
    parts = []
    for rank, (name, of_text) in enumerate(_ROLES.items()):
        rows = counted[counted[name].notna()]
        parts.append(pd.DataFrame({"text": rows[name].astype("int64"), "rank": rank, "group": rows["owner"],
                                   "of_text": rows[of_text]}))
    roles = pd.concat(parts)
    roles = roles.assign(node=node_ids(names, roles["text"].map(keyword)),
                         row=pd.Index(text_ids).get_indexer(roles["text"]))
    group, node, row, changed = node_changes(roles, vectors, nodes)
    return Views(of_edge, torch.from_numpy(numbers), torch.from_numpy(target[numbers]), torch.from_numpy(signs),
                 _offsets(group, groups), torch.from_numpy(node), torch.from_numpy(row), torch.from_numpy(changed))


def _offsets(group: np.ndarray, groups: int) -> Tensor:
    """Return where the entries of each view begin: none of view 0, then those of each group."""
    return torch.from_numpy(np.r_[0, 0, np.bincount(group, minlength=groups).cumsum()])


def _dropout(settings: Mapping[str, Any], items: pd.DataFrame, graph: KeywordGraph, views: Views | None,
             view: Tensor) -> float:
    """Return the keyword dropout: as set, or such that unseen keywords are as frequent as in validation."""
    if settings["kw_dropout"] is not None:
        return float(settings["kw_dropout"])
    if views is None:
        return 0.0
    nodes = {split: items.loc[items["split"] == split, "input_node"].to_numpy(dtype=np.int64, copy=True)
             for split in ("train", "validation")}
    gone = float((view_rows(graph, torch.from_numpy(nodes["train"]), views, view) == -1).float().mean())
    unseen = float(np.mean(nodes["validation"] < 0)) if len(nodes["validation"]) else 0.0
    return max(0.0, (unseen - gone) / (1.0 - gone)) if gone < 1.0 else 0.0


# The graph without the contribution of each group, as differences. An entry "keyword a is an output in cluster c" is
# owned by a group if only that group makes it so. A term of an edge (both entries in one cluster, or a link) is gone
# without the owner of either. An edge is gone if all its terms are, and turns negative if only negative terms are
# left. A node's initial vector is a mean of texts, each owned or not. A negative is gone without either of two
# groups, that of the item and that of the text. Caps on neighbours stay as they were: hiding removes kept edges and
# adds none.


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
    columns = []
    for first in (group[starts], other[starts]):  # what owns all elements owns the first
        wanted = np.repeat(first, counts)
        columns.append(np.where(np.logical_and.reduceat((group == wanted) | (other == wanted), starts), first, NOBODY))
    return key[starts], np.stack(columns, axis=1)


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
        matches = np.flatnonzero(keys[np.minimum(edge, edges - 1)] == wanted) if edges else edge[:0]
        edge, place = edge[matches], place[matches]
        owner = np.sort(np.concatenate([part.owner[entry[matches]], right.owner[place]], axis=1), axis=1)  # (t, 4)
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
    group, edge, left_over = (np.concatenate(columns) for columns in zip(*parts, strict=True))
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
    removed = np.bincount(number * _RANKS + rank[owned], minlength=len(pairs) * _RANKS).reshape(-1, _RANKS)
    rest = counts[changed_node] - removed
    before, after = (np.where(have.any(1), have.argmax(1), _RANKS) for have in (counts[changed_node] > 0, rest > 0))
    changed = (before != after) | (np.take_along_axis(removed, before[:, None], 1)[:, 0] > 0)
    stays = changed & (after < _RANKS)
    row = np.full(len(pairs), -1)
    row[stays] = np.arange(np.count_nonzero(stays))
    kept = changed_node[stays] * _RANKS + after[stays]
    remaining = np.take_along_axis(rest, after[:, None] % _RANKS, 1)[stays]
    own = np.flatnonzero(stays[number] & (rank[owned] == after[number]))
    everything, left_out = _by_slot(slot, text), _by_slot(row[number[own]], text[owned[own]])
    left = np.empty((len(kept), vectors.shape[1]), dtype=np.float32)
    order = np.argsort(kept, kind="stable")  # a node's rows share the sum of its texts
    for start in range(0, len(order), _ROWS):
        part = order[start : start + _ROWS]
        slots, place = np.unique(kept[part], return_inverse=True)
        sums = _sums(everything, slots, vectors)[place] - _sums(left_out, part, vectors)
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
