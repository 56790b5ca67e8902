"""Node statistics and the shares that bound what a contrast can do (METHODS A.3)."""

import networkx as nx
import numpy as np
import pandas as pd

from stages.artifacts.schemas import NO_KEYWORD

_DEGREES = (("in_positive", "target", 1), ("in_negative", "target", -1),
            ("out_positive", "source", 1), ("out_negative", "source", -1))


def node_table(nodes: list[str], clusters: pd.DataFrame, edges: pd.DataFrame) -> pd.DataFrame:
    """Return table ``nodes``: sizes, degrees by sign and centrality of each keyword."""
    sizes = clusters["keyword"].value_counts()
    table = pd.DataFrame({"node_id": np.arange(len(nodes), dtype=np.int32), "keyword": nodes})
    table["cluster_size"] = table["keyword"].map(sizes).fillna(0).astype(np.int64)
    for name, end, sign in _DEGREES:
        counts = edges.loc[edges["sign"] == sign, end].value_counts()
        table[name] = table["node_id"].map(counts).fillna(0).astype(np.int32)
    table["centrality"] = centrality(len(nodes), edges)
    return table


def centrality(n_nodes: int, edges: pd.DataFrame, tolerance: float = 1e-10) -> np.ndarray:
    """Return PageRank over the positive edges (n_nodes,), summing to 1.

    A node that receives from another votes for it, with the edge's count as weight.

    Args:
        n_nodes: number of nodes.
        edges: table ``edges``.
        tolerance: absolute L1 change at which iteration stops; networkx multiplies its own by the number
            of nodes, hence the division.
    """
    if n_nodes == 0:
        return np.zeros(0)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    positive = edges[edges["sign"] == 1]
    graph.add_weighted_edges_from(positive[["target", "source", "count"]].itertuples(index=False, name=None))
    ranks = nx.pagerank(graph, tol=tolerance / n_nodes, max_iter=1000)
    return np.array([ranks[node] for node in range(n_nodes)])


def contrast_shares(triples: pd.DataFrame, nodes: list[str], edges: pd.DataFrame) -> dict[str, float]:
    """Return the shares of training examples that METHODS A.3 asks to report beside every contrast.

    An example whose output keyword has no negative neighbour falls back to its own negative keyword
    (METHODS A.4); without either it takes part in no keyword contrast and counts as masked.
    """
    if triples.empty:
        return {}
    node_id = pd.Index(nodes)
    with_negative = np.isin(node_id.get_indexer(triples["output_keyword"]),
                            edges.loc[edges["sign"] == -1, "target"].unique())
    same = triples["output_keyword"] == triples["negative_keyword"]
    own = triples["negative_keyword"].notna() & ~same
    return {
        "share_input_equals_output": _share(triples["input_keyword"] == triples["output_keyword"]),
        "share_output_equals_negative": _share(same),
        "share_with_negative_neighbour": _share(with_negative),
        "share_own_negative_only": _share(~with_negative & own),
        "share_masked": _share(~with_negative & ~own),
        "share_without_input_keyword": _share(triples["input_keyword"] == NO_KEYWORD),
    }


def _share(where: pd.Series | np.ndarray) -> float:
    return round(float(np.mean(where)), 6)
