"""A phrase in the phrase graph, or a keyword in HCL's graph: its node, neighbours and texts, and a drawing."""

import re
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

from keycontrast.cells import cell, print_rows, printable
from keycontrast.errors import InputError
from keycontrast.files import atomic_file
from keycontrast.graph import KeywordGraph
from keycontrast.text.normal_form import normal_form
from pipeline.datasets import dataset_with
from stages.common import schemas
from stages.common.paths import DatasetPaths
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
        return cls(dataset_with((schemas.NODES if signed else schemas.PHRASE_NODES).name, dataset), signed)

    @property
    def schemas(self) -> tuple[schemas.TableSchema, schemas.TableSchema]:
        """Schemas of its nodes and of its edges."""
        return (schemas.NODES, schemas.EDGES) if self.signed else (schemas.PHRASE_NODES, schemas.PHRASE_EDGES)

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
    """Part of a graph around one node: rows of the tables of nodes, by node id, and of edges.

    The centre is first; nodes have ``hops`` and ``sign``, that of the edge through which they were reached.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame     # without self loops
    left_out: dict[int, int]    # neighbours of the centre beyond the limit, by sign

    @property
    def centre(self) -> pd.Series:
        """The row of the keyword itself."""
        return self.nodes.iloc[0]


def node_of(graph: Graph, keyword: str) -> int:
    """Return the node id of ``keyword``, as written or in normal form."""
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
        rows = connection.execute(query, {"wanted": wanted, "none": schemas.NO_KEYWORD, "count": count}).fetchall()
    return [printable(keyword) for keyword, in rows]


def neighbourhood(graph: Graph, centre: int, limit: int | None, hops: int) -> Neighbourhood:
    """Return what lies within ``hops`` edges of node ``centre``, in either direction.

    ``limit`` neighbours are followed per node and sign, by count, then by node id; None follows all.
    """
    for schema in graph.schemas:
        check_columns(graph.paths.table(schema.name), schema)
    reached = frontier = pd.DataFrame({"node_id": [centre], "sign": [0], "hops": [0]})
    left_out: dict[int, int] = {}
    for hop in range(1, hops + 1):
        near = _neighbours(graph, frontier["node_id"])
        near = near[~near["node_id"].isin(reached["node_id"])]
        kept = near if limit is None else near[near.groupby(["parent", "sign"]).cumcount() < limit]
        if hop == 1:
            left_out = near["sign"].value_counts().sub(kept["sign"].value_counts(), fill_value=0).astype(int).to_dict()
        frontier = kept.drop_duplicates("node_id").assign(hops=hop)[list(reached.columns)]
        reached = pd.concat([reached, frontier], ignore_index=True)
    ids = pa.array(reached["node_id"], pa.int32())
    nodes = _rows(graph.nodes, pc.field("node_id").isin(ids)).set_index("node_id")
    edges = graph.edges(pc.field("target").isin(ids) & pc.field("source").isin(ids))
    return Neighbourhood(reached.set_index("node_id").join(nodes), edges[edges["target"] != edges["source"]], left_out)


def _rows(path: Path, where: pc.Expression, columns: list[str] | None = None) -> pd.DataFrame:
    """Return the rows of a table that pass ``where``; row groups that cannot hold any are not read."""
    return read_table(path, columns=columns, filters=where).to_pandas()


def _neighbours(graph: Graph, parents: pd.Series) -> pd.DataFrame:
    """Return the neighbours of nodes, the strongest of each node first.

    ``sign`` is that of what the node ``parent`` receives, or without that of what it gives.
    """
    wanted = pa.array(parents, pa.int32())
    edges = graph.edges(pc.field("target").isin(wanted) | pc.field("source").isin(wanted))
    both = pd.concat([edges.rename(columns={"target": "parent", "source": "node_id"}),
                      edges.rename(columns={"source": "parent", "target": "node_id"})])    # what is received first
    both = both[both["parent"].isin(parents) & (both["parent"] != both["node_id"])]
    pairs = both.groupby(["parent", "node_id"], as_index=False).agg(sign=("sign", "first"), count=("count", "sum"))
    return pairs.sort_values(["parent", "count", "node_id"], ascending=[True, False, True])


def direct_neighbours(part: Neighbourhood) -> pd.DataFrame:
    """Return the centre's own neighbours, positive ones first, the strongest first.

    ``receives`` is what the centre receives from each (negative for a negative edge, 0 for none), ``gives`` what it
    gives, ``strength`` their sum.
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
    for schema in (schemas.CLUSTERS, schemas.EXAMPLES, schemas.TEXTS):
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
    for schema in (schemas.PHRASE_TEXTS, schemas.TEXTS):
        check_columns(paths.table(schema.name), schema)
    ids = _rows(paths.table("phrase_texts"), pc.field("node_id") == node, ["text_id"])["text_id"].head(count)
    return _rows(paths.table("texts"), pc.field("text_id").isin(pa.array(ids, pa.int64())), ["text_id", "text"])


def drawing_of(part: Neighbourhood) -> str:
    """Return the drawing of a part of a graph as SVG, as the library draws graphs of phrases; both directions of an
    edge are one line.
    """
    places = pd.Series(range(len(part.nodes)), part.nodes.index)
    shown = part.nodes if "texts" in part.nodes else part.nodes.rename(columns={"cluster_size": "texts"})
    nodes = pa.table({"node_id": places.to_numpy(), **{
        name: shown[name].to_numpy() for name in ("keyword", "texts", "centrality", "component", "community")}})
    ends = np.sort(np.stack([places[part.edges[end]].to_numpy() for end in ("source", "target")], axis=1), axis=1)
    edges = pd.DataFrame({"source": ends[:, 0], "target": ends[:, 1], "sign": part.edges["sign"].to_numpy(),
                          "weight": part.edges["count"].to_numpy()})
    summed = edges.groupby(["source", "target", "sign"], as_index=False)["weight"].sum()
    return KeywordGraph(nodes, pa.Table.from_pandas(summed, preserve_index=False)).svg(len(places))


def write_drawing(path: Path, svg: str) -> None:
    """Write a drawing, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(svg, encoding="utf-8")


def slug(text: str) -> str:
    """Return ``text`` as part of a file's name: letters and digits of any script, hyphens between."""
    return re.sub(r"[^\w.]+", "-", text).strip("-.")[:60] or "keyword"


def show(keyword: str, dataset: str | None, signed: bool, limit: int, hops: int, svg: Path | None,
         console: Console) -> None:
    """Print a keyword's node, neighbours and texts in one of a data set's graphs, and draw its neighbourhood."""
    graph = Graph.of(dataset, signed)
    paths = graph.paths
    part = neighbourhood(graph, node_of(graph, keyword), limit, hops)
    name = str(part.centre["keyword"])
    _print_node(part, graph, console)
    _print_neighbours(part, signed, console)
    for far_hops, far in part.nodes[part.nodes["hops"] > 1].groupby("hops"):
        console.print(Text(f"\n{far_hops} edges away ({len(far)}): ", style="italic")
                      + Text(", ".join(map(printable, sorted(far["keyword"])))))
    console.print()
    if signed:
        examples = example_texts(paths, name)
        if len(examples):
            role, texts = examples["role"].iloc[0], examples.drop(columns="role").astype(object)
            print_rows(["example", "input", "output", "negative"], texts.where(texts.notna(), None).to_numpy().tolist(),
                       console, f"Training examples that have it as {role} keyword")
    else:
        texts = holding_texts(paths, part.nodes.index[0])
        print_rows(["text", ""], texts.to_numpy().tolist(), console, "Texts that hold it")
    path = svg or DRAWINGS / f"{paths.name}-{slug(name)}.svg"
    write_drawing(path, drawing_of(part))
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


def _print_neighbours(part: Neighbourhood, signed: bool, console: Console) -> None:
    near = direct_neighbours(part)
    heads = ("it receives", "it gives", "cluster") if signed else ("shared texts", "its texts")
    shown = Table(*(["sign"] if signed else []), "neighbour", title_justify="left",
                  title="Neighbours" if signed else "Phrases that share texts with it")
    for head in (*heads, "community"):
        shown.add_column(head, justify="right")
    for row in near.itertuples(index=False):
        own = (_signed(row.receives), _signed(row.gives), f"{row.cluster_size:,}") if signed else (
            f"{row.strength:,}", f"{row.texts:,}")
        mark = [Text("+" if row.sign > 0 else "−", style="blue" if row.sign > 0 else "yellow")] if signed else []
        shown.add_row(*mark, cell(row.keyword), *own, str(row.community))
    console.print()
    console.print(shown if len(near) else Text("It has no neighbours."))
    notes = [f"{count} more {name}neighbours" for sign, name in ((1, "positive " if signed else ""), (-1, "negative "))
             if (count := part.left_out.get(sign, 0))]
    if notes:
        console.print(Text(f"{' and '.join(notes)} with smaller counts are left out; --neighbours shows more."))


def _signed(count: int) -> str:
    return f"{count:+,}".replace("-", "−") if count else "·"
