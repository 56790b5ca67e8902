"""The keyword graph of a list of texts.

    >>> graph = keyword_graph(["A dog chases a ball.", "The ball hits a window.", "A dog barks at a window."])
    >>> graph.nodes.num_rows, graph.edges.num_rows
    (4, 10)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from keycontrast._code import code
from keycontrast.ranking import Keywords, Texts, listed

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class KeywordGraph:
    """Phrases, joined where they share a text.

    Attributes:
        nodes: Arrow table: node id, keyword, texts that hold it (``cluster_size``), degrees, centrality, component,
            community.
        edges: Arrow table: ``target``, ``source`` (node ids), ``sign`` and ``count``, the texts that hold both; each
            edge stands once in each direction.
    """

    nodes: pa.Table
    edges: pa.Table

    def networkx(self) -> nx.Graph:
        """Return the graph for networkx: nodes by keyword, other columns as attributes, edges with ``count``."""
        import networkx as nx

        graph = nx.Graph()
        names = self.nodes["keyword"].to_pylist()
        for row in self.nodes.to_pylist():
            graph.add_node(row.pop("keyword"), **{name: value for name, value in row.items() if value is not None})
        graph.add_edges_from((names[source], names[target], {"count": count}) for source, target, count in zip(
            *(self.edges[name].to_pylist() for name in ("source", "target", "count")), strict=True))
        return graph

    def graphml(self, path: str | Path) -> None:
        """Write the graph as GraphML, whole or not at all."""
        import networkx as nx

        with code("stages.common.tables").atomic_file(Path(path)) as temporary:
            nx.write_graphml(self.networkx(), temporary)


def keyword_graph(texts: Texts, top: int = 5, *, keywords: Keywords | None = None,
                  neighbours: int = 64) -> KeywordGraph:
    """Return the graph of the phrases of ``texts``, joined where they share a text (METHODS A.3 without signs).

    Args:
        texts: texts as :meth:`Keywords.rank` takes them.
        top: phrases of each text that become nodes; a text counts for all nodes that it contains.
        keywords: what ranks; by default ``Keywords()``.
        neighbours: of a node at most, by count.

    Raises:
        InputError: as :meth:`Keywords.rank`.
    """
    given = list(listed(texts))
    ranking = keywords or Keywords()
    empty = code("stages.common.columns.tokens").TOKENS.arrow().empty_table()
    tokens = pa.concat_tables([empty, *ranking.tokens(given)]).combine_chunks()
    ranked = ranking.ranked(tokens, top)
    ids = pa.array(range(len(given)), pa.int64())
    examples = pa.table({"example_id": ids, "split": pa.array(["train"] * len(given), pa.string()), "text_id": ids})
    written = pa.table({"text_id": ids, "text": pa.array([str(text) for text in given], pa.string())})
    settings = code("stages.graph.params").Graph(max_nbr=neighbours)
    _, made = code("stages.graph.text_graph").run(examples, ranked, written, tokens, settings)
    return KeywordGraph(made.nodes, made.edges)
