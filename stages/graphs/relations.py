"""Edges of the keyword graph from clusters (HCL 3.1, METHODS A.3), as sparse matrix products.

For a cluster c let n[c, a] be the number of its members whose output keyword is a, and m[c, b] the number
whose negative keyword is b. "Each member's output keyword receives from every member's output keyword" is
then the matrix nᵀn, and the negative relation nᵀm; no pair of members is ever visited.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from stages.artifacts.schemas import NO_KEYWORD
from stages.graphs.triples import with_keyword


@dataclass(frozen=True)
class Relations:
    """Edges and what was decided on the way.

    Attributes:
        edges: columns ``target``, ``source`` (node ids), ``sign`` (+1, -1), ``count``.
        positive_self_pairs: positive self loops left out, because the model adds one to every node.
        negative_self_pairs: negative self loops dropped.
        conflicts: ordered pairs that were positive and negative and stayed positive.
        capped: edges dropped by ``max_nbr``.
        capped_outputs: (cluster, keyword) counts dropped by ``max_cluster_outputs``.
    """

    edges: pd.DataFrame
    positive_self_pairs: int
    negative_self_pairs: int
    conflicts: int
    capped: int
    capped_outputs: int


def relate(clusters: pd.DataFrame, nodes: list[str], max_nbr: int, max_cluster_outputs: int | None,
           link_inputs: bool) -> Relations:
    """Return the edges of the keyword graph.

    Args:
        clusters: columns ``keyword``, ``output_keyword`` and ``negative_keyword``, one row per member.
        nodes: sorted keywords; position is node id.
        max_nbr: neighbours kept per node and sign: by count, then by node id.
        max_cluster_outputs: distinct keywords kept per cluster and column: by count, then by node id.
        link_inputs: also link each input keyword with its own output keyword, both ways.
    """
    outputs, dropped_out = _count_matrix(clusters, "output_keyword", nodes, max_cluster_outputs)
    negatives, dropped_neg = _count_matrix(clusters, "negative_keyword", nodes, max_cluster_outputs)
    positive = (outputs.T @ outputs).tocsr()
    negative = (outputs.T @ negatives).tocsr()
    if link_inputs:
        links = _links(clusters, nodes)
        positive = (positive + links + links.T).tocsr()
    positive_self, positive = _without_diagonal(positive)
    negative_self, negative = _without_diagonal(negative)
    overlap = negative.multiply(positive > 0).tocsr()
    negative = (negative - overlap).tocsr()
    negative.eliminate_zeros()
    kept = [_strongest(matrix, max_nbr) for matrix in (positive, negative)]
    edges = pd.concat([_edge_rows(matrix, sign) for matrix, sign in zip(kept, (1, -1), strict=True)])
    return Relations(
        edges=edges.sort_values(["target", "source", "sign"]).reset_index(drop=True),
        positive_self_pairs=positive_self, negative_self_pairs=negative_self, conflicts=overlap.nnz,
        capped=positive.nnz + negative.nnz - sum(matrix.nnz for matrix in kept),
        capped_outputs=dropped_out + dropped_neg)


def _count_matrix(clusters: pd.DataFrame, column: str, nodes: list[str],
                  limit: int | None) -> tuple[sparse.csr_matrix, int]:
    """Return counts (n clusters, n nodes) of the keywords in ``column`` and how many entries were cut."""
    rows = clusters[with_keyword(clusters, column)]
    heads = sorted(set(clusters["keyword"]))
    index = pd.Index(nodes)
    matrix = sparse.csr_matrix(
        (np.ones(len(rows), dtype=np.int64),
         (pd.Index(heads).get_indexer(rows["keyword"]), index.get_indexer(rows[column]))),
        shape=(len(heads), len(nodes)))
    matrix.sum_duplicates()
    cut = _strongest(matrix, limit) if limit else matrix
    return cut, matrix.nnz - cut.nnz


def _links(clusters: pd.DataFrame, nodes: list[str]) -> sparse.csr_matrix:
    rows = clusters[with_keyword(clusters, "output_keyword") & (clusters["keyword"] != NO_KEYWORD)]
    index = pd.Index(nodes)
    return sparse.csr_matrix(
        (np.ones(len(rows), dtype=np.int64),
         (index.get_indexer(rows["keyword"]), index.get_indexer(rows["output_keyword"]))),
        shape=(len(nodes), len(nodes)))


def _without_diagonal(matrix: sparse.csr_matrix) -> tuple[int, sparse.csr_matrix]:
    on_diagonal = int(np.count_nonzero(matrix.diagonal()))
    matrix = (matrix - sparse.diags(matrix.diagonal(), dtype=matrix.dtype)).tocsr()
    matrix.eliminate_zeros()
    return on_diagonal, matrix


def _strongest(matrix: sparse.csr_matrix, limit: int) -> sparse.csr_matrix:
    """Keep the ``limit`` largest entries of each row; equal counts keep the smaller column."""
    entries = matrix.tocoo()
    order = np.lexsort((entries.col, -entries.data, entries.row))
    row = entries.row[order]
    starts = np.searchsorted(row, np.arange(matrix.shape[0]))
    keep = order[np.arange(len(row)) - starts[row] < limit]
    return sparse.csr_matrix((entries.data[keep], (entries.row[keep], entries.col[keep])), shape=matrix.shape)


def _edge_rows(matrix: sparse.csr_matrix, sign: int) -> pd.DataFrame:
    entries = matrix.tocoo()
    return pd.DataFrame({"target": entries.row.astype(np.int32), "source": entries.col.astype(np.int32),
                         "sign": np.full(entries.nnz, sign, dtype=np.int8),
                         "count": entries.data.astype(np.int64)})
