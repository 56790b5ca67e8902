"""The part of the keyword graph that a training item sees when its prior is computed (`own_edges`, docs/hcl.md).

The graph of the training data leaks an item's target to it: the item itself makes the target's keyword a neighbour of
the input's. So an item's own contribution, or that of its connected component, is hidden from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from keycontrast.errors import InputError
from models.hcl.graph import KeywordGraph, Views, neighbours, view_rows
from stages.common.schemas import GRAPH_ONLY, IN_GRAPH, NO_KEYWORD
from stages.tracks.hcl.data import node_ids
from stages.tracks.hcl.leave_one_out import NOBODY, edge_changes, node_changes

# In the order in which their texts stand for a keyword, and whose text each is.
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
    draws: Tensor           # a number of each item's in [0, 1), by which it loses its keyword in some epochs (n,)
    dropout: float          # share of items that do

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


def views_of_items(items: pd.DataFrame, graph: KeywordGraph, tables: GraphTables, made: Mapping[str, Any],
                   settings: Mapping[str, Any], seed: int) -> ItemViews:
    """Return the views of the training items under the blocks ``graph`` (``made``) and ``train_hcl.graph``."""
    examples = _owned(tables.examples.sort_values("example_id"), settings["own_edges"])
    train = examples[examples["split"] == "train"]
    text_ids = tables.text_vectors["text_id"].to_numpy()
    vectors = tables.text_vectors["vector"].combine_chunks().flatten().to_numpy().reshape(len(text_ids), -1)
    views, view = None, torch.zeros(len(train), dtype=torch.int64)
    if settings["own_edges"] != "leaking":
        views = _views(examples[examples["split"].isin(IN_GRAPH)], graph, tables, made, text_ids, vectors)
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
    """Return, by split, how far the graph reveals the target keyword, in training as the items see the graph.

    ``target_is_neighbour`` and ``target_is_only_neighbour`` are shares of the items whose input and target have
    different keywords, ``without_neighbour`` and ``unseen`` (whose keyword is no node) of all items.
    """
    none, offsets = torch.zeros(0, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    whole = Views(offsets, none, none, none.to(torch.int8), offsets, none, none, graph.h0.new_zeros(0))
    shares = {}
    for split, rows in items.groupby("split"):
        kx, ky = (torch.from_numpy(rows[name].to_numpy(dtype=np.int64, copy=True))
                  for name in ("input_node", "output_node"))
        views = item_views.views if item_views is not None and split == "train" else None
        view = item_views.view if item_views is not None and views is not None else torch.zeros_like(kx)
        views = whole if views is None else views
        seen = kx >= 0
        seen[seen.clone()] = view_rows(graph, kx[seen], views, view[seen]) != -1
        senders, place = neighbours(graph, kx[seen], views, view[seen])
        place = torch.nonzero(seen).squeeze(-1)[place]
        count = torch.bincount(place, minlength=len(kx))
        told = torch.zeros(len(kx), dtype=torch.bool)
        told[place[senders == ky[place]]] = True
        differ = torch.from_numpy((rows["keyword"] != rows["target_keyword"]).to_numpy(copy=True))
        marks = {"keywords_differ": differ, "target_is_neighbour": told[differ],
                 "target_is_only_neighbour": (told & (count == 1))[differ], "without_neighbour": count == 0,
                 "unseen": ~seen}
        shares[str(split)] = {name: round(float(mark.float().mean()), 6) if len(mark) else 0.0
                              for name, mark in marks.items()}
    return shares


def _views(counted: pd.DataFrame, graph: KeywordGraph, tables: GraphTables, made: Mapping[str, Any],
           text_ids: np.ndarray, vectors: np.ndarray) -> Views:
    nodes, groups = graph.num_nodes, int(counted["owner"].to_numpy().max(initial=NOBODY)) + 1
    names = tables.nodes.sort_values("node_id")["keyword"].tolist()
    keyword = tables.keywords.set_index("text_id")["keyword"].astype(object)
    clusters, place = tables.clusters, pd.Index(counted["example_id"]).get_indexer(tables.clusters["example_id"])
    if (place < 0).any():
        raise InputError("table clusters has examples that table examples has not. Run the stages clusters, graph "
                         "and node_vectors again.")
    items = counted.iloc[place]
    # The mark for none forms no edges.
    ids = {role: np.where(clusters[column] == NO_KEYWORD, -1, node_ids(names, clusters[column])) for role, column in (
        ("cluster", "keyword"), ("output", "output_keyword"), ("negative", "negative_keyword"))}
    own = clusters["keyword"].to_numpy() == items["source_id"].map(keyword).to_numpy()
    members = pd.DataFrame({**ids, "own": own, "group": items["owner"].to_numpy(),
                            "negative_group": items["negative_owner"].to_numpy()})
    target, source, sign = (getattr(graph, name).numpy() for name in ("target", "source", "sign"))
    apart = np.flatnonzero(target != source)
    group, edge, signs = edge_changes(members, target[apart], source[apart], sign[apart], nodes, made["link_inputs"],
                                      made["max_cluster_outputs"])
    numbers, of_edge = apart[edge], _offsets(group, groups)
    parts = []
    for rank, (name, of_text) in enumerate(_ROLES.items()):
        rows = counted[counted[name].notna()]
        parts.append(pd.DataFrame({"text": rows[name].astype("int64"), "rank": rank, "group": rows["owner"],
                                   "of_text": rows[of_text]}))
    roles = pd.concat(parts)
    # Texts without a vector can stand for no keyword.
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
    """Return the share of training items that lose their keyword: as given, or the excess in validation."""
    if settings["kw_dropout"] is not None:
        return float(settings["kw_dropout"])
    if views is None:
        return 0.0
    nodes = {split: items.loc[items["split"] == split, "input_node"].to_numpy(dtype=np.int64, copy=True)
             for split in ("train", "validation")}
    gone = float((view_rows(graph, torch.from_numpy(nodes["train"]), views, view) == -1).float().mean())
    unseen = float(np.mean(nodes["validation"] < 0)) if len(nodes["validation"]) else 0.0
    return max(0.0, (unseen - gone) / (1.0 - gone)) if gone < 1.0 else 0.0
