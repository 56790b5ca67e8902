"""The keyword graph of a list of texts.

    >>> graph = keyword_graph(["A dog chases a ball.", "The ball hits a window.", "A dog barks at a window."])
    >>> graph
    <keyword graph: 4 nodes, 5 edges, 1 component>
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from keycontrast.choice import is_whole
from keycontrast.containment import SEARCHED, Containment, contained
from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from keycontrast.keywords import Keywords, Texts
from keycontrast.network import phrase_graph
from keycontrast.ranking.blocks import blocks

if TYPE_CHECKING:
    import networkx as nx

_PAIR = ["keyword", "text_id"]


@dataclass(frozen=True, repr=False)
class KeywordGraph:
    """Phrases, joined where they share a text.

    Attributes:
        nodes: Arrow table: ``node_id``, ``keyword``, ``texts`` that hold it, ``degree``, ``centrality`` (PageRank),
            ``component``, ``community``.
        edges: Arrow table: ``source`` and ``target`` (node ids, the smaller first) and ``weight``, the texts that hold
            both.
    """

    nodes: pa.Table
    edges: pa.Table

    def __repr__(self) -> str:
        parts = len(pc.unique(self.nodes["component"]))
        return (f"<keyword graph: {self.nodes.num_rows} node{'s' * (self.nodes.num_rows != 1)}, {self.edges.num_rows} "
                f"edge{'s' * (self.edges.num_rows != 1)}, {parts} component{'s' * (parts != 1)}>")

    def _repr_html_(self) -> str:
        return self.svg()

    def svg(self, limit: int = 60) -> str:
        """Return a drawing of the largest components: at most ``limit`` nodes, coloured by community, and the
        strongest edges between them."""
        from keycontrast.picture import svg_of

        if not is_whole(limit) or limit < 1:
            raise InputError(f"limit: must be a whole number from 1, the nodes to draw, found {limit!r}")
        return svg_of(self.nodes, self.edges, limit)

    def html(self, limit: int = 60) -> str:
        """Return a page with the drawing, as of :meth:`svg`, that needs no network."""
        from keycontrast.picture import page_of

        return page_of(repr(self), self.svg(limit))

    def networkx(self) -> nx.Graph:
        """Return the graph for networkx: nodes by keyword, other columns as attributes, edges with ``weight``."""
        import networkx as nx

        graph = nx.Graph()
        names = self.nodes["keyword"].to_pylist()
        for row in self.nodes.drop_columns("node_id").to_pylist():
            graph.add_node(row.pop("keyword"), **row)
        graph.add_edges_from((names[source], names[target], {"weight": weight}) for source, target, weight in zip(
            *(self.edges[name].to_pylist() for name in ("source", "target", "weight")), strict=True))
        return graph

    def graphml(self, path: str | Path) -> None:
        """Write the graph as GraphML, whole or not at all, with U+FFFD for characters that XML does not allow."""
        import networkx as nx

        from keycontrast.picture import xml_text

        graph = self.networkx()
        replaced = {name: f"{xml_text(name)} ({node})" for node, name in enumerate(graph) if xml_text(name) != name}
        with atomic_file(Path(path)) as temporary:
            nx.write_graphml(nx.relabel_nodes(graph, replaced), temporary)


def keyword_graph(texts: Texts, top: int = 5, *, keywords: Keywords | None = None,
                  neighbours: int = 64) -> KeywordGraph:
    """Return the graph of the phrases of ``texts``, joined where they share a text.

    Args:
        texts: texts as :meth:`Keywords.rank` takes them.
        top: phrases of each text that become nodes; a text counts for all nodes that it contains.
        keywords: the ranking; by default ``Keywords()``.
        neighbours: an edge stays if it is among the ``neighbours`` strongest of one of its two nodes.
    """
    if not is_whole(neighbours) or neighbours < 1:
        raise InputError(f"neighbours: must be a whole number from 1, found {neighbours!r}")
    ranking = keywords or Keywords()
    tokens = ranking.tokens(texts)
    ranked = ranking.ranked(tokens, top)
    named = ranked.filter(pc.greater(ranked["score"], 0)).select(_PAIR)
    pieces = (block.table for block in blocks(tokens.select(SEARCHED)))
    holding = contained(pieces, Containment(named["keyword"].unique().to_pylist(), lemmas=False))
    held = pa.concat_tables([named, *(part.select(_PAIR) for part in holding)]).group_by(_PAIR).aggregate([])
    names = pc.unique(held["keyword"])
    names = names.take(pc.sort_indices(names))
    return KeywordGraph(*phrase_graph(names, pc.index_in(held["keyword"], names).to_numpy(),
                                      held["text_id"].to_numpy(), neighbours))
