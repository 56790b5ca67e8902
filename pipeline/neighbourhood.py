"""A phrase in the phrase graph, or a keyword in HCL's graph: its node, neighbours and texts, and a drawing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keycontrast.cells import cell, printable
from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from keycontrast.graph import KeywordGraph
from keycontrast.text.normal_form import normal_form
from pipeline.datasets import dataset_with
from pipeline.drawings import Neighbour, SignedEdge, neighbourhood_svg
from stages.common.paths import DatasetPaths
from stages.common.schemas import (
    CLUSTERS,
    EDGES,
    EXAMPLES,
    NO_KEYWORD,
    NODES,
    PHRASE_EDGES,
    PHRASE_NODES,
    PHRASE_TEXTS,
    TEXTS,
    TableSchema,
)
from stages.common.tables import check_columns, read_table

DRAWINGS = Path(".keycontrast") / "graphs"
_EXAMPLES = 3
_READABLE = 80


@dataclass(frozen=True)
class Graph:
    """One of the graphs of a data set: that of its phrases or, with signs, HCL's keyword graph."""

    paths: DatasetPaths
    signed: bool = False

    @classmethod
    def of(cls, dataset: str | None, signed: bool) -> "Graph":
        """Return the graph that a command means; errors as of :func:`pipeline.datasets.dataset_with`."""
        return cls(dataset_with((NODES if signed else PHRASE_NODES).name, dataset), signed)

    @property
    def schemas(self) -> tuple[TableSchema, TableSchema]:
        """Schemas of its nodes and of its edges."""
        return (NODES, EDGES) if self.signed else (PHRASE_NODES, PHRASE_EDGES)

    @property
    def nodes(self) -> Path:
        """Table of its nodes."""
        return self.paths.table(self.schemas[0].name)

    def edges(self, where: pc.Expression) -> pd.DataFrame:
        """Return the edges that pass ``where``, an expression over ``target`` and ``source``, as rows of ``edges``."""
        found = _rows(self.paths.table(self.schemas[1].name), where)
        return found if self.signed else found.rename(columns={"weight": "count"}).assign(sign=1)


@dataclass(frozen=True)
class Neighbourhood:
    """Part of a graph around one node.

    Attributes:
        nodes: rows of the table of nodes by node id, the centre first, each with ``sign`` (that of the centre's side,
            0 for the centre), ``hops`` and ``parent`` (the node through which it was reached).
        edges: rows of the table of edges between these nodes, without self loops.
        left_out: neighbours of the centre beyond the limit, by sign.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    left_out: dict[int, int]

    @property
    def centre(self) -> pd.Series:
        """The row of the keyword itself."""
        return self.nodes.iloc[0]


def node_of(graph: Graph, keyword: str) -> int:
    """Return the node id of ``keyword``, as written or in normal form.

    Raises:
        InputError: the graph has no such node; the nearest ones are named.
    """
    check_columns(graph.nodes, graph.schemas[0])
    for name in dict.fromkeys((keyword, normal_form(keyword))):
        found = _rows(graph.nodes, pc.field("keyword") == name, ["node_id"])
        if len(found):
            return int(found["node_id"].iloc[0])
    near = near_keywords(graph.nodes, keyword)
    hint = f"near it are {', '.join(map(repr, near))}" if near else "nothing in it comes near"
    holds = "keywords of training texts only" if graph.signed else "phrases that rank first in a text"
    raise InputError(f"the graph of {graph.paths.name} has no {printable(keyword)!r}; {hint}. It holds the {holds}.")


def near_keywords(nodes: Path, keyword: str, count: int = 6) -> list[str]:
    """Return keywords that contain ``keyword``, or are contained in it, or are spelt like it; the best first."""
    wanted = normal_form(keyword)
    if not wanted:
        return []
    query = """
        SELECT keyword FROM (
            SELECT keyword, jaro_winkler_similarity(keyword, $wanted) AS alike,
                   (contains(keyword, $wanted) OR contains(' ' || $wanted || ' ', ' ' || keyword || ' ')) AS part
            FROM nodes WHERE keyword <> $none)
        WHERE part OR alike > 0.8 ORDER BY part DESC, alike DESC, keyword LIMIT $count"""
    with duckdb.connect(":memory:") as connection:
        connection.register("nodes", read_table(nodes, columns=["keyword"]))
        rows = connection.execute(query, {"wanted": wanted, "none": NO_KEYWORD, "count": count}).fetchall()
    return [printable(keyword) for keyword, in rows]


def neighbourhood(graph: Graph, centre: int, limit: int | None, hops: int) -> Neighbourhood:
    """Return what lies within ``hops`` edges of node ``centre``, in either direction.

    Args:
        graph: of a data set.
        centre: node id.
        limit: neighbours followed per node and sign, by count, then by node id; None follows all.
        hops: at least 1.
    """
    for schema in graph.schemas:
        check_columns(graph.paths.table(schema.name), schema)
    reached = pd.DataFrame({"node_id": [centre], "sign": [0], "hops": [0], "parent": [centre]})
    frontier = reached
    left_out: dict[int, int] = {}
    for hop in range(1, hops + 1):
        near = _neighbours(_touching(graph, frontier["node_id"]), frontier)
        near = near[~near["node_id"].isin(reached["node_id"])]
        rank = near.groupby(["parent", "link"]).cumcount()
        kept = near if limit is None else near[rank < limit]
        if hop == 1:
            left_out = {sign: int((near["link"] == sign).sum() - (kept["link"] == sign).sum()) for sign in (1, -1)}
        frontier = kept.drop_duplicates("node_id").assign(hops=hop)[list(reached.columns)]
        reached = pd.concat([reached, frontier], ignore_index=True)
    ids = pa.array(reached["node_id"], pa.int32())
    nodes = _rows(graph.nodes, pc.field("node_id").isin(ids)).set_index("node_id")
    edges = graph.edges(pc.field("target").isin(ids) & pc.field("source").isin(ids))
    return Neighbourhood(reached.set_index("node_id").join(nodes), edges[edges["target"] != edges["source"]], left_out)


def _rows(path: Path, where: pc.Expression, columns: list[str] | None = None) -> pd.DataFrame:
    """Return the rows of a table that pass ``where``; row groups that cannot hold any are not read."""
    return read_table(path, columns=columns, filters=where).to_pandas()


def _touching(graph: Graph, ids: Iterable[int]) -> pd.DataFrame:
    wanted = pa.array(ids, pa.int32())
    return graph.edges(pc.field("target").isin(wanted) | pc.field("source").isin(wanted))


def _neighbours(edges: pd.DataFrame, frontier: pd.DataFrame) -> pd.DataFrame:
    """Return the neighbours of the frontier's nodes, the strongest of each node first.

    ``link`` is the sign of what the node receives, or without that of what it gives; ``sign`` the side of the
    drawing: that of the link at the centre, further out that of the parent.
    """
    both = pd.concat([edges.rename(columns={"target": "parent", "source": "node_id"}).assign(given=0),
                      edges.rename(columns={"source": "parent", "target": "node_id"}).assign(given=1)])
    both = both[both["parent"].isin(frontier["node_id"]) & (both["parent"] != both["node_id"])]
    both = both.rename(columns={"sign": "link"}).sort_values(["parent", "node_id", "given"])
    pairs = both.groupby(["parent", "node_id"], as_index=False).agg(link=("link", "first"), count=("count", "sum"))
    side = pairs["parent"].map(frontier.set_index("node_id")["sign"])
    pairs["sign"] = np.where(side == 0, pairs["link"], side)
    return pairs.sort_values(["parent", "count", "node_id"], ascending=[True, False, True])


def direct_neighbours(part: Neighbourhood) -> pd.DataFrame:
    """Return the centre's own neighbours with the signed counts of both directions.

    Returns:
        The neighbours' rows with ``receives`` (what the centre receives from it, negative for a negative edge, 0 for
        none), ``gives`` and ``strength``, their sum; positive ones first, the strongest first.
    """
    centre = part.nodes.index[0]
    near = part.nodes[part.nodes["hops"] == 1]
    signed = part.edges.assign(value=part.edges["sign"].astype("int64") * part.edges["count"])
    incoming = signed[signed["target"] == centre].set_index("source")["value"]
    outgoing = signed[signed["source"] == centre].set_index("target")["value"]
    table = near.assign(receives=incoming.reindex(near.index, fill_value=0),
                        gives=outgoing.reindex(near.index, fill_value=0)).reset_index()
    table["strength"] = table["receives"].abs() + table["gives"].abs()
    return table.sort_values(["sign", "strength", "node_id"], ascending=[False, False, True])


def example_texts(paths: DatasetPaths, keyword: str, count: int = _EXAMPLES) -> pd.DataFrame:
    """Return the first training examples of a keyword's cluster; without one, those that have it elsewhere.

    Returns:
        Columns ``example_id``, ``role`` (where they have it: input, output or negative), ``source``, ``target`` and
        ``negative`` (null without).
    """
    for schema in (CLUSTERS, EXAMPLES, TEXTS):
        check_columns(paths.table(schema.name), schema)
    columns = {"input": "keyword", "output": "output_keyword", "negative": "negative_keyword"}
    role, found = "", pd.DataFrame()
    while columns and found.empty:
        role = next(iter(columns))
        found = _rows(paths.table("clusters"), pc.field(columns.pop(role)) == keyword, ["example_id"])
    ids = found["example_id"].sort_values().head(count)
    examples = _rows(paths.table("examples"), pc.field("example_id").isin(pa.array(ids, pa.int64())))
    roles = ["source", "target", "negative"]
    used = pd.concat([examples[f"{name}_id"].dropna() for name in roles]).astype("int64")
    rows = _rows(paths.table("texts"), pc.field("text_id").isin(pa.array(used, pa.int64())), ["text_id", "text"])
    texts = rows.set_index("text_id")["text"]
    return pd.DataFrame({"example_id": examples["example_id"], "role": role,
                         **{name: examples[f"{name}_id"].map(texts) for name in roles}})


def holding_texts(paths: DatasetPaths, node: int, count: int = _EXAMPLES) -> pd.DataFrame:
    """Return the first texts that hold a phrase: columns ``text_id`` and ``text``."""
    for schema in (PHRASE_TEXTS, TEXTS):
        check_columns(paths.table(schema.name), schema)
    ids = _rows(paths.table(PHRASE_TEXTS.name), pc.field("node_id") == node, ["text_id"])["text_id"].head(count)
    return _rows(paths.table(TEXTS.name), pc.field("text_id").isin(pa.array(ids, pa.int64())), ["text_id", "text"])


def drawing_of(part: Neighbourhood, dataset: str) -> str:
    """Return the drawing of ``part`` as SVG."""
    order = {node: place for place, node in enumerate(part.nodes.index)}
    nodes = [Neighbour(row.keyword, int(row.sign), int(row.hops), order[row.parent])
             for row in part.nodes.itertuples()]
    edges = [SignedEdge(order[row.target], order[row.source], int(row.sign), int(row.count))
             for row in part.edges.itertuples(index=False)]
    return neighbourhood_svg(f"Neighbourhood of “{part.centre['keyword']}” in {dataset}", nodes, edges)


def phrase_drawing(part: Neighbourhood) -> str:
    """Return the drawing of a part of the phrase graph as SVG, as the library draws graphs of phrases."""
    places = pd.Series(range(len(part.nodes)), part.nodes.index)
    nodes = pa.table({"node_id": places.to_numpy(), **{
        name: part.nodes[name].to_numpy() for name in ("keyword", "texts", "centrality", "component", "community")}})
    edges = pa.table({"source": places[part.edges["source"]].to_numpy(), "weight": part.edges["count"].to_numpy(),
                      "target": places[part.edges["target"]].to_numpy()})
    return KeywordGraph(nodes, edges).svg(len(places))


def write_drawing(path: Path, svg: str) -> None:
    """Write a drawing, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(svg, encoding="utf-8")


def slug(text: str) -> str:
    """Return ``text`` as part of a file's name: letters and digits of any script, hyphens between."""
    return re.sub(r"[^\w.]+", "-", text).strip("-.")[:60] or "keyword"


def show(keyword: str, dataset: str | None, signed: bool, limit: int, hops: int, svg: Path | None,
         console: Console) -> None:
    """Print a keyword's node, neighbours and texts in one of a data set's graphs, and draw its neighbourhood.

    Raises:
        InputError: artifacts are missing, or there is no such keyword.
    """
    graph = Graph.of(dataset, signed)
    paths = graph.paths
    part = neighbourhood(graph, node_of(graph, keyword), limit, hops)
    name = str(part.centre["keyword"])
    _print_node(part, graph, console)
    if graph.signed:
        _print_signed(part, console)
    else:
        _print_sharing(part, console)
    _print_further(part, console)
    if graph.signed:
        _print_examples(example_texts(paths, name), console)
    else:
        _print_texts(holding_texts(paths, part.nodes.index[0]), console)
    path = svg or DRAWINGS / f"{paths.name}-{slug(name)}.svg"
    write_drawing(path, drawing_of(part, paths.name) if graph.signed else phrase_drawing(part))
    if len(part.nodes) > _READABLE:
        console.print(Text(f"{len(part.nodes)} keywords are many for one drawing; --neighbours and --hops narrow it."))
    console.print(Text(f"Drawing: {path}"), soft_wrap=True)


def _print_node(part: Neighbourhood, graph: Graph, console: Console) -> None:
    node = part.centre
    columns = read_table(graph.nodes, columns=["centrality", "component", "community"])
    rank = pc.sum(pc.greater(columns["centrality"], node["centrality"])).as_py() + 1
    shared = {name: pc.sum(pc.equal(columns[name], int(node[name]))).as_py() for name in ("component", "community")}
    name = printable(str(node["keyword"]))
    console.print(Text(f"{name}  (node {part.nodes.index[0]} of {graph.paths.name})", style="bold"))
    shown = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    own = (("cluster", f"{node['cluster_size']:,} training examples whose input has this keyword"),
           ("receives from", f"{node['in_positive']:,} positive, {node['in_negative']:,} negative neighbours"),
           ("gives to", f"{node['out_positive']:,} positively, {node['out_negative']:,} negatively"),
           ) if graph.signed else (("texts", f"{node['texts']:,}"), ("neighbours", f"{node['degree']:,}"))
    for label, value in (
            *own, ("centrality", f"{node['centrality']:.3g}, rank {rank:,} of {columns.num_rows:,}"),
            ("community", f"{node['community']}, {shared['community']:,} keywords"),
            ("component", f"{node['component']}, {shared['component']:,} keywords")):
        shown.add_row(Text(label, style="dim"), Text(value))
    console.print(shown)


def _print_signed(part: Neighbourhood, console: Console) -> None:
    near = direct_neighbours(part)
    if near.empty:
        console.print(Text("\nNo neighbours: only the self loop that the model adds."))
        return
    shown = Table("sign", "neighbour", title="Neighbours", title_justify="left")
    for head in ("it receives", "it gives", "cluster", "community"):
        shown.add_column(head, justify="right")
    last = None
    for row in near.itertuples(index=False):
        if last is not None and row.sign != last:
            shown.add_section()
        last = row.sign
        shown.add_row(Text("+" if row.sign > 0 else "−", style="blue" if row.sign > 0 else "yellow"),
                      cell(row.keyword), _signed(row.receives), _signed(row.gives), f"{row.cluster_size:,}",
                      str(row.community))
    console.print()
    console.print(shown)
    notes = [f"{count} more {name} neighbours" for sign, name in ((1, "positive"), (-1, "negative"))
             if (count := part.left_out.get(sign, 0))]
    if notes:
        console.print(Text(f"{' and '.join(notes)} with smaller counts are left out; --neighbours shows more."))


def _print_sharing(part: Neighbourhood, console: Console) -> None:
    shown = Table("neighbour", title="Phrases that share texts with it", title_justify="left")
    for head in ("shared texts", "its texts", "community"):
        shown.add_column(head, justify="right")
    for row in direct_neighbours(part).itertuples(index=False):
        shown.add_row(cell(row.keyword), f"{row.strength:,}", f"{row.texts:,}", str(row.community))
    console.print()
    console.print(shown if shown.row_count else Text("It shares no text with another phrase."))
    if left := part.left_out.get(1, 0):
        console.print(Text(f"{left} more that share fewer texts are left out; --neighbours shows more."))


def _print_texts(texts: pd.DataFrame, console: Console) -> None:
    shown = Table("text", "", title="Texts that hold it", title_justify="left")
    for number, text in texts.itertuples(index=False):
        shown.add_row(str(number), cell(text))
    console.print()
    console.print(shown)


def _signed(count: int) -> str:
    return f"{count:+,}".replace("-", "−") if count else "·"


def _print_further(part: Neighbourhood, console: Console) -> None:
    for hops, far in part.nodes[part.nodes["hops"] > 1].groupby("hops"):
        console.print(Text(f"\n{hops} edges away ({len(far)}): ", style="italic")
                      + Text(", ".join(map(printable, sorted(far["keyword"])))))


def _print_examples(examples: pd.DataFrame, console: Console) -> None:
    if examples.empty:
        return
    role = examples["role"].iloc[0]
    shown = Table("example", "text", "", title=f"Training examples that have it as {role} keyword",
                  title_justify="left")
    for row in examples.itertuples(index=False):
        texts = [("input", row.source), ("output", row.target), ("negative", row.negative)]
        texts = [(name, text) for name, text in texts if isinstance(text, str)]
        for place, (name, text) in enumerate(texts):
            shown.add_row("" if place else str(row.example_id), Text(name, style="dim"), cell(text),
                          end_section=place == len(texts) - 1)
    console.print()
    console.print(shown)
