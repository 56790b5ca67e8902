"""The plots of the page, each a pure function from tables to a finished plot."""

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stages.common.figures import PALETTE, Plot, drawing, file_name, finished
from stages.common.schemas import NO_KEYWORD
from stages.results.page.material import DatasetMaterial

_SIGNS = ((1, PALETTE["good"], "solid", "positive"), (-1, PALETTE["bad"], "dashed", "negative"))
_NEIGHBOURS = 8     # of each sign; more would not be readable
_KEYWORDS = 15


def keyword_plot(dataset: DatasetMaterial) -> Plot | None:
    """Return the most frequent keywords of all texts as bars; None without keywords."""
    top = top_keywords(dataset.keywords)
    if top.empty:
        return None
    with drawing(5.6, 0.5 + 0.23 * len(top)) as figure:
        axes = figure.add_subplot()
        _bars(axes, top)
        return finished(figure, file_name("keywords", dataset.name), "Most frequent keywords",
                        ", ".join(f"{word} {count}" for word, count in top.items()))


def top_keywords(keywords: pd.DataFrame | None) -> pd.Series:
    """Return texts per keyword for the most frequent ones, ties by keyword; empty without keywords."""
    if keywords is None:
        return pd.Series(dtype="int64")
    counts = keywords.loc[keywords["keyword"] != NO_KEYWORD, "keyword"].value_counts()
    order = sorted(counts.index, key=lambda word: (-counts[word], word))
    return counts.loc[order[:_KEYWORDS]]


def _bars(axes: Axes, counts: pd.Series) -> None:
    places = np.arange(len(counts))[::-1]
    axes.barh(places, counts.to_numpy(), height=0.7, color=PALETTE["first"])
    axes.set_yticks(places, [str(word) for word in counts.index])
    axes.tick_params(axis="y", labelcolor=PALETTE["ink"], length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("texts")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def degree_plot(dataset: DatasetMaterial) -> Plot | None:
    """Return how many nodes receive from how many positive and negative neighbours; None without a graph."""
    nodes = dataset.nodes
    if nodes is None or nodes.empty:
        return None
    top = int(nodes[["in_positive", "in_negative"]].to_numpy().max())
    with drawing(5.6, 2.4) as figure:
        axes = figure.add_subplot()
        for column, colour, shift, name in (("in_positive", PALETTE["good"], -0.2, "positive"),
                                            ("in_negative", PALETTE["bad"], 0.2, "negative")):
            if not nodes[column].any() and column == "in_negative":
                continue    # plain texts have no negative edges
            counts = np.bincount(nodes[column], minlength=top + 1)
            axes.bar(np.arange(top + 1) + shift, counts, width=0.4, color=colour, label=f"{name} neighbours")
        axes.set_xlabel("neighbours that a keyword receives from")
        axes.set_ylabel("keywords")
        axes.grid(axis="x", visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
        means = nodes[["in_positive", "in_negative"]].mean()
        return finished(figure, file_name("degrees", dataset.name), "Neighbours per keyword",
                        f"on average {means['in_positive']:.2f} positive and {means['in_negative']:.2f} negative, "
                        f"at most {top} of one sign")


def neighbourhood_plots(dataset: DatasetMaterial, count: int = 2) -> list[Plot]:
    """Return drawings of the ``count`` keywords with most drawable neighbours, of both signs if possible."""
    nodes, graph = dataset.nodes, dataset.graph
    if nodes is None or graph is None or graph.edges.empty:
        return []
    edges, nodes = graph.edges, nodes[nodes["node_id"].isin(list(graph.names))]
    ranked = nodes[nodes["node_id"].isin(graph.nodes["node_id"])]
    ranked = ranked.assign(both=np.minimum(ranked["in_positive"], ranked["in_negative"]).clip(upper=_NEIGHBOURS),
                           drawn=ranked["in_positive"].clip(upper=_NEIGHBOURS)
                           + ranked["in_negative"].clip(upper=_NEIGHBOURS))
    ranked = ranked[(ranked["drawn"] > 0) & (ranked["keyword"] != NO_KEYWORD)]
    ranked = ranked.sort_values(["both", "drawn", "cluster_size", "node_id"], ascending=[False, False, False, True])
    return [_neighbourhood_plot(dataset.name, neighbourhood(nodes, edges, int(centre)), place)
            for place, centre in enumerate(ranked["node_id"].head(count), 1)]


def neighbourhood(nodes: pd.DataFrame, edges: pd.DataFrame, centre: int) -> nx.DiGraph:
    """Return the strongest neighbours that node ``centre`` receives from, as a graph of keywords.

    Nodes carry ``sign`` (0 for the centre), edges ``sign`` and ``count``. A keyword of both signs cannot
    occur: such pairs are kept positive.
    """
    names = nodes.set_index("node_id")["keyword"]
    graph = nx.DiGraph(centre=names[centre])
    graph.add_node(names[centre], sign=0)
    incoming = edges[(edges["target"] == centre) & (edges["source"] != centre)]
    incoming = incoming.sort_values(["count", "source"], ascending=[False, True])
    for sign in (1, -1):
        for row in incoming[incoming["sign"] == sign].head(_NEIGHBOURS).itertuples():
            graph.add_node(names[row.source], sign=sign)
            graph.add_edge(names[row.source], names[centre], sign=sign, count=int(row.count))
    return graph


def _neighbourhood_plot(dataset: str, graph: nx.DiGraph, place: int) -> Plot:
    centre = graph.graph["centre"]
    sides = {sign: [node for node, value in graph.nodes(data="sign") if value == sign] for sign in (1, -1)}
    with drawing(5.6, 0.9 + 0.36 * max(3, *map(len, sides.values()))) as figure:
        _draw_neighbourhood(figure, graph, _positions(centre, sides))
        return finished(figure, file_name("neighbourhood", dataset, str(place)), f"Neighbours of “{centre}”",
                        f"positive: {', '.join(sides[1]) or 'none'}; negative: {', '.join(sides[-1]) or 'none'}")


def _positions(centre: str, sides: dict[int, list[str]]) -> dict[str, tuple[float, float]]:
    """Place negative neighbours on an arc to the left of the centre and positive ones on the right."""
    places = {centre: (0.0, 0.0)}
    for sign, words in sides.items():
        for index, word in enumerate(words):
            height = 0.0 if len(words) == 1 else 1 - 2 * index / (len(words) - 1)
            places[word] = (sign * (1.35 - 0.45 * height**2), height)
    return places


def _draw_neighbourhood(figure: Figure, graph: nx.DiGraph, places: dict[str, tuple[float, float]]) -> None:
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(-2.6, 2.6)
    axes.set_ylim(-1.25, 1.45)
    for sign, colour, line, name in _SIGNS:
        edges = [(one, other) for one, other, value in graph.edges(data="sign") if value == sign]
        words = [one for one, _ in edges]
        nx.draw_networkx_nodes(graph, places, nodelist=words, ax=axes, node_size=28, node_color=colour)
        nx.draw_networkx_edges(graph, places, edgelist=edges, ax=axes, edge_color=colour, style=line, arrowsize=7,
                               width=[0.7 + 0.5 * np.log1p(graph.edges[edge]["count"]) for edge in edges],
                               node_size=28, min_target_margin=9)
        for word in words:
            axes.text(places[word][0] + 0.09 * sign, places[word][1], _short(word), va="center",
                      ha="left" if sign > 0 else "right")
        axes.text(sign * 1.35, 1.42, f"{name} neighbours", color=colour, ha="center", va="top")
    centre = graph.graph["centre"]
    nx.draw_networkx_nodes(graph, places, nodelist=[centre], ax=axes, node_size=70, node_color=PALETTE["ink"])
    axes.text(0, 0.16, _short(centre), ha="center", va="bottom", weight="bold", zorder=5,
              bbox={"facecolor": PALETTE["paper"], "edgecolor": "none", "pad": 1.5})


def _short(word: str, length: int = 24) -> str:
    return word if len(word) <= length else word[:length - 1] + "…"
